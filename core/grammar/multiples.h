// Decimal numbers that a divisor divides, exactly, digit by digit.
#pragma once

#include <optional>

#include "core/grammar/language.h"
#include "core/grammar/number_ranges.h"

namespace bonsai::grammar {

// The least number that both divide. nullopt: multiples_of() knows it not, or one of the two.
std::optional<Decimal> common_multiple(const Decimal &a, const Decimal &b);

// The texts of digits, with at most one point and at most as many digits behind it as the divisor has, that are
// multiples of the divisor, also behind minus signs: to be cut with numbers as JSON has them. nullopt: the divisor is
// not above 0, or its digits without the point, times those behind the point and two more, exceed
// Language::kMostStates. Not minimal.
std::optional<Language> multiples_of(const Decimal &divisor);

}  // namespace bonsai::grammar
