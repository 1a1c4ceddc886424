// The parts of JSON texts (RFC 8259), as expressions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar/expression.h"

namespace bonsai::grammar {

// Rules that every schema's grammar begins with, by number.
enum JsonRule : uint32_t {
  kEscape,   // in a string: a backslash and what follows, as one character
  kString,   // any
  kInteger,  // any, up to 16 digits
  kNumber,   // any
  kValue,    // any
  kObject,   // any
  kArray,    // any
  kJsonRules
};
std::vector<Rule> json_rules();

// `,` or `:` and the space behind.
Expression comma();
Expression colon();
// `inner` between brackets, with space; `may_be_empty`: or nothing.
Expression enclosed(char open, Expression inner, char close, bool may_be_empty);

// One character of a string, escaped where it must be.
Expression string_char();
// One character in the one spelling that string_char_of() gives it.
Expression plain_char();
// One character of these, as it stands in a string: control characters only where JSON has a short escape for them.
Expression string_char_of(const std::vector<CodePoints> &ranges);
// `inner` between quotation marks.
Expression quoted_text(Expression inner);

// A string that is none of `texts`, and of another beginning than an escape where it is still one of theirs.
Expression string_except(std::vector<std::string> texts);

Expression digits(uint32_t least, uint32_t most);
Expression hex_digits(uint32_t least, uint32_t most);
Expression digit_range(char first, char last);
// One of these ASCII characters.
Expression one_of(std::string_view characters);

}  // namespace bonsai::grammar
