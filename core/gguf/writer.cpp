#include "core/gguf/writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/mapped_file.h"
#include "core/base/utf8.h"
#include "core/gguf/cursor.h"
#include "core/gguf/layout.h"
#include "core/gguf/value_reader.h"

namespace bonsai::gguf {
namespace {

using Bytes = std::vector<std::byte>;

constexpr uint32_t kVersion = 3;
// Small pieces are gathered to this many bytes before the kernel is asked to write.
constexpr size_t kBufferBytes = 1 << 20;
// Far beyond any disk, and small enough that sizes in bytes do not overflow.
constexpr uint64_t kMostWrittenWeights = uint64_t{1} << 56;

void append(Bytes &out, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const size_t at = out.size();
  out.resize(at + bytes.size());
  std::memcpy(out.data() + at, bytes.data(), bytes.size());
}

template <class T>
requires std::is_arithmetic_v<T>
void append(Bytes &out, T value) { append(out, std::as_bytes(std::span(&value, 1))); }

void append(Bytes &out, std::string_view text) {
  append(out, static_cast<uint64_t>(text.size()));
  append(out, std::as_bytes(std::span(text)));
}

void append_type(Bytes &out, ValueType type) { append(out, static_cast<uint32_t>(type)); }

// A value's type and content, as they stand in the file.
template <class T>
Bytes encode_scalar(ValueType type, T value) {
  Bytes out;
  append_type(out, type);
  append(out, value);
  return out;
}

Bytes encode_array(ValueType element_type, uint64_t count, std::span<const std::byte> payload) {
  Bytes out;
  append_type(out, ValueType::kArray);
  append_type(out, element_type);
  append(out, count);
  append(out, payload);
  return out;
}

Bytes encode_value(const Value &value) {
  if (const Array *array = value.as_array()) return encode_array(array->element_type, array->count, array->payload);
  if (const auto text = value.as_string()) return encode_scalar(value.type, *text);
  if (const auto flag = value.as_bool()) return encode_scalar(value.type, static_cast<uint8_t>(*flag));
  if (value.type == ValueType::kFloat32) return encode_scalar(value.type, static_cast<float>(*value.as_number()));
  if (value.type == ValueType::kFloat64) return encode_scalar(value.type, *value.as_number());
  // An integer: the low bytes of its two's complement.
  const auto *negative = std::get_if<int64_t>(&value.data);
  const uint64_t bits = negative != nullptr ? static_cast<uint64_t>(*negative) : *value.as_uint();
  Bytes out;
  append_type(out, value.type);
  append(out, std::as_bytes(std::span(&bits, 1)).first(fixed_size(value.type)));
  return out;
}

uint64_t align_up(uint64_t n, uint64_t alignment) { return (n + alignment - 1) / alignment * alignment; }

struct PlannedTensor {
  std::string name;
  std::vector<uint64_t> shape;
  quant::Format format;
  uint64_t bytes;
};

}  // namespace

struct Writer::State {
  std::string path;
  AtomicFile file;
  std::vector<std::pair<std::string, Bytes>> metadata;  // key, encoded value
  std::unordered_map<std::string, size_t> places;       // in it, by key
  std::vector<PlannedTensor> tensors;
  std::unordered_set<std::string> names;  // of these
  uint64_t alignment = kDefaultAlignment;
  bool in_data = false;
  uint64_t header_bytes = 0;
  size_t tensor = 0;          // the one that gets the next bytes
  uint64_t tensor_bytes = 0;  // that it has already
  Bytes buffer;
  std::string failure;  // the first error since begin_data(): it decides what finish() says

  State(std::string its_path, AtomicFile its_file) : path(std::move(its_path)), file(std::move(its_file)) {}
  void set(std::string_view key, Bytes value);
  Result<void> check_keys();
  Bytes header() const;
  Result<void> put(std::span<const std::byte> bytes);
  Result<void> put_padding(uint64_t written);
  Result<void> flush();
  Result<void> write_out(std::span<const std::byte> bytes);
};

void Writer::State::set(std::string_view key, Bytes value) {
  if (in_data && failure.empty())
    failure = fmt::format("{}: {} set after the header was written", path, bonsai::quoted(key));
  const auto [place, is_new] = places.try_emplace(std::string(key), metadata.size());
  if (is_new)
    metadata.emplace_back(std::string(key), std::move(value));
  else
    metadata[place->second].second = std::move(value);
}

// That our reader will take what is about to be written, and take it for what it is; and the alignment that the caller
// chose.
Result<void> Writer::State::check_keys() {
  for (const auto &[key, bytes] : metadata) {
    if (key.size() > kMostNameBytes || find_invalid_utf8(key) != std::string_view::npos) {
      return fail("{}: metadata key {}: expected at most {} bytes of UTF-8", path, bonsai::quoted(key), kMostNameBytes);
    }
    if (key != kAlignmentKey && key != kQuantizationKey) continue;
    Cursor cursor(bytes);
    const auto value = read_value(cursor, key);
    if (key == kAlignmentKey) {
      if (!value || value->type != ValueType::kUint32 || !std::has_single_bit(*value->as_uint())) {
        return fail("{}: {}: expected a uint32 that is a power of two", path, key);
      }
      alignment = *value->as_uint();
    } else if (value && value->as_string() == kScaleLastMark) {
      return fail("{}: {}: found {}, which marks blocks that end with their scale; they are written with it first",
                  path, key, bonsai::quoted(kScaleLastMark));
    }
  }
  return {};
}

// Everything before the data section but the padding.
Bytes Writer::State::header() const {
  Bytes out;
  append(out, kMagic);
  append(out, kVersion);
  append(out, static_cast<uint64_t>(tensors.size()));
  append(out, static_cast<uint64_t>(metadata.size()));
  for (const auto &[key, value] : metadata) {
    append(out, std::string_view(key));
    append(out, std::span<const std::byte>(value));
  }
  uint64_t offset = 0;
  for (const PlannedTensor &tensor : tensors) {
    append(out, std::string_view(tensor.name));
    append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (const uint64_t extent : tensor.shape) append(out, extent);
    append(out, quant::traits(tensor.format).gguf_type);
    append(out, offset);
    offset += align_up(tensor.bytes, alignment);
  }
  return out;
}

Result<void> Writer::State::put(std::span<const std::byte> bytes) {
  if (buffer.size() + bytes.size() > kBufferBytes) {
    if (const auto flushed = flush(); !flushed) return flushed;
    if (bytes.size() >= kBufferBytes) return write_out(bytes);
  }
  append(buffer, bytes);
  return {};
}

// Zeros from `written` bytes on to the next aligned offset.
Result<void> Writer::State::put_padding(uint64_t written) {
  for (uint64_t left = align_up(written, alignment) - written; left > 0;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(left, kBufferBytes / 2));
    if (const auto put_some = put(Bytes(n)); !put_some) return put_some;
    left -= n;
  }
  return {};
}

Result<void> Writer::State::flush() {
  const auto written = write_out(buffer);
  buffer.clear();
  return written;
}

Result<void> Writer::State::write_out(std::span<const std::byte> bytes) {
  const auto written = file.write(bytes);
  if (!written && failure.empty()) failure = written.error().message;
  return written;
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer &&) noexcept = default;
Writer &Writer::operator=(Writer &&) noexcept = default;
Writer::~Writer() = default;

Result<Writer> Writer::create(const std::string &path) {
  auto file = AtomicFile::create(path);
  if (!file) return tl::unexpected(file.error());
  return Writer(std::make_unique<State>(path, *std::move(file)));
}

void Writer::set_uint32(std::string_view key, uint32_t value) {
  state_->set(key, encode_scalar(ValueType::kUint32, value));
}

void Writer::set_uint64(std::string_view key, uint64_t value) {
  state_->set(key, encode_scalar(ValueType::kUint64, value));
}

void Writer::set_int32(std::string_view key, int32_t value) {
  state_->set(key, encode_scalar(ValueType::kInt32, value));
}

void Writer::set_float32(std::string_view key, float value) {
  state_->set(key, encode_scalar(ValueType::kFloat32, value));
}

void Writer::set_bool(std::string_view key, bool value) {
  state_->set(key, encode_scalar(ValueType::kBool, static_cast<uint8_t>(value)));
}

void Writer::set_string(std::string_view key, std::string_view value) {
  state_->set(key, encode_scalar(ValueType::kString, value));
}

void Writer::set_strings(std::string_view key, std::span<const std::string> values) {
  Bytes payload;
  for (const std::string &value : values) append(payload, std::string_view(value));
  state_->set(key, encode_array(ValueType::kString, values.size(), payload));
}

void Writer::set_int32s(std::string_view key, std::span<const int32_t> values) {
  state_->set(key, encode_array(ValueType::kInt32, values.size(), std::as_bytes(values)));
}

void Writer::set_float32s(std::string_view key, std::span<const float> values) {
  state_->set(key, encode_array(ValueType::kFloat32, values.size(), std::as_bytes(values)));
}

void Writer::set_value(std::string_view key, const Value &value) { state_->set(key, encode_value(value)); }

Result<void> Writer::add_tensor(std::string_view name, std::span<const uint64_t> shape, quant::Format format) {
  const std::string where = fmt::format("{}: tensor {}", state_->path, bonsai::quoted(name));
  const quant::FormatTraits &traits = quant::traits(format);
  if (state_->in_data) return fail("{}: added after the header was written", where);
  if (name.size() > kMostNameBytes || find_invalid_utf8(name) != std::string_view::npos) {
    return fail("{}: expected a name of at most {} bytes of UTF-8", where, kMostNameBytes);
  }
  if (state_->names.contains(std::string(name))) return fail("{}: added twice", where);
  if (shape.empty() || shape.size() > kMostDimensions) {
    return fail("{}: {} dimensions, expected 1 to {}", where, shape.size(), kMostDimensions);
  }
  uint64_t weights = 1;
  for (const uint64_t extent : shape) {
    if (extent == 0) return fail("{}: an extent is 0, expected at least 1", where);
    if (extent > kMostWrittenWeights / weights)
      return fail("{}: expected at most {} weights", where, kMostWrittenWeights);
    weights *= extent;
  }
  if (shape[0] % traits.block_weights != 0) {
    return fail("{}: rows of {} weights, expected a multiple of {} for {}", where, shape[0], traits.block_weights,
                traits.name);
  }
  const uint64_t bytes = weights / traits.block_weights * traits.block_bytes;
  state_->names.emplace(name);
  state_->tensors.push_back({std::string(name), {shape.begin(), shape.end()}, format, bytes});
  return {};
}

Result<void> Writer::begin_data() {
  if (state_->in_data) return fail("{}: the header is written already", state_->path);
  if (const auto checked = state_->check_keys(); !checked) return checked;
  state_->in_data = true;
  const Bytes header = state_->header();
  state_->header_bytes = align_up(header.size(), state_->alignment);
  if (const auto put = state_->put(header); !put) return put;
  return state_->put_padding(header.size());
}

Result<void> Writer::preview(const std::function<Result<void>(Result<std::unique_ptr<File>>)> &check) {
  State &state = *state_;
  if (!state.in_data || state.tensor_bytes > 0 || state.tensor > 0)
    return fail("{}: a preview is for the time between the header and the data", state.path);
  uint64_t bytes = state.header_bytes;
  for (const PlannedTensor &tensor : state.tensors) bytes += align_up(tensor.bytes, state.alignment);
  if (const auto flushed = state.flush(); !flushed) return flushed;
  if (const auto extended = state.file.extend(bytes); !extended) return extended;
  const auto mapped = MappedFile::open(state.file.temporary());
  if (!mapped) return tl::unexpected(mapped.error());
  auto file = File::parse(mapped->bytes(), state.path);
  if (!file) return check(tl::unexpected(file.error()));
  return check(std::make_unique<File>(*std::move(file)));
}

Result<void> Writer::write(std::span<const std::byte> bytes) {
  State &state = *state_;
  if (!state.in_data) return fail("{}: data before the header", state.path);
  while (!bytes.empty()) {
    if (state.tensor == state.tensors.size()) {
      return fail("{}: {} bytes more than the tensors have", state.path, bytes.size());
    }
    const uint64_t whole = state.tensors[state.tensor].bytes;
    const size_t n = std::min<uint64_t>(bytes.size(), whole - state.tensor_bytes);
    if (const auto put = state.put(bytes.first(n)); !put) return put;
    bytes = bytes.subspan(n);
    state.tensor_bytes += n;
    if (state.tensor_bytes < whole) continue;
    if (const auto padded = state.put_padding(whole); !padded) return padded;
    ++state.tensor;
    state.tensor_bytes = 0;
  }
  return {};
}

Result<void> Writer::finish() {
  State &state = *state_;
  if (!state.in_data) {
    if (const auto begun = begin_data(); !begun) return begun;
  }
  if (!state.failure.empty()) return fail("{}", state.failure);
  if (state.tensor < state.tensors.size()) {
    const PlannedTensor &tensor = state.tensors[state.tensor];
    return fail("{}: tensor {}: got {} bytes, expected {}", state.path, bonsai::quoted(tensor.name), state.tensor_bytes,
                tensor.bytes);
  }
  if (const auto flushed = state.flush(); !flushed) return flushed;
  return state.file.commit();
}

}  // namespace bonsai::gguf
