// Python's view of characters: code points, and what counts as a space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace bonsai::jinja {

// One of the ten that every number in a template is written with.
inline bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

// Of ASCII, whatever the program's locale is.
inline bool is_digit_or_letter(char c) {
  const int lower = c | 0x20;
  return is_ascii_digit(c) || (lower >= 'a' && lower <= 'z');
}

// str.isspace(), which is what strip(), split() and a regular expression's \s go by.
bool is_space(char32_t code_point);

// `text` without spaces at its ends.
std::string_view without_leading_space(std::string_view text);
std::string_view without_trailing_space(std::string_view text);

size_t count_characters(std::string_view text);
// The place of the character that is `n` behind the one at `at`, or before it where `n` is negative; an end of the text
// if there are not so many. Places are offsets in bytes.
size_t moved_by(std::string_view text, size_t at, int64_t n);

// The offset of `part` in `text` at or behind `from`, or npos; in linear time, unlike string_view's.
size_t find_bytes(std::string_view text, std::string_view part, size_t from = 0);

}  // namespace bonsai::jinja
