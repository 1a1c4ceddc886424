#include "core/text/template/string_literal.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "core/base/utf8.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

constexpr std::string_view kPlainEscapes = "\\'\"abfnrtv";
constexpr std::string_view kPlainMeanings = "\\'\"\a\b\f\n\r\t\v";

// How many hexadecimal digits follow "\x", "\u" and "\U".
size_t n_hex_digits(char letter) { return letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0; }

// Appends the code point that `digits` spell. False: they spell none.
bool append_number(std::string_view digits, int base, std::string &out) {
  uint32_t code_point = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code_point, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return false;
  if (code_point > 0x10FFFF || (code_point >= 0xD800 && code_point < 0xE000)) return false;
  text::append_utf8(out, code_point);
  return true;
}

bool is_octal(char c) { return c >= '0' && c <= '7'; }

}  // namespace

Result<std::string> decode_string_literal(std::string_view inside) {
  std::string out;
  for (size_t at = 0; at < inside.size();) {
    if (inside[at] != '\\' || at + 1 == inside.size()) {
      out += inside[at++];
      continue;
    }
    const char letter = inside[at + 1];
    const std::string_view rest = inside.substr(at + 2);
    if (const size_t plain = kPlainEscapes.find(letter); plain != std::string_view::npos) {
      out += kPlainMeanings[plain];
      at += 2;
    } else if (letter == '\n') {
      at += 2;
    } else if (const size_t n = n_hex_digits(letter); n > 0) {
      if (rest.size() < n || !append_number(rest.substr(0, n), 16, out))
        return fail("the escape {} stands for no character", bonsai::quoted(inside.substr(at, 2 + n)));
      at += 2 + n;
    } else if (is_octal(letter)) {
      const std::string_view most = inside.substr(at + 1, 3);
      const auto end = std::find_if_not(most.begin(), most.end(), is_octal);
      const std::string_view digits(most.begin(), end);
      append_number(digits, 8, out);
      at += 1 + digits.size();
    } else {
      out += '\\';
      ++at;
    }
  }
  return out;
}

}  // namespace bonsai::jinja
