// Accessors of metadata values: the type that a reader wants from the type that a writer chose.
#include <fmt/format.h>

#include <cstring>
#include <limits>

#include "core/base/utf8.h"
#include "core/gguf/cursor.h"
#include "core/gguf/file.h"

namespace bonsai::gguf {
namespace {

constexpr uint64_t kMostInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

// Appends every element, stored as Stored, converted to Out.
template <class Stored, class Out>
std::vector<Out> widen(const Array &array) {
  std::vector<Out> out(array.count);
  for (uint64_t i = 0; i < array.count; ++i) {
    Stored value;
    std::memcpy(&value, array.payload.data() + i * sizeof(Stored), sizeof(Stored));
    out[i] = static_cast<Out>(value);
  }
  return out;
}

// The elements of an integer or bool array as Out; nullopt for other element types.
template <class Out>
std::optional<std::vector<Out>> widen_integers(const Array &array) {
  switch (array.element_type) {
    case ValueType::kUint8:
    case ValueType::kBool:
      return widen<uint8_t, Out>(array);
    case ValueType::kInt8:
      return widen<int8_t, Out>(array);
    case ValueType::kUint16:
      return widen<uint16_t, Out>(array);
    case ValueType::kInt16:
      return widen<int16_t, Out>(array);
    case ValueType::kUint32:
      return widen<uint32_t, Out>(array);
    case ValueType::kInt32:
      return widen<int32_t, Out>(array);
    case ValueType::kUint64:
      return widen<uint64_t, Out>(array);
    case ValueType::kInt64:
      return widen<int64_t, Out>(array);
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<std::string_view> Array::strings() const {
  std::vector<std::string_view> out;
  out.reserve(count);
  const auto *next = reinterpret_cast<const char *>(payload.data());
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t length;
    std::memcpy(&length, next, sizeof length);
    out.emplace_back(next + sizeof length, length);
    next += sizeof length + length;
  }
  return out;
}

std::optional<std::vector<int64_t>> Array::integers() const {
  auto out = widen_integers<int64_t>(*this);
  if (out && element_type == ValueType::kUint64) {
    for (const int64_t value : *out) {
      if (value < 0) return std::nullopt;  // was 2^63 or more
    }
  }
  return out;
}

std::optional<std::vector<double>> Array::numbers() const {
  switch (element_type) {
    case ValueType::kBool:
      return std::nullopt;
    case ValueType::kFloat32:
      return widen<float, double>(*this);
    case ValueType::kFloat64:
      return widen<double, double>(*this);
    default:
      return widen_integers<double>(*this);
  }
}

std::optional<uint64_t> Value::as_uint() const {
  if (const auto *value = std::get_if<uint64_t>(&data)) return *value;
  if (const auto *value = std::get_if<int64_t>(&data); value && *value >= 0) return static_cast<uint64_t>(*value);
  return std::nullopt;
}

std::optional<int64_t> Value::as_int() const {
  if (const auto *value = std::get_if<int64_t>(&data)) return *value;
  if (const auto *value = std::get_if<uint64_t>(&data); value && *value <= kMostInt64) {
    return static_cast<int64_t>(*value);
  }
  return std::nullopt;
}

std::optional<double> Value::as_number() const {
  if (const auto *value = std::get_if<double>(&data)) return *value;
  if (const auto *value = std::get_if<uint64_t>(&data)) return static_cast<double>(*value);
  if (const auto *value = std::get_if<int64_t>(&data)) return static_cast<double>(*value);
  return std::nullopt;
}

std::optional<bool> Value::as_bool() const {
  if (const auto *value = std::get_if<bool>(&data)) return *value;
  return std::nullopt;
}

std::optional<std::string_view> Value::as_string() const {
  if (const auto *value = std::get_if<std::string_view>(&data)) return *value;
  return std::nullopt;
}

const Array *Value::as_array() const { return std::get_if<Array>(&data); }

std::string describe(const Value &value) {
  if (auto text = value.as_string()) return fmt::format("\"{}\"", printable(text->substr(0, 80)));
  if (const Array *array = value.as_array()) return fmt::format("an array of {} elements", array->count);
  if (auto boolean = value.as_bool()) return *boolean ? "true" : "false";
  if (auto whole = value.as_int()) return fmt::format("{}", *whole);
  if (auto whole = value.as_uint()) return fmt::format("{}", *whole);
  return fmt::format("{}", value.as_number().value_or(0));
}

}  // namespace bonsai::gguf
