#include "core/text/template/characters.h"

#include <cstdint>
#include <cstring>

#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

bool is_continuation(char byte) { return (static_cast<uint8_t>(byte) & 0xC0) == 0x80; }

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view without_leading_space(std::string_view text) {
  size_t begin = 0;
  for (size_t at = 0; at < text.size(); begin = at)
    if (!is_space(text::next_code_point(text, at))) break;
  return text.substr(begin);
}

std::string_view without_trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && is_continuation(text[begin])) --begin;
    size_t at = begin;
    if (!is_space(text::next_code_point(text, at))) break;
    end = begin;
  }
  return text.substr(0, end);
}

size_t count_characters(std::string_view text) {
  size_t n = 0;
  for (const char byte : text) n += is_continuation(byte) ? 0 : 1;
  return n;
}

size_t moved_by(std::string_view text, size_t at, int64_t n) {
  for (; n > 0 && at < text.size(); --n) {
    ++at;
    while (at < text.size() && is_continuation(text[at])) ++at;
  }
  for (; n < 0 && at > 0; ++n) {
    --at;
    while (at > 0 && is_continuation(text[at])) --at;
  }
  return at;
}

size_t find_bytes(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void *found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char *>(found) - text.data());
}

}  // namespace bonsai::jinja
