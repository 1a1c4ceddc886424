#include "core/gguf/file.h"

#include <algorithm>
#include <cstring>
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

// Blocks of TQ2_0_G128 from such with the scale after the codes.
std::unique_ptr<std::byte[]> scales_first(std::span<const std::byte> blocks) {
  constexpr size_t kScaleBytes = 2;
  const size_t block_bytes = quant::traits(quant::Format::kTQ2_0_G128).block_bytes;
  const size_t code_bytes = block_bytes - kScaleBytes;
  auto copy = std::make_unique_for_overwrite<std::byte[]>(blocks.size());
  for (size_t at = 0; at < blocks.size(); at += block_bytes) {
    std::memcpy(copy.get() + at, blocks.data() + at + code_bytes, kScaleBytes);
    std::memcpy(copy.get() + at + kScaleBytes, blocks.data() + at, code_bytes);
  }
  return copy;
}

// Large models are handed round in parts that llama.cpp made, each a sound file with some of the tensors.
Result<void> check_whole(const File &file) {
  const auto number = [&](std::string_view key) {
    const Value *value = file.find(key);
    return value != nullptr ? value->as_uint() : std::nullopt;
  };
  const auto parts = number("split.count"), index = number("split.no");
  if (parts.value_or(1) <= 1) return {};
  return fail(
      "{} of a model (split.count), expected the whole in one file: join them with llama.cpp's llama-gguf-split "
      "--merge FIRST_PART OUT.gguf",
      index && *index < *parts ? fmt::format("part {} of {}", *index + 1, *parts)
                               : fmt::format("one of {} parts", *parts));
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
  const auto bytes = mapping->bytes();
  return read(bytes, path, *std::move(mapping));
}

Result<File> File::parse(std::span<const std::byte> bytes, std::string name) {
  return read(bytes, std::move(name), std::nullopt);
}

Result<File> File::read(std::span<const std::byte> bytes, std::string name, std::optional<MappedFile> mapping) {
  auto file = Parser(bytes).parse();
  if (!file) return fail("{}: {}", name, file.error().message);
  if (const auto whole = check_whole(*file); !whole) return fail("{}: {}", name, whole.error().message);
  file->name_ = std::move(name);
  file->mapping_ = std::move(mapping);
  if (file->scale_last_) file->put_scales_first();
  return file;
}

// Tensors do not overlap, so that all copies together are no larger than the file.
void File::put_scales_first() {
  for (Tensor &tensor : tensors_) {
    if (tensor.format != quant::Format::kTQ2_0_G128) continue;
    reordered_.push_back(scales_first(tensor.data));
    if (mapping_) mapping_->release(tensor.data);
    tensor.data = {reordered_.back().get(), tensor.data.size()};
  }
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
