#include "core/grammar/multiples.h"

#include <string>
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

}  // namespace

std::optional<Language> multiples_of(const Decimal &divisor) {
  const std::string digits = divisor.whole + divisor.fraction;
  const size_t first = digits.find_first_not_of('0');
  if (divisor.negative || first == digits.npos || digits.size() - first > 6) return std::nullopt;
  const auto value = static_cast<uint32_t>(std::stoul(digits.substr(first)));
  const auto n_places = static_cast<uint32_t>(divisor.fraction.size());
  if (size_t{value} * (n_places + 2) > Language::kMostStates) return std::nullopt;
  return Language(Remainders(value, n_places).states());
}

}  // namespace bonsai::grammar
