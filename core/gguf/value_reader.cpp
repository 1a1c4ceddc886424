#include "core/gguf/value_reader.h"

#include <algorithm>
#include <array>

namespace bonsai::gguf {
namespace {

struct TypeInfo {
  std::string_view name;
  uint64_t bytes;  // 0: not fixed
};

// Indexed by ValueType.
constexpr std::array<TypeInfo, 13> kTypes = {{{"uint8", 1},
                                              {"int8", 1},
                                              {"uint16", 2},
                                              {"int16", 2},
                                              {"uint32", 4},
                                              {"int32", 4},
                                              {"float32", 4},
                                              {"bool", 1},
                                              {"string", 0},
                                              {"array", 0},
                                              {"uint64", 8},
                                              {"int64", 8},
                                              {"float64", 8}}};

constexpr uint64_t kLeastStringBytes = sizeof(uint64_t);

Result<ValueType> read_type(Cursor &cursor, const Field &field) {
  const uint64_t at = cursor.at();
  const auto number = cursor.read<uint32_t>(field);
  if (!number) return tl::unexpected(number.error());
  if (*number >= kTypes.size()) {
    return fail_at(at, field, "found {}, expected a value type from 0 to {}", *number, kTypes.size() - 1);
  }
  return static_cast<ValueType>(*number);
}

// Wide is the alternative of Value::data that holds what the file stores as Stored.
template <class Stored, class Wide>
Result<Value> read_scalar(Cursor &cursor, ValueType type, const Field &field) {
  return cursor.read<Stored>(field).map([&](Stored value) { return Value{type, static_cast<Wide>(value)}; });
}

Result<Value> read_bool(Cursor &cursor, const Field &field) {
  const uint64_t at = cursor.at();
  const auto byte = cursor.read<uint8_t>(field);
  if (!byte) return tl::unexpected(byte.error());
  if (*byte > 1) return fail_at(at, field, "found {}, expected a bool, 0 or 1", *byte);
  return Value{ValueType::kBool, *byte == 1};
}

// Steps over the strings of an array, so that each is known to lie inside the file.
Result<void> skip_strings(Cursor &cursor, uint64_t count, std::string_view key) {
  for (uint64_t i = 0; i < count; ++i) {
    const auto string = cursor.read_string(Field{"string", key, i});
    if (!string) return tl::unexpected(string.error());
  }
  return {};
}

Result<void> check_bools(std::span<const std::byte> payload, uint64_t at, std::string_view key) {
  const auto wrong = std::find_if(payload.begin(), payload.end(), [](std::byte b) { return b > std::byte{1}; });
  if (wrong == payload.end()) return {};
  const auto index = static_cast<uint64_t>(wrong - payload.begin());
  return fail_at(at + index, Field{"element", key, index}, "found {}, expected a bool, 0 or 1",
                 std::to_integer<int>(*wrong));
}

Result<Value> read_array(Cursor &cursor, std::string_view key) {
  const uint64_t type_at = cursor.at();
  const auto type = read_type(cursor, Field{"element type", key});
  if (!type) return tl::unexpected(type.error());
  if (*type == ValueType::kArray) {
    return fail_at(type_at, Field{"element type", key}, "found array, expected a scalar or string type");
  }
  const uint64_t count_at = cursor.at();
  const auto count = cursor.read<uint64_t>(Field{"element count", key});
  if (!count) return tl::unexpected(count.error());
  const bool strings = *type == ValueType::kString;
  const uint64_t most = cursor.remaining() / (strings ? kLeastStringBytes : fixed_size(*type));
  if (*count > most) {
    return fail_at(count_at, Field{"element count", key}, "found {} of {}, expected at most {} in the {} bytes left",
                   *count, type_name(*type), most, cursor.remaining());
  }
  const uint64_t start = cursor.at();
  Cursor ahead = cursor;
  if (strings) {
    if (const auto skipped = skip_strings(ahead, *count, key); !skipped) return tl::unexpected(skipped.error());
  } else {
    ahead.take(*count * fixed_size(*type));
  }
  const std::span<const std::byte> payload = cursor.take(ahead.at() - start);
  if (*type == ValueType::kBool) {
    if (const auto checked = check_bools(payload, start, key); !checked) return tl::unexpected(checked.error());
  }
  return Value{ValueType::kArray, Array{*type, *count, payload}};
}

}  // namespace

uint64_t fixed_size(ValueType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::string type_name(ValueType type) {
  const auto number = static_cast<size_t>(type);
  return number < kTypes.size() ? std::string(kTypes[number].name) : fmt::format("type {}", number);
}

Result<Value> read_value(Cursor &cursor, std::string_view key) {
  const auto type = read_type(cursor, Field{"value type", key});
  if (!type) return tl::unexpected(type.error());
  const Field field{"value", key};
  switch (*type) {
    case ValueType::kUint8:
      return read_scalar<uint8_t, uint64_t>(cursor, *type, field);
    case ValueType::kInt8:
      return read_scalar<int8_t, int64_t>(cursor, *type, field);
    case ValueType::kUint16:
      return read_scalar<uint16_t, uint64_t>(cursor, *type, field);
    case ValueType::kInt16:
      return read_scalar<int16_t, int64_t>(cursor, *type, field);
    case ValueType::kUint32:
      return read_scalar<uint32_t, uint64_t>(cursor, *type, field);
    case ValueType::kInt32:
      return read_scalar<int32_t, int64_t>(cursor, *type, field);
    case ValueType::kFloat32:
      return read_scalar<float, double>(cursor, *type, field);
    case ValueType::kBool:
      return read_bool(cursor, field);
    case ValueType::kString:
      return cursor.read_string(field).map([](std::string_view text) { return Value{ValueType::kString, text}; });
    case ValueType::kArray:
      return read_array(cursor, key);
    case ValueType::kUint64:
      return read_scalar<uint64_t, uint64_t>(cursor, *type, field);
    case ValueType::kInt64:
      return read_scalar<int64_t, int64_t>(cursor, *type, field);
    case ValueType::kFloat64:
      break;
  }
  return read_scalar<double, double>(cursor, *type, field);
}

}  // namespace bonsai::gguf
