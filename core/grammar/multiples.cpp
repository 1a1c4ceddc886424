#include "core/grammar/multiples.h"

#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace bonsai::grammar {
namespace {

// The divisor is `digits` / 10^n_places. States are remainders of what has been read, without its point, by `digits`:
// one row of them for the whole part and one for each number of places behind the point.
class Remainders {
 public:
  Remainders(uint32_t digits, uint32_t n_places) : digits_(digits), n_places_(n_places) {}

  std::vector<Language::State> states() const {
    std::vector<Language::State> made;
    const uint32_t n_rows = n_places_ == 0 ? 1 : n_places_ + 2;
    for (uint32_t row = 0; row < n_rows; ++row)
      for (uint32_t remainder = 0; remainder < digits_; ++remainder) made.push_back(state(row, remainder));
    return made;
  }

 private:
  uint32_t number(uint32_t row, uint32_t remainder) const { return row * digits_ + remainder; }

  // Row 0: the whole part; row 1 + n: n places behind the point.
  Language::State state(uint32_t row, uint32_t remainder) const {
    Language::State made;
    uint32_t padded = remainder;  // with zeros for the places that are not there
    for (uint32_t place = row == 0 ? 0 : row - 1; place < n_places_; ++place) padded = next(padded, 0);
    made.end = padded == 0;
    if (row == 0) made.steps.push_back({'-', '-', number(0, remainder)});
    if (row == 0 && n_places_ > 0) made.steps.push_back({'.', '.', number(1, remainder)});
    if (row == n_places_ + 1) return made;
    for (uint8_t digit = 0; digit < 10; ++digit) {
      const auto character = static_cast<uint8_t>('0' + digit);
      made.steps.push_back({character, character, number(row == 0 ? 0 : row + 1, next(remainder, digit))});
    }
    return made;
  }

  uint32_t next(uint32_t remainder, uint32_t digit) const { return (remainder * 10 + digit) % digits_; }

  uint32_t digits_, n_places_;
};

// A divisor as `digits` / 10^n_places.
struct Divisor {
  uint32_t digits, n_places;
};

// nullopt: not above 0, or too large.
std::optional<Divisor> divisor_of(const Decimal &divisor) {
  const std::string digits = divisor.whole + divisor.fraction;
  const size_t first = digits.find_first_not_of('0');
  if (divisor.negative || first == digits.npos || digits.size() - first > 6) return std::nullopt;
  const auto value = static_cast<uint32_t>(std::stoul(digits.substr(first)));
  const auto n_places = static_cast<uint32_t>(divisor.fraction.size());
  if (size_t{value} * (n_places + 2) > Language::kMostStates) return std::nullopt;
  return Divisor{value, n_places};
}

uint64_t ten_to_the(uint32_t exponent) {
  uint64_t power = 1;
  for (; exponent > 0; --exponent) power *= 10;
  return power;
}
static_assert(kMostDecimalDigits < 20);

// In lowest terms.
std::pair<uint64_t, uint64_t> fraction_of(const Divisor &divisor) {
  const uint64_t power = ten_to_the(divisor.n_places), common = std::gcd(uint64_t{divisor.digits}, power);
  return {divisor.digits / common, power / common};
}

}  // namespace

// Of fractions in lowest terms: the least common multiple of what is above by the greatest common divisor of what is
// below.
std::optional<Decimal> common_multiple(const Decimal &a, const Decimal &b) {
  const auto left = divisor_of(a), right = divisor_of(b);
  if (!left || !right) return std::nullopt;
  const auto [left_above, left_below] = fraction_of(*left);
  const auto [right_above, right_below] = fraction_of(*right);
  const uint64_t above = std::lcm(left_above, right_above), below = std::gcd(left_below, right_below);
  if (above > Language::kMostStates) return std::nullopt;
  uint32_t n_places = 0;
  while (ten_to_the(n_places) % below != 0) ++n_places;
  std::string digits = std::to_string(above * (ten_to_the(n_places) / below));
  if (digits.size() <= n_places) digits.insert(0, n_places + 1 - digits.size(), '0');
  const Decimal made = {false, digits.substr(0, digits.size() - n_places), digits.substr(digits.size() - n_places)};
  return divisor_of(made) ? std::optional(made) : std::nullopt;
}

std::optional<Language> multiples_of(const Decimal &divisor) {
  const auto known = divisor_of(divisor);
  if (!known) return std::nullopt;
  return Language(Remainders(known->digits, known->n_places).states());
}

}  // namespace bonsai::grammar
