#include "tools/convert/safetensors.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/base/lfs_pointer.h"
#include "tools/convert/json.h"

namespace bonsai::convert {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the format's own limit

uint64_t little_endian_u64(const std::byte *bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | std::to_integer<uint64_t>(bytes[i]);
  return value;
}

std::optional<quant::Format> format_of(std::string_view dtype) {
  if (dtype == "F32") return quant::Format::kF32;
  if (dtype == "F16") return quant::Format::kF16;
  if (dtype == "BF16") return quant::Format::kBF16;
  return std::nullopt;
}

// An array of whole numbers, or nullopt.
std::optional<std::vector<uint64_t>> whole_numbers(const Json *value) {
  if (!value || !value->is_array()) return std::nullopt;
  std::vector<uint64_t> numbers;
  for (const Json &element : *value) {
    if (!element.is_number_unsigned()) return std::nullopt;
    numbers.push_back(element.get<uint64_t>());
  }
  return numbers;
}

// Bytes of a tensor, or nullopt where they do not fit into 64 bits.
std::optional<uint64_t> byte_count(const std::vector<uint64_t> &shape, uint64_t bytes_each) {
  uint64_t count = bytes_each;
  for (uint64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) return std::nullopt;
  }
  return count;
}

// One entry of the header: {"dtype": "F16", "shape": [2, 3], "data_offsets": [begin, end]}.
Result<SourceTensor> read_entry(const std::string &path, const std::string &name, const Json &entry,
                                std::span<const std::byte> data) {
  const Json *dtype = member(entry, "dtype");
  if (!dtype || !dtype->is_string()) {
    return fail("{}: {}: dtype: expected a name such as F32, found {}", path, name,
                dtype ? describe(*dtype) : "nothing");
  }
  const auto format = format_of(dtype->get<std::string>());
  auto shape = whole_numbers(member(entry, "shape"));
  if (!shape) return fail("{}: {}: shape: expected an array of whole numbers", path, name);
  auto offsets = whole_numbers(member(entry, "data_offsets"));
  if (!offsets || offsets->size() != 2) {
    return fail("{}: {}: data_offsets: expected two whole numbers", path, name);
  }
  const uint64_t begin = offsets->front(), end = offsets->back();
  if (begin > end || end > data.size()) {
    return fail("{}: {}: data_offsets: expected a range within the {} bytes of data, found {} to {}", path, name,
                data.size(), begin, end);
  }
  const bool is_fp8 = *dtype == "F8_E4M3";
  const uint64_t bytes_each = format ? quant::traits(*format).block_bytes : 1;
  const auto expected = format || is_fp8 ? byte_count(*shape, bytes_each) : end - begin;
  if (expected != end - begin) {
    return fail("{}: {}: data_offsets: the shape asks for {} bytes, found {}", path, name,
                expected ? std::to_string(*expected) : "more than 2^64", end - begin);
  }
  return SourceTensor{name, describe(*dtype), format, is_fp8, std::move(*shape), data.subspan(begin, end - begin)};
}

// The format allows neither gaps nor overlaps. Sorts the tensors by where they lie.
Result<void> check_coverage(const std::string &path, std::vector<SourceTensor> &tensors,
                            std::span<const std::byte> data) {
  std::sort(tensors.begin(), tensors.end(), [](const SourceTensor &a, const SourceTensor &b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  const std::byte *expected = data.data();
  for (const SourceTensor &tensor : tensors) {
    if (tensor.bytes.data() != expected) {
      return fail("{}: {}: data_offsets: expected to begin at {}, where the data before it ends, found {}", path,
                  tensor.name, expected - data.data(), tensor.bytes.data() - data.data());
    }
    expected += tensor.bytes.size();
  }
  if (expected != data.data() + data.size()) {
    return fail("{}: the tensors end at byte {} of the data, the file has {}", path, expected - data.data(),
                data.size());
  }
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::open(const std::string &path) {
  auto mapping = MappedFile::open(path);
  if (!mapping) return tl::unexpected(mapping.error());
  const std::span<const std::byte> bytes = mapping->bytes();
  if (bytes.size() < kLengthBytes) {
    return fail("{}: expected at least {} bytes (the header's length), found {}", path, kLengthBytes, bytes.size());
  }
  if (is_lfs_pointer(bytes))
    return fail("{}: found a Git LFS pointer, which `git lfs pull` replaces by the file; expected safetensors", path);
  const uint64_t header_bytes = little_endian_u64(bytes.data());
  if (header_bytes > std::min(kMostHeaderBytes, bytes.size() - kLengthBytes)) {
    return fail("{}: header length: expected at most {} bytes, found {}", path,
                std::min(kMostHeaderBytes, bytes.size() - kLengthBytes), header_bytes);
  }
  const auto text = bytes.subspan(kLengthBytes, header_bytes);
  const auto data = bytes.subspan(kLengthBytes + header_bytes);
  auto header = parse_object(path, {reinterpret_cast<const char *>(text.data()), text.size()});
  if (!header) return tl::unexpected(header.error());

  std::vector<SourceTensor> tensors;
  for (const auto &[name, entry] : header->items()) {
    if (name == "__metadata__") continue;
    auto tensor = read_entry(path, name, entry, data);
    if (!tensor) return tl::unexpected(tensor.error());
    tensors.push_back(std::move(*tensor));
  }
  if (auto checked = check_coverage(path, tensors, data); !checked) return tl::unexpected(checked.error());
  return SafetensorsFile(std::move(*mapping), std::move(tensors));
}

}  // namespace bonsai::convert
