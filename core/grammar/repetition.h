// How often something is to be repeated, as GBNF and regular expressions write it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <tl/expected.hpp>

#include "core/grammar/expression.h"

namespace bonsai::grammar {

struct Repetition {
  uint32_t least = 0, most = Expression::kUnbounded;
};

struct BadRepetition {
  enum class Kind : uint8_t {
    kNoCount,    // a number is missing at `end`
    kTooMany,    // the number from `begin` to `end` is more than kMostRepetitions
    kNotClosed,  // '}' is missing at `end`
    kDownwards,  // in what stands from `begin` to `end`, braces included, the most is less than the least
  } kind;
  size_t begin, end;  // offsets
};

enum class RepetitionStyle : uint8_t { kRegex, kGbnf };

// Reads `*`, `+`, `?`, `{m}`, `{m,}` or `{m,n}` at `at`, and sets `at` behind it; nullopt: there is none. GBNF may
// leave m out as well, and have spaces between the braces.
tl::expected<std::optional<Repetition>, BadRepetition> read_repetition(std::string_view text, size_t &at,
                                                                       RepetitionStyle style);

}  // namespace bonsai::grammar
