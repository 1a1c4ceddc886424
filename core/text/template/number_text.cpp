#include "core/text/template/number_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "core/text/template/characters.h"
#include "core/text/template/numeric_characters.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

// Every script's ten digits follow one another from 0, some directly on another script's.
char ascii_digit(char32_t c) {
  char32_t first = c;
  while (is_decimal(first - 1)) --first;
  return static_cast<char>('0' + (c - first) % 10);
}

// A sign and what lies behind it.
struct Signed {
  bool is_negative;
  std::string digits;
};

Signed signed_digits(std::string_view text) {
  const std::string_view trimmed = without_leading_space(without_trailing_space(text));
  std::string plain;
  for (size_t at = 0; at < trimmed.size();) {
    const size_t begin = at;
    const char32_t c = text::next_code_point(trimmed, at);
    if (is_decimal(c))
      plain += ascii_digit(c);
    else
      plain += trimmed.substr(begin, at - begin);
  }
  const bool has_sign = plain.starts_with('-') || plain.starts_with('+');
  return {plain.starts_with('-'), plain.substr(has_sign ? 1 : 0)};
}

// False where an underscore does not lie between two digits.
template <class Fits>
bool take_underscores(std::string &digits, Fits fits) {
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') continue;
    if (i == 0 || i + 1 == digits.size() || !fits(digits[i - 1]) || !fits(digits[i + 1])) return false;
  }
  std::erase(digits, '_');
  return true;
}

int base_of_prefix(std::string_view digits) {
  if (digits.size() < 2 || digits[0] != '0') return 0;
  switch (digits[1] | 0x20) {
    case 'x':
      return 16;
    case 'o':
      return 8;
    case 'b':
      return 2;
    default:
      return 0;
  }
}

// Of a number that no double can hold: infinity, or 0 if it is too small.
double limit_of(std::string_view digits) {
  const size_t e = std::min(digits.find_first_of("eE"), digits.size());
  const std::string_view significand = digits.substr(0, e);
  const auto point = static_cast<double>(std::min(significand.find('.'), significand.size()));
  const auto first = static_cast<double>(significand.find_first_of("123456789"));
  std::string_view power = digits.substr(std::min(e + 1, digits.size()));
  const bool is_negative = power.starts_with('-');
  if (is_negative || power.starts_with('+')) power.remove_prefix(1);
  int64_t exponent = 0;
  if (std::from_chars(power.data(), power.data() + power.size(), exponent).ec == std::errc::result_out_of_range)
    exponent = std::numeric_limits<int64_t>::max();
  const double magnitude = point - first + (is_negative ? -1 : 1) * static_cast<double>(exponent);
  return magnitude > 0 ? std::numeric_limits<double>::infinity() : 0;
}

}  // namespace

std::optional<IntegerText> read_integer_text(std::string_view text, int base) {
  auto [is_negative, digits] = signed_digits(text);
  if (const int prefix = base_of_prefix(digits); prefix != 0 && (base == 0 || base == prefix)) {
    digits.erase(0, digits.size() > 2 && digits[2] == '_' ? 3 : 2);
    base = prefix;
  } else if (base == 0) {
    if (digits.starts_with('0') && digits.find_first_not_of("0_") != std::string::npos) return std::nullopt;
    base = 10;
  }
  if (!take_underscores(digits, is_digit_or_letter) || digits.empty() || digits.starts_with('-')) return std::nullopt;
  if (is_negative) digits.insert(0, 1, '-');
  IntegerText read;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), read.value, base);
  read.is_too_large = error == std::errc::result_out_of_range;
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) return std::nullopt;
  return read;
}

std::optional<double> read_real_text(std::string_view text) {
  auto [is_negative, digits] = signed_digits(text);
  // from_chars() would also take another sign, and nan(...).
  if (!take_underscores(digits, is_ascii_digit) || digits.starts_with('-') || digits.ends_with(')'))
    return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::invalid_argument || end != digits.data() + digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = limit_of(digits);
  return is_negative ? -value : value;
}

}  // namespace bonsai::jinja
