#include "core/text/utf8.h"

#include <algorithm>
#include <cstdint>

namespace bonsai::text {

char32_t next_code_point(std::string_view text, size_t &at) {
  const auto next = [&] { return static_cast<uint8_t>(text[at++]); };
  const auto continuation = [&] { return static_cast<char32_t>(next() & 0x3F); };
  const char32_t first = next();
  if (first < 0x80) return first;
  char32_t code_point = first < 0xE0 ? first & 0x1F : first < 0xF0 ? first & 0x0F : first & 0x07;
  const int continuations = first < 0xE0 ? 1 : first < 0xF0 ? 2 : 3;
  for (int i = 0; i < continuations; ++i) code_point = (code_point << 6) | continuation();
  return code_point;
}

void append_utf8(std::string &out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3F));
    put(0x80 | ((code_point >> 6) & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

Utf8Prefix first_utf8_sequence(std::string_view bytes) {
  using State = Utf8Prefix::State;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {State::kWhole, 1};
  if (first < 0xC2 || first > 0xF4) return {State::kMalformed, 1};
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range rules out overlong forms, surrogates and what lies above U+10FFFF (table 3-7).
  uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {State::kUnfinished, i};
    if (byte(i) < low || byte(i) > high) return {State::kMalformed, i};
    low = 0x80;
    high = 0xBF;
  }
  return {State::kWhole, length};
}

}  // namespace bonsai::text
