// UTF-8 as a yes-or-no question and as something safe to print, for names that come from files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bonsai {

// The offset of the first byte that is not part of a well-formed sequence (Unicode 15, table 3-7: no overlong forms, no
// surrogates, nothing above U+10FFFF), or npos when all of `text` is well-formed.
size_t find_invalid_utf8(std::string_view text);

// The bytes of the character that `text` (not empty) begins with, or 0: there is none, as the first byte is not part of
// a well-formed sequence, or it is a control character.
size_t printable_character(std::string_view text) noexcept;

// `text` in single quotes for an error message: one line whatever it holds. Control characters and ill-formed bytes
// become \xNN; what goes beyond 80 bytes is cut and marked with "...".
std::string quoted(std::string_view text);

// The same without quotes, and whole: for a name where a sentence has it bare, and for a message that was put together
// from names.
std::string printable(std::string_view text);

}  // namespace bonsai
