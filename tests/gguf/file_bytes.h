// Builds GGUF files byte by byte, so that a test can get any of them wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/gguf/file.h"

namespace bonsai::gguf {

class FileBytes {
 public:
  template <class T>
  FileBytes &number(T value) {
    const size_t at = bytes_.size();
    bytes_.resize(at + sizeof value);
    std::memcpy(bytes_.data() + at, &value, sizeof value);
    return *this;
  }
  FileBytes &u8(uint8_t value) { return number(value); }
  FileBytes &u32(uint32_t value) { return number(value); }
  FileBytes &u64(uint64_t value) { return number(value); }

  FileBytes &text(std::string_view text) {
    u64(text.size());
    for (const char c : text) number(c);
    return *this;
  }

  FileBytes &header(uint64_t n_tensors, uint64_t n_metadata, uint32_t version = 3) {
    return u32(0x46554747).u32(version).u64(n_tensors).u64(n_metadata);
  }
  // A key and its value's type; the value follows.
  FileBytes &key(std::string_view key, ValueType type) { return text(key).u32(static_cast<uint32_t>(type)); }
  // The same for an array.
  FileBytes &array(std::string_view name, ValueType element_type, uint64_t count) {
    return key(name, ValueType::kArray).u32(static_cast<uint32_t>(element_type)).u64(count);
  }
  FileBytes &tensor(std::string_view name, std::initializer_list<uint64_t> shape, uint32_t type, uint64_t offset) {
    text(name).u32(static_cast<uint32_t>(shape.size()));
    for (const uint64_t extent : shape) u64(extent);
    return u32(type).u64(offset);
  }

  FileBytes &align(size_t alignment = 32) { return zeros((alignment - bytes_.size() % alignment) % alignment); }
  FileBytes &zeros(size_t n) {
    bytes_.resize(bytes_.size() + n);
    return *this;
  }

  const std::vector<std::byte> &bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<std::byte> bytes_;
};

// A small file that has one of everything: scalars of each type, arrays of numbers, bools and strings, an alignment of
// its own, tensors of several formats with padding between.
inline FileBytes one_of_everything(uint32_t version = 3) {
  FileBytes file;
  file.header(4, 17, version);
  file.key("general.alignment", ValueType::kUint32).u32(64);
  file.key("u8", ValueType::kUint8).u8(200);
  file.key("i8", ValueType::kInt8).number<int8_t>(-100);
  file.key("u16", ValueType::kUint16).number<uint16_t>(60000);
  file.key("i16", ValueType::kInt16).number<int16_t>(-30000);
  file.key("u32", ValueType::kUint32).u32(4000000000);
  file.key("i32", ValueType::kInt32).number<int32_t>(-2000000000);
  file.key("f32", ValueType::kFloat32).number(1.5f);
  file.key("bool", ValueType::kBool).u8(1);
  file.key("text", ValueType::kString).text("a \"word\"\n");
  file.key("u64", ValueType::kUint64).u64(UINT64_MAX);
  file.key("i64", ValueType::kInt64).number<int64_t>(INT64_MIN);
  file.key("f64", ValueType::kFloat64).number(-2.25);
  file.array("strings", ValueType::kString, 3).text("").text("b").text("\xC3\xA9t\xC3\xA9");
  file.array("numbers", ValueType::kInt16, 3).number<int16_t>(-1).number<int16_t>(0).number<int16_t>(7);
  file.array("flags", ValueType::kBool, 2).u8(0).u8(1);
  file.array("empty", ValueType::kFloat32, 0);
  file.tensor("norm", {5}, 0, 0);
  file.tensor("ones", {128, 2}, 41, 64);
  file.tensor("ternary", {128, 1, 2}, 142, 128);
  file.tensor("halves", {3, 2}, 1, 256);
  file.align(64);
  file.zeros(20).align(64);                                       // norm
  file.zeros(36).align(64);                                       // ones
  for (int i = 0; i < 68; ++i) file.u8(static_cast<uint8_t>(i));  // ternary, code 3 included
  file.align(64);
  return file.zeros(12);  // halves, unpadded as some writers leave the last one
}

}  // namespace bonsai::gguf
