#include "core/gguf/file.h"

#include <cstring>
#include <iterator>
#include <utility>

#include "core/base/utf8.h"
#include "core/gguf/name_index.h"
#include "core/gguf/parser.h"
#include "core/gguf/parts.h"
#include "core/gguf/type42.h"

namespace bonsai::gguf {
namespace {

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

}  // namespace

uint64_t Tensor::rows() const {
  uint64_t rows = 1;
  for (size_t i = 1; i < shape.size(); ++i) rows *= shape[i];
  return rows;
}

Result<File> File::open(const std::string &path) {
  auto file = map(path, nullptr);
  if (!file) return file;
  if (const auto added = file->add_other_parts(); !added) return tl::unexpected(added.error());
  file->settle_type_42();
  return file;
}

Result<File> File::parse(std::span<const std::byte> bytes, std::string name) {
  auto file = read(bytes, std::move(name), nullptr);
  if (!file) return file;
  const auto part = part_keys(*file);
  if (!part) return tl::unexpected(part.error());
  if (*part) return fail("{}: {} of a model (split.count), expected the whole", file->name_, (*part)->describe());
  if (file->scale_last_) file->put_scales_first();
  file->settle_type_42();
  return file;
}

Result<File> File::map(const std::string &path, const File *first) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return tl::unexpected(mapping.error());
  auto file = read(mapping->bytes(), path, first);
  if (!file) return file;
  file->mappings_.push_back(*std::move(mapping));
  if (file->scale_last_) file->put_scales_first();
  return file;
}

Result<File> File::read(std::span<const std::byte> bytes, std::string name, const File *first) {
  auto file = Parser(bytes, first != nullptr && first->scale_last_).parse();
  if (!file) return fail("{}: {}", name, file.error().message);
  file->name_ = std::move(name);
  return file;
}

Result<void> File::add_other_parts() {
  const auto found = part_keys(*this);
  if (!found) return tl::unexpected(found.error());
  if (!*found) return {};
  const PartKeys &keys = **found;
  if (keys.index != 0) {
    return fail("{}: {} of a model (split.no), expected the first, beside which the others are", name_,
                keys.describe());
  }
  for (uint64_t i = 1; i < keys.count; ++i) {
    auto part = map_other_part(i, keys.count);
    if (!part) return tl::unexpected(part.error());
    if (const auto added = add_part(*std::move(part)); !added) return added;
  }
  return index_tensors_of_parts(keys.tensors);
}

Result<File> File::map_other_part(uint64_t index, uint64_t count) const {
  const auto path = path_of_part(name_, index, count);
  if (!path) return fail("{}: {}", name_, path.error().message);
  const PartKeys expected{index, count, {}};
  auto part = map(*path, this);
  if (!part) return fail("{} ({} of the model)", part.error().message, expected.describe());
  const auto found = part_keys(*part);
  if (!found) return tl::unexpected(found.error());
  if (!*found || (*found)->index != index || (*found)->count != count) {
    return fail("{}: {}, expected {}", *path, *found ? (*found)->describe() : "a whole model", expected.describe());
  }
  if (const auto agreed = check_agreement(*this, *part); !agreed) return tl::unexpected(agreed.error());
  return part;
}

Result<void> File::add_part(File &&part) {
  if (type_42_ && part.type_42_ && type_42_ != part.type_42_) {
    return fail("{}: tensors of type 42 are {}, those of the parts before {}; expected one meaning", part.name_,
                quant::traits(*part.type_42_).name, quant::traits(*type_42_).name);
  }
  if (!type_42_) type_42_ = part.type_42_;
  const auto append = [](auto &to, auto &from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(mappings_, part.mappings_);
  append(warnings_, part.warnings_);
  append(tensors_, part.tensors_);
  append(reordered_, part.reordered_);
  file_bytes_ += part.file_bytes_;
  ++other_parts_;
  return {};
}

// `expected`: how many tensors there are, by the first part.
Result<void> File::index_tensors_of_parts(std::optional<uint64_t> expected) {
  if (expected && tensors_.size() != *expected) {
    return fail("{}: split.tensors.count is {}, expected {}, which the {} parts have", name_, *expected,
                tensors_.size(), parts());
  }
  const auto name_of = [&](size_t i) { return tensors_[i].name; };
  by_tensor_name_ = sorted_by_name(tensors_.size(), name_of);
  if (const auto duplicate = find_duplicate(by_tensor_name_, name_of)) {
    return fail("{}: tensor {} is in two of the {} parts, expected each name once", name_,
                quoted(name_of(duplicate->first)), parts());
  }
  return {};
}

// A part that cannot tell what its tensors of type 42 are was read with the larger blocks, and either fits it.
void File::settle_type_42() {
  bool undecided = false;
  for (Tensor &tensor : tensors_) {
    if (tensor.gguf_type != kType42) continue;
    undecided = !type_42_;
    if (undecided || tensor.format == *type_42_) continue;
    const quant::FormatTraits &format = quant::traits(*type_42_);
    tensor.format = format.format;
    tensor.data = tensor.data.first(tensor.rows() * quant::row_bytes(format, tensor.columns()));
  }
  if (undecided) warnings_.push_back("type 42 means Q2_0 or PQ2_0 and no tensor is large enough to tell; read as Q2_0");
}

std::vector<std::string> File::paths() const {
  std::vector<std::string> paths;
  for (const MappedFile &mapping : mappings_) paths.push_back(mapping.path());
  return paths;
}

void File::release(std::span<const std::byte> data) const {
  for (const MappedFile &mapping : mappings_) mapping.release(data);
}

// Tensors do not overlap, so that all copies together are no larger than the file.
void File::put_scales_first() {
  for (Tensor &tensor : tensors_) {
    if (tensor.format != quant::Format::kTQ2_0_G128) continue;
    reordered_.push_back(scales_first(tensor.data));
    release(tensor.data);
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
