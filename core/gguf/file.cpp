#include "core/gguf/file.h"

#include <algorithm>
#include <utility>

#include "core/gguf/parser.h"

namespace bonsai::gguf {
namespace {

// The position in `sorted` of the item called `name`; name_of(position) gives an item's name.
template <class NameOf>
std::optional<size_t> find_sorted(const std::vector<size_t> &sorted, std::string_view name, NameOf name_of) {
  const auto found = std::lower_bound(sorted.begin(), sorted.end(), name,
                                      [&](size_t i, std::string_view wanted) { return name_of(i) < wanted; });
  if (found == sorted.end() || name_of(*found) != name) return std::nullopt;
  return *found;
}

}  // namespace

uint64_t Tensor::rows() const {
  uint64_t rows = 1;
  for (size_t i = 1; i < shape.size(); ++i) rows *= shape[i];
  return rows;
}

Result<File> File::open(const std::string &path) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return tl::unexpected(mapping.error());
  auto file = parse(mapping->bytes(), path);
  if (file) file->mapping_ = std::move(*mapping);
  return file;
}

Result<File> File::parse(std::span<const std::byte> bytes, std::string name) {
  auto file = Parser(bytes).parse();
  if (!file) return fail("{}: {}", name, file.error().message);
  file->name_ = std::move(name);
  return file;
}

const Value *File::find(std::string_view key) const {
  const auto found = find_sorted(by_key_, key, [&](size_t i) { return metadata_[i].first; });
  return found ? &metadata_[*found].second : nullptr;
}

const Tensor *File::find_tensor(std::string_view name) const {
  const auto found = find_sorted(by_tensor_name_, name, [&](size_t i) { return tensors_[i].name; });
  return found ? &tensors_[*found] : nullptr;
}

}  // namespace bonsai::gguf
