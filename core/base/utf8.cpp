#include "core/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace bonsai {
namespace {

constexpr size_t kMostQuotedBytes = 80;

bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// Length of the well-formed sequence at the start of `text` (not empty), or 0.
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  // The second byte's range is what rules out overlong forms, surrogates and code points beyond U+10FFFF.
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (!is_continuation(byte(i))) return 0;
  }
  return length;
}

bool is_control(std::string_view sequence) {
  const auto first = static_cast<uint8_t>(sequence[0]);
  // C0, DEL, and C1 (U+0080 to U+009F, encoded C2 80 to C2 9F).
  return first < 0x20 || first == 0x7F || (first == 0xC2 && static_cast<uint8_t>(sequence[1]) < 0xA0);
}

// Appends what `quoted` shows of a text, up to the first piece that begins at `most_bytes` or behind. Returns how far
// it came.
size_t append_printable(std::string_view text, size_t most_bytes, std::string &out) {
  size_t at = 0;
  while (at < std::min(text.size(), most_bytes)) {
    const size_t length = sequence_length(text.substr(at));
    const std::string_view piece = text.substr(at, length == 0 ? 1 : length);
    if (length == 0 || is_control(piece)) {
      for (const char c : piece) out += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      out += piece;
    }
    at += piece.size();
  }
  return at;
}

}  // namespace

size_t printable_character(std::string_view text) noexcept {
  const size_t length = sequence_length(text);
  return length > 0 && !is_control(text.substr(0, length)) ? length : 0;
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = sequence_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::string quoted(std::string_view text) {
  std::string out = "'";
  const size_t end = append_printable(text, kMostQuotedBytes, out);
  out += end < text.size() ? "...'" : "'";
  return out;
}

std::string printable(std::string_view text) {
  std::string out;
  append_printable(text, text.size(), out);
  return out;
}

}  // namespace bonsai
