// Decimal numbers between two bounds, exactly, digit by digit.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/grammar/expression.h"

namespace bonsai::grammar {

// A decimal without exponent: -12.5 is {true, "12", "5"}. No zeros in front (but for "0") nor at the end of `fraction`.
struct Decimal {
  bool negative = false;
  std::string whole = "0";
  std::string fraction = {};
  bool operator==(const Decimal &) const = default;
};

// From JSON's notation for numbers; nullopt for one of more than `kMostDecimalDigits` digits in front of the point or
// behind it, once the exponent is worked in.
std::optional<Decimal> parse_decimal(std::string_view text);
inline constexpr int kMostDecimalDigits = 18;

struct Bound {
  Decimal value;
  bool included = true;
};
struct NumberRange {
  std::optional<Bound> least, most;
  bool whole_numbers = false;
};

// JSON numbers in the range, without exponent: as many digits as the bounds have, and at least 16, in front of the
// point where a bound is missing, and as many behind it. nullopt: there are none.
std::optional<Expression> number_in(const NumberRange &range);

}  // namespace bonsai::grammar
