// GBNF, the grammar notation of llama.cpp (its grammars/README.md describes it):
//
//   root   ::= "yes" | "no" reason?         # alternatives, optional
//   reason ::= ", because " [a-z ]{1,40} "."
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/grammar/expression.h"

namespace bonsai::grammar {

// Literals with escapes (\n \r \t \\ \" \[ \] \xNN \uNNNN \UNNNNNNNN), classes with ranges and negation, `.` (any
// character), groups, `|`, `*`, `+`, `?`, `{m}`, `{m,}`, `{m,n}`, `{,n}`, comments. A rule ends with its line, but for
// what stands in parentheses or follows `|` or `::=`. What llama.cpp has beyond that is refused: tokens by their name
// or number (<think>, <[1000]>, !<think>), for a grammar here is one of bytes, whatever the vocabulary. Errors name
// line and column (of characters, both from 1), what was expected and what was found; rules that are used and not
// defined, or defined twice, are named.
Result<RuleSet> parse_gbnf(std::string_view text);

// Limits that keep a grammar's memory in bounds.
inline constexpr size_t kMostGrammarBytes = size_t{1} << 20;
inline constexpr uint32_t kMostRules = 4096;
inline constexpr uint32_t kMostRepetitions = 4096;  // in {m,n}, and of maxLength and maxItems in a schema
inline constexpr uint32_t kMostNesting = 100;

}  // namespace bonsai::grammar
