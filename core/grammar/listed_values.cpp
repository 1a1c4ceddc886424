#include "core/grammar/listed_values.h"

#include <utility>
#include <vector>

#include "core/grammar/json_text.h"

namespace bonsai::grammar {
namespace {

// Of the 65,536 states of a grammar's automaton these take less than a quarter.
constexpr size_t kMostOfAny = 250, kMostOfOne = 4000;

}  // namespace

size_t n_spaces(const Json &value) {
  if (!value.is_structured() || value.empty()) return 0;
  size_t n = 1 + value.size() * (value.is_object() ? 2 : 1);
  for (const Json &part : value) n += n_spaces(part);
  return n;
}

Expression listed_value(const Json &value, Spacing spacing) {
  if (!value.is_structured() || value.empty() || spacing == Spacing::kNone) return literal(written(value));
  const bool is_any = spacing == Spacing::kAny;
  const Expression between = is_any ? comma() : sequence({literal(","), optional(literal(" "))});
  std::vector<Expression> parts;
  for (const auto &[name, part] : value.items()) {
    if (!parts.empty()) parts.push_back(between);
    if (value.is_object()) {
      parts.push_back(literal(text_of(name)));
      parts.push_back(colon());
    }
    parts.push_back(listed_value(part, spacing));
  }
  const char open = value.is_object() ? '{' : '[', close = value.is_object() ? '}' : ']';
  if (is_any) return enclosed(open, sequence(std::move(parts)), close, false);
  return sequence({literal({open}), sequence(std::move(parts)), literal({close})});
}

Spacing SpacingBudget::spend(const Json &value, size_t n_copies) {
  const size_t n = n_spaces(value) * n_copies;
  const bool any_fits = n_spent_ + n <= kMostOfAny;
  if (!any_fits && n_spent_ + n > kMostOfOne) return Spacing::kNone;
  n_spent_ += n;
  return any_fits ? Spacing::kAny : Spacing::kOneBehindColonsAndCommas;
}

}  // namespace bonsai::grammar
