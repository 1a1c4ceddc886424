#include "core/grammar/number_ranges.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "core/grammar/json_text.h"

namespace bonsai::grammar {
namespace {

constexpr size_t kUnboundedDigits = 16;  // without a bound

std::optional<Expression> choice_of(std::vector<Expression> ways) {
  if (ways.empty()) return std::nullopt;
  return choice(std::move(ways));
}

void add(std::vector<Expression> &ways, std::optional<Expression> first,
         std::optional<Expression> second = literal("")) {
  if (first && second) ways.push_back(sequence({*std::move(first), *std::move(second)}));
}

std::optional<Expression> digit_between(int first, int last) {
  if (first > last) return std::nullopt;
  return digit_range(static_cast<char>('0' + first), static_cast<char>('0' + last));
}

Expression any_digits(size_t least, size_t most) {
  return digits(static_cast<uint32_t>(least), static_cast<uint32_t>(std::max(least, most)));
}

// Digits of as many places as `low` and `high` have, between them.
std::optional<Expression> same_length(std::string_view low, std::string_view high) {
  if (low.empty()) return literal("");
  const int a = low[0] - '0', b = high[0] - '0';
  const size_t n_more = low.size() - 1;
  const std::string nines(n_more, '9'), zeros(n_more, '0');
  if (a == b) return sequence({literal({low[0]}), *same_length(low.substr(1), high.substr(1))});
  if (low.substr(1) == zeros && high.substr(1) == nines)
    return sequence({*digit_between(a, b), any_digits(n_more, n_more)});
  std::vector<Expression> ways;
  add(ways, digit_between(a, a), same_length(low.substr(1), nines));
  add(ways, digit_between(a + 1, b - 1), any_digits(n_more, n_more));
  add(ways, digit_between(b, b), same_length(zeros, high.substr(1)));
  return choice(std::move(ways));
}

bool less(std::string_view a, std::string_view b) { return a.size() < b.size() || (a.size() == b.size() && a < b); }

// Whole numbers from `low` to `high`, both without zeros in front.
std::optional<Expression> whole_between(const std::string &low, const std::string &high) {
  std::vector<Expression> ways;
  for (size_t n = low.size(); n <= high.size(); ++n) {
    const std::string first = n == low.size() ? low : std::string(1, '1').append(n - 1, '0');
    const std::string last = n == high.size() ? high : std::string(n, '9');
    if (!less(last, first)) ways.push_back(*same_length(first, last));
  }
  return choice_of(std::move(ways));
}

std::string plus_one(std::string digits) {
  size_t i = digits.size();
  while (i > 0 && digits[i - 1] == '9') digits[--i] = '0';
  if (i == 0) return std::string(1, '1').append(digits);
  ++digits[i - 1];
  return digits;
}

// Precondition: digits is not "0".
std::string minus_one(std::string digits) {
  size_t i = digits.size();
  while (digits[i - 1] == '0') digits[--i] = '9';
  --digits[i - 1];
  if (digits[0] == '0' && digits.size() > 1) digits.erase(0, 1);
  return digits;
}

// What is left of a bound of a fraction, most significant digit first. None left: zeros follow.
struct FractionBound {
  std::string_view digits;
  bool included;

  int digit() const { return digits.empty() ? 0 : digits[0] - '0'; }
  FractionBound next() const { return {digits.substr(digits.empty() ? 0 : 1), included}; }
  bool allows_zero_below() const { return digits.empty() && included; }   // as the least
  bool allows_zero_above() const { return !digits.empty() || included; }  // as the most
};

// The digits of a fraction from one place on, `left` of them at most, under a bound, above one, or between two; with
// `may_stop` also none at all, if zeros would do.
std::optional<Expression> at_most(FractionBound most, size_t left, bool may_stop) {
  std::vector<Expression> ways;
  if (may_stop && most.allows_zero_above()) ways.push_back(literal(""));
  if (left > 0 && most.digits.empty()) {
    if (most.included) ways.push_back(repeat(literal("0"), 1, static_cast<uint32_t>(left)));
  } else if (left > 0) {
    add(ways, digit_between(0, most.digit() - 1), any_digits(0, left - 1));
    add(ways, digit_between(most.digit(), most.digit()), at_most(most.next(), left - 1, true));
  }
  return choice_of(std::move(ways));
}

std::optional<Expression> at_least(FractionBound least, size_t left, bool may_stop) {
  std::vector<Expression> ways;
  if (may_stop && least.allows_zero_below()) ways.push_back(literal(""));
  if (left == 0) return choice_of(std::move(ways));
  if (least.allows_zero_below()) return any_digits(may_stop ? 0 : 1, left);
  add(ways, digit_between(least.digit() + 1, 9), any_digits(0, left - 1));
  add(ways, digit_between(least.digit(), least.digit()), at_least(least.next(), left - 1, true));
  return choice_of(std::move(ways));
}

std::optional<Expression> between(FractionBound least, FractionBound most, size_t left, bool may_stop) {
  const int a = least.digit(), b = most.digit();
  std::vector<Expression> ways;
  if (may_stop && least.allows_zero_below() && most.allows_zero_above()) ways.push_back(literal(""));
  if (left == 0 || a > b) return choice_of(std::move(ways));
  if (a == b) {
    const bool both_zero = least.digits.empty() && most.digits.empty();
    if (!both_zero || (least.included && most.included))
      add(ways, digit_between(a, a), between(least.next(), most.next(), left - 1, true));
    return choice_of(std::move(ways));
  }
  add(ways, digit_between(a, a), at_least(least.next(), left - 1, true));
  add(ways, digit_between(a + 1, b - 1), any_digits(0, left - 1));
  add(ways, digit_between(b, b), at_most(most.next(), left - 1, true));
  return choice_of(std::move(ways));
}

// A range of magnitudes.
struct Magnitudes {
  Decimal least;
  bool least_included;
  std::optional<Bound> most;
};

size_t fraction_digits(const Magnitudes &range) {
  const size_t most = range.most ? range.most->value.fraction.size() : 0;
  return std::max({kUnboundedDigits, range.least.fraction.size() + 1, most + 1});
}

// `whole` with those fractions that `fraction(may_stop)` gives: without a point if it may stop at once.
template <class Fraction>
void add_with_fraction(std::vector<Expression> &ways, const std::optional<Expression> &whole, bool plain,
                       Fraction fraction) {
  if (!whole) return;
  if (plain) ways.push_back(*whole);
  if (auto digits = fraction(false)) ways.push_back(sequence({*whole, literal("."), *std::move(digits)}));
}

std::string highest_whole(const Magnitudes &range) {
  return range.most ? range.most->value.whole : std::string(std::max(kUnboundedDigits, range.least.whole.size()), '9');
}

std::optional<Expression> decimals_in(const Magnitudes &range) {
  const size_t left = fraction_digits(range);
  const FractionBound least = {range.least.fraction, range.least_included};
  const std::string low = range.least.whole, high = highest_whole(range);
  std::vector<Expression> ways;
  if (low == high && range.most) {
    const FractionBound most = {range.most->value.fraction, range.most->included};
    add_with_fraction(ways, literal(low), least.allows_zero_below() && most.allows_zero_above(),
                      [&](bool stop) { return between(least, most, left, stop); });
    return choice_of(std::move(ways));
  }
  if (less(high, low)) return std::nullopt;
  add_with_fraction(ways, literal(low), least.allows_zero_below(),
                    [&](bool stop) { return at_least(least, left, stop); });
  const std::string last_free = range.most ? minus_one(high) : high;
  add_with_fraction(ways, whole_between(plus_one(low), last_free), true,
                    [&](bool) { return std::optional(any_digits(1, left)); });
  if (range.most) {
    const FractionBound most = {range.most->value.fraction, range.most->included};
    add_with_fraction(ways, literal(high), most.allows_zero_above(),
                      [&](bool stop) { return at_most(most, left, stop); });
  }
  return choice_of(std::move(ways));
}

std::optional<Expression> whole_numbers_in(const Magnitudes &range) {
  std::string low = range.least.whole, high = highest_whole(range);
  if (!range.least.fraction.empty() || !range.least_included) low = plus_one(low);
  if (range.most && range.most->value.fraction.empty() && !range.most->included) {
    if (high == "0") return std::nullopt;
    high = minus_one(high);
  }
  return less(high, low) ? std::nullopt : whole_between(low, high);
}

std::optional<Expression> magnitudes_in(const Magnitudes &range, bool whole_numbers) {
  return whole_numbers ? whole_numbers_in(range) : decimals_in(range);
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal decimal;
  if (text.substr(0, 1) == "-") {
    decimal.negative = true;
    text.remove_prefix(1);
  }
  int exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != text.npos) {
    const size_t digits = e + 1 + (text.substr(e + 1, 1) == "+");
    if (std::from_chars(text.data() + digits, text.data() + text.size(), exponent).ec != std::errc())
      return std::nullopt;
    text = text.substr(0, e);
  }
  const size_t point = std::min(text.find('.'), text.size());
  std::string all(text.substr(0, point));
  if (point < text.size()) all += text.substr(point + 1);
  if (exponent < -400 || exponent > 400) return std::nullopt;
  long places = static_cast<long>(point) + exponent;  // digits in front of the point
  if (places < 0) all.insert(0, static_cast<size_t>(-places), '0'), places = 0;
  if (static_cast<size_t>(places) > all.size()) all.append(static_cast<size_t>(places) - all.size(), '0');
  decimal.whole = all.substr(0, static_cast<size_t>(places));
  decimal.fraction = all.substr(static_cast<size_t>(places));
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  decimal.fraction.erase(decimal.fraction.find_last_not_of('0') + 1);
  if (decimal.whole.empty()) decimal.whole.push_back('0');
  if (decimal.whole == "0" && decimal.fraction.empty()) decimal.negative = false;
  if (std::max(decimal.whole.size(), decimal.fraction.size()) > size_t{kMostDecimalDigits}) return std::nullopt;
  return decimal;
}

std::optional<Expression> number_in(const NumberRange &range) {
  const auto magnitude_of = [](const std::optional<Bound> &bound) {
    Bound made = *bound;
    made.value.negative = false;
    return made;
  };
  const bool least_is_negative = !range.least || range.least->value.negative;
  const bool most_is_negative = range.most && range.most->value.negative;
  const bool has_zero_below = range.most && range.most->value == Decimal{};  // nothing above 0
  std::vector<Expression> ways;
  if (least_is_negative) {
    Magnitudes negative{{}, false, std::nullopt};  // -0 is left to 0
    if (most_is_negative) {
      negative.least = magnitude_of(range.most).value;
      negative.least_included = range.most->included;
    }
    if (range.least) negative.most = magnitude_of(range.least);
    if (auto numbers = magnitudes_in(negative, range.whole_numbers))
      ways.push_back(sequence({literal("-"), *std::move(numbers)}));
  }
  if (!most_is_negative) {
    Magnitudes positive{{}, true, range.most};
    if (!least_is_negative) {
      positive.least = range.least->value;
      positive.least_included = range.least->included;
    }
    if (!(has_zero_below && !range.most->included)) {
      if (auto numbers = magnitudes_in(positive, range.whole_numbers)) ways.push_back(*std::move(numbers));
    }
  }
  return choice_of(std::move(ways));
}

}  // namespace bonsai::grammar
