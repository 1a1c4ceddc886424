// UTF-8 one sequence at a time: decoding of what is known to be well-formed, and judging of what may not be.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bonsai::text {

// The code point at text[at]; moves `at` behind it. Precondition: text is well-formed and at < text.size().
char32_t next_code_point(std::string_view text, size_t &at);

void append_utf8(std::string &out, char32_t code_point);

// What stands at the start of some bytes (not empty). A malformed prefix is the longest one that no continuation can
// repair, as Unicode recommends for replacement by U+FFFD (chapter 3.9, "substitution of maximal subparts").
struct Utf8Prefix {
  enum class State { kWhole, kUnfinished, kMalformed } state;
  size_t bytes;
};
Utf8Prefix first_utf8_sequence(std::string_view bytes);

}  // namespace bonsai::text
