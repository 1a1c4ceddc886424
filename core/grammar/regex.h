// Regular expressions as JSON schemas use them (ECMA-262), as expressions over the characters of a JSON string.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/expression.h"

namespace bonsai::grammar {

// What a pattern matches: `text`, but of that only what all of `ahead` match as well and none of `not_ahead` does.
struct Pattern {
  Expression text;
  std::vector<Expression> ahead, not_ahead;  // lookaheads, (?=...) and (?!...)
};

// What may stand between the quotation marks of a string that `pattern` matches somewhere, or as a whole where it is
// anchored by ^ and $. Characters, `.`, classes with \d \w \s and their opposites, groups, `|`, greedy and lazy
// `*` `+` `?` `{m,n}`, the escapes \t \n \r \f \xNN \uNNNN, lookaheads behind a ^ that holds for all of the
// pattern. Errors name the offset in characters and what is not supported: lookaround elsewhere, back references, \b,
// \p, flags, anchors elsewhere than at the ends. `any_char`: what stands for any character in front of and behind what
// is not anchored, string_char() or plain_char().
Result<Pattern> parse_pattern(std::string_view pattern, Expression any_char);
// Whether it is the one that no text matches: `[]` is a class of no characters.
bool matches_nothing(const Expression &pattern);

}  // namespace bonsai::grammar
