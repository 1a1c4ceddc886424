// Reads a GGUF file's fields in order; nothing is taken that the file does not hold.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace bonsai::gguf {

static_assert(std::endian::native == std::endian::little, "fields are little-endian and read in place");
static_assert(sizeof(size_t) == sizeof(uint64_t), "offsets in the file are used as sizes");

// Names a field for a message. The text is made only when there is an error: a vocabulary has 300,000 fields.
struct Field {
  static constexpr uint64_t kNoIndex = UINT64_MAX;

  std::string_view what;      // "tensor count"
  std::string_view of = {};   // "value" of this key, "type" of this tensor
  uint64_t index = kNoIndex;  // where many of a kind have no name yet: "metadata key 3"

  std::string text() const;
};

// "FIELD at byte AT: " and the rest: the form of every message about a file's contents.
template <class... Args>
tl::unexpected<Error> fail_at(uint64_t at, const Field &field, fmt::format_string<Args...> format, Args &&...args) {
  return fail("{} at byte {}: {}", field.text(), at, fmt::format(format, std::forward<Args>(args)...));
}

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t at() const { return at_; }
  uint64_t remaining() const { return bytes_.size() - at_; }

  template <class T>
  Result<T> read(const Field &field) {
    if (remaining() < sizeof(T)) return truncated(field, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  // A length (u64) and that many bytes.
  Result<std::string_view> read_string(const Field &field);

  // A string that names something: UTF-8, at most kMostNameBytes long.
  Result<std::string_view> read_name(const Field &field);

  // The next n bytes. Precondition: n <= remaining().
  std::span<const std::byte> take(uint64_t n);

 private:
  tl::unexpected<Error> truncated(const Field &field, uint64_t needed) const;

  std::span<const std::byte> bytes_;
  uint64_t at_ = 0;
};

}  // namespace bonsai::gguf
