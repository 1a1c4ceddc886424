#include "core/gguf/parser.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "core/base/lfs_pointer.h"
#include "core/base/utf8.h"
#include "core/gguf/layout.h"
#include "core/gguf/name_index.h"
#include "core/gguf/type42.h"
#include "core/gguf/type_names.h"
#include "core/gguf/value_reader.h"

namespace bonsai::gguf {
namespace {

constexpr uint64_t kMostWeights = INT64_MAX;
// The least that one item takes in the file: a key (length), a type and a byte; a name (length), the number of
// dimensions, one extent, a type and an offset.
constexpr uint64_t kLeastMetadataBytes = 8 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 4 + 8 + 4 + 8;

// Of the two that type 42 may mean, the smaller one that can be: which it is, is not known before the extents are.
quant::Format least_format(const Tensor &tensor) {
  if (tensor.gguf_type != kType42) return tensor.format;
  constexpr auto kSmaller = quant::Format::kTQ2_0_G128;
  return tensor.columns() % quant::traits(kSmaller).block_weights == 0 ? kSmaller : quant::Format::kQ2_0_G64;
}

// Likewise the larger one.
quant::Format largest_format(const Tensor &tensor) {
  if (tensor.gguf_type != kType42) return tensor.format;
  constexpr auto kLarger = quant::Format::kQ2_0_G64;
  return tensor.columns() % quant::traits(kLarger).block_weights == 0 ? kLarger : quant::Format::kTQ2_0_G128;
}

}  // namespace

Result<File> Parser::parse() {
  return read_header()
      .and_then([&] { return read_metadata(); })
      .and_then([&] { return index_keys(); })
      .and_then([&] { return apply_general_keys(); })
      .and_then([&] { return read_tensors(); })
      .and_then([&] { return index_tensors(); })
      .and_then([&] { return check_end(); })
      .and_then([&] { return check_offsets(); })
      .and_then([&] { return settle_type_42(); })
      .and_then([&] { return place_data(); })
      .and_then([&] { return check_overlaps(); })
      .map([&] { return std::move(file_); });
}

Result<void> Parser::read_header() {
  file_.file_bytes_ = bytes_.size();
  const auto magic = cursor_.read<uint32_t>({"magic"});
  if (!magic) return tl::unexpected(magic.error());
  if (is_lfs_pointer(bytes_)) {
    return fail_at(0, {"magic"},
                   "found a Git LFS pointer, which `git lfs pull` replaces by the file; expected 0x{:08x} (GGUF)",
                   kMagic);
  }
  if (*magic != kMagic) return fail_at(0, {"magic"}, "found 0x{:08x}, expected 0x{:08x} (GGUF)", *magic, kMagic);
  const uint64_t version_at = cursor_.at();
  const auto version = cursor_.read<uint32_t>({"version"});
  if (!version) return tl::unexpected(version.error());
  if (*version != 0 && (*version & 0xFFFF) == 0) {
    return fail_at(version_at, {"version"}, "found 0x{:08x}, a big-endian file; expected little-endian", *version);
  }
  if (*version != 2 && *version != 3) {
    return fail_at(version_at, {"version"}, "found {}, expected 2 or 3", *version);
  }
  file_.version_ = *version;
  const auto n_tensors = read_count({"tensor count"}, kLeastTensorBytes);
  if (!n_tensors) return tl::unexpected(n_tensors.error());
  n_tensors_ = *n_tensors;
  const auto n_metadata = read_count({"metadata count"}, kLeastMetadataBytes);
  if (!n_metadata) return tl::unexpected(n_metadata.error());
  n_metadata_ = *n_metadata;
  return {};
}

// A count of items, of which the rest of the file must be able to hold so many.
Result<uint64_t> Parser::read_count(const Field &field, uint64_t least_bytes_each) {
  const uint64_t at = cursor_.at();
  const auto count = cursor_.read<uint64_t>(field);
  if (!count) return count;
  const uint64_t most = cursor_.remaining() / least_bytes_each;
  if (*count > most) {
    return fail_at(at, field, "found {}, expected at most {} in the {} bytes left", *count, most, cursor_.remaining());
  }
  return count;
}

Result<void> Parser::read_metadata() {
  for (uint64_t i = 0; i < n_metadata_; ++i) {
    key_at_.push_back(cursor_.at());
    const auto key = cursor_.read_name({"metadata key", {}, i});
    if (!key) return tl::unexpected(key.error());
    value_at_.push_back(cursor_.at());
    auto value = read_value(cursor_, *key);
    if (!value) return tl::unexpected(value.error());
    file_.metadata_.emplace_back(*key, std::move(*value));
  }
  return {};
}

Result<void> Parser::index_keys() {
  const auto name_of = [&](size_t i) { return file_.metadata_[i].first; };
  file_.by_key_ = sorted_by_name(file_.metadata_.size(), name_of);
  if (const auto duplicate = find_duplicate(file_.by_key_, name_of)) {
    const auto [earlier, later] = *duplicate;
    return fail_at(key_at_[later], {"metadata key", {}, later}, "{} is already at byte {}, expected each key once",
                   quoted(name_of(later)), key_at_[earlier]);
  }
  return {};
}

// The keys that change how the rest of the file is read.
Result<void> Parser::apply_general_keys() {
  for (size_t i = 0; i < file_.metadata_.size(); ++i) {
    const auto &[key, value] = file_.metadata_[i];
    const Field field{"value", key};
    if (key == kAlignmentKey) {
      const auto alignment = value.as_uint();
      if (value.type != ValueType::kUint32 || !alignment) {
        return fail_at(value_at_[i], field, "found a value of type {}, expected uint32", type_name(value.type));
      }
      if (!std::has_single_bit(*alignment)) {
        return fail_at(value_at_[i], field, "found {}, expected a power of two", *alignment);
      }
      file_.alignment_ = *alignment;
    }
    if (key == kQuantizationKey && value.as_string() == kScaleLastMark) file_.scale_last_ = true;
  }
  return {};
}

Result<void> Parser::read_tensors() {
  for (uint64_t i = 0; i < n_tensors_; ++i) {
    if (const auto read = read_tensor(i); !read) return read;
  }
  data_at_ = cursor_.at() + (file_.alignment_ - cursor_.at() % file_.alignment_) % file_.alignment_;
  // A file whose tensors are all missing ends before its padding.
  data_section_ = bytes_.subspan(std::min<uint64_t>(data_at_, bytes_.size()));
  return {};
}

Result<void> Parser::read_tensor(uint64_t index) {
  Tensor tensor{};
  TensorFields fields{};
  fields.name_at = cursor_.at();
  const auto name = cursor_.read_name({"tensor name", {}, index});
  if (!name) return tl::unexpected(name.error());
  tensor.name = *name;
  fields.shape_at = cursor_.at();
  if (const auto shape = read_shape(tensor); !shape) return shape;
  fields.type_at = cursor_.at();
  const auto type = cursor_.read<uint32_t>({"type", tensor.name});
  if (!type) return tl::unexpected(type.error());
  tensor.gguf_type = *type;
  if (const auto *format = quant::find_gguf_type(*type)) {
    tensor.format = format->format;
  } else if (*type != kType42) {
    return fail_at(fields.type_at, {"type", tensor.name}, "{}", explain_unreadable_type(*type));
  }
  fields.offset_at = cursor_.at();
  const auto offset = cursor_.read<uint64_t>({"offset", tensor.name});
  if (!offset) return tl::unexpected(offset.error());
  tensor.offset = *offset;
  file_.tensors_.push_back(std::move(tensor));
  fields_.push_back(fields);
  return {};
}

Result<void> Parser::read_shape(Tensor &tensor) {
  const uint64_t count_at = cursor_.at();
  const Field count_field{"dimension count", tensor.name};
  const auto count = cursor_.read<uint32_t>(count_field);
  if (!count) return tl::unexpected(count.error());
  if (*count < 1 || *count > kMostDimensions) {
    return fail_at(count_at, count_field, "found {}, expected 1 to {}", *count, kMostDimensions);
  }
  uint64_t weights = 1;
  for (uint32_t i = 0; i < *count; ++i) {
    const uint64_t at = cursor_.at();
    const Field field{"extent", tensor.name, i};
    const auto extent = cursor_.read<uint64_t>(field);
    if (!extent) return tl::unexpected(extent.error());
    if (*extent == 0) return fail_at(at, field, "found 0, expected at least 1");
    if (*extent > kMostWeights / weights) {
      return fail_at(at, field, "found {}, expected at most {} for a tensor of less than 2^63 weights", *extent,
                     kMostWeights / weights);
    }
    weights *= *extent;
    tensor.shape.push_back(*extent);
  }
  return {};
}

Result<void> Parser::index_tensors() {
  const auto name_of = [&](size_t i) { return file_.tensors_[i].name; };
  const auto &tensors = file_.tensors_;
  file_.by_tensor_name_ = sorted_by_name(tensors.size(), name_of);
  if (const auto duplicate = find_duplicate(file_.by_tensor_name_, name_of)) {
    const auto [earlier, later] = *duplicate;
    return fail_at(fields_[later].name_at, {"tensor name", {}, later},
                   "{} is already at byte {}, expected each name once", quoted(name_of(later)),
                   fields_[earlier].name_at);
  }
  by_offset_ = sorted_positions(tensors.size(), [&](size_t i, size_t j) {
    return std::pair(tensors[i].offset, i) < std::pair(tensors[j].offset, j);
  });
  return {};
}

// Where a download stopped, hundreds of offsets are beyond the end. None of them is wrong, and so the end is told. That
// is where data would reach as far if it lay without holes; farther, an offset is wrong, and left to later steps, as
// are tensors whose extent in the file cannot be.
Result<void> Parser::check_end() {
  uint64_t least = 0;          // bytes of the whole file
  size_t last = 0;             // the tensor that ends there
  uint64_t packed = data_at_;  // bytes of a file without holes, at most
  for (size_t i = 0; i < file_.tensors_.size(); ++i) {
    const auto bytes = data_bytes(i, least_format(file_.tensors_[i]));
    const uint64_t room = data_bytes(i, largest_format(file_.tensors_[i])).value_or(0);
    if (__builtin_add_overflow(packed, room, &packed) ||
        __builtin_add_overflow(packed, file_.alignment_ - 1, &packed)) {
      packed = std::numeric_limits<uint64_t>::max();
    }
    uint64_t end = 0;
    if (!bytes || __builtin_add_overflow(data_at_, *bytes, &end)) continue;
    if (__builtin_add_overflow(end, file_.tensors_[i].offset, &end) || end <= least) continue;
    least = end;
    last = i;
  }
  if (least <= bytes_.size() || least > packed) return {};
  const Tensor &tensor = file_.tensors_[last];
  return fail_at(data_at_ + tensor.offset, {"data", tensor.name},
                 "the file ends early, found {} bytes, expected at least {} (an incomplete download?)", bytes_.size(),
                 least);
}

Result<void> Parser::check_offsets() {
  for (size_t i = 0; i < file_.tensors_.size(); ++i) {
    const Tensor &tensor = file_.tensors_[i];
    const Field field{"offset", tensor.name};
    if (tensor.offset % file_.alignment_ != 0) {
      return fail_at(fields_[i].offset_at, field, "found {}, expected a multiple of the alignment, {}", tensor.offset,
                     file_.alignment_);
    }
    if (tensor.offset >= data_section_.size()) {
      return fail_at(fields_[i].offset_at, field,
                     "found {}, expected less than the {} bytes of tensor data in the file", tensor.offset,
                     data_section_.size());
    }
  }
  return {};
}

// Bytes from `offset` to the next tensor's data, or to the end of the file.
uint64_t Parser::extent_at(uint64_t offset) const {
  const auto next = std::upper_bound(by_offset_.begin(), by_offset_.end(), offset,
                                     [&](uint64_t wanted, size_t i) { return wanted < file_.tensors_[i].offset; });
  return (next == by_offset_.end() ? data_section_.size() : file_.tensors_[*next].offset) - offset;
}

Result<void> Parser::settle_type_42() {
  std::vector<Type42Tensor> undecided;
  for (size_t i = 0; i < file_.tensors_.size(); ++i) {
    const Tensor &tensor = file_.tensors_[i];
    if (tensor.gguf_type != kType42) continue;
    undecided.push_back({tensor.name, fields_[i].type_at, tensor.columns(), tensor.rows(), extent_at(tensor.offset)});
  }
  if (undecided.empty()) return {};
  const auto meaning = resolve_type_42(undecided, file_.alignment_);
  if (!meaning) return tl::unexpected(meaning.error());
  if (meaning->decided) file_.type_42_ = meaning->format;
  if (file_.scale_last_) {
    if (meaning->decided && meaning->format != quant::Format::kTQ2_0_G128) {
      return fail_at(undecided.front().type_at, {"type", undecided.front().name},
                     "found 42, by the extents Q2_0, while {} is {}; expected one meaning", quoted(kQuantizationKey),
                     quoted(kScaleLastMark));
    }
    file_.type_42_ = quant::Format::kTQ2_0_G128;
  }
  for (Tensor &tensor : file_.tensors_) {
    if (tensor.gguf_type == kType42) tensor.format = file_.type_42_.value_or(meaning->format);
  }
  return {};
}

// The size of a tensor's data in this format, in bytes.
Result<uint64_t> Parser::data_bytes(size_t i, quant::Format as) const {
  const Tensor &tensor = file_.tensors_[i];
  const quant::FormatTraits &format = quant::traits(as);
  if (tensor.columns() % format.block_weights != 0) {
    return fail_at(fields_[i].shape_at, {"shape", tensor.name}, "rows of {} weights, expected a multiple of {} for {}",
                   tensor.columns(), format.block_weights, format.name);
  }
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(tensor.rows(), tensor.columns() / format.block_weights, &bytes) ||
      __builtin_mul_overflow(bytes, format.block_bytes, &bytes)) {
    return fail_at(fields_[i].shape_at, {"shape", tensor.name},
                   "more than 2^64 bytes of data, expected what a file holds");
  }
  return bytes;
}

Result<void> Parser::place_data() {
  for (size_t i = 0; i < file_.tensors_.size(); ++i) {
    Tensor &tensor = file_.tensors_[i];
    const auto bytes = data_bytes(i, tensor.format);
    if (!bytes) return tl::unexpected(bytes.error());
    const uint64_t room = data_section_.size() - tensor.offset;
    if (*bytes > room) {
      return fail_at(fields_[i].offset_at, {"offset", tensor.name},
                     "found {}, from where {} bytes of data reach past the end; the file has {}", tensor.offset, *bytes,
                     room);
    }
    tensor.data = data_section_.subspan(tensor.offset, *bytes);
  }
  return {};
}

Result<void> Parser::check_overlaps() {
  for (size_t i = 1; i < by_offset_.size(); ++i) {
    const Tensor &before = file_.tensors_[by_offset_[i - 1]];
    const Tensor &after = file_.tensors_[by_offset_[i]];
    const uint64_t end = before.offset + before.data.size();
    if (end > after.offset) {
      return fail_at(fields_[by_offset_[i]].offset_at, {"offset", after.name},
                     "found {}, inside the data of tensor {}; expected {} or more", after.offset, quoted(before.name),
                     end);
    }
  }
  return {};
}

}  // namespace bonsai::gguf
