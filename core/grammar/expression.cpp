#include "core/grammar/expression.h"

#include <algorithm>

namespace bonsai::grammar {
namespace {

constexpr char32_t kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

std::vector<CodePoints> sorted_and_joined(std::vector<CodePoints> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
  std::vector<CodePoints> joined;
  for (const CodePoints &range : ranges) {
    if (!joined.empty() && range.first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, range.last);
    else
      joined.push_back(range);
  }
  return joined;
}

std::vector<CodePoints> complement(const std::vector<CodePoints> &joined) {
  std::vector<CodePoints> rest;
  char32_t next = 0;
  for (const CodePoints &range : joined) {
    if (range.first > next) rest.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) rest.push_back({next, kLastCodePoint});
  return rest;
}

Expression class_of(std::vector<CodePoints> ranges) {
  Expression made;
  made.kind = Expression::Kind::kClass;
  made.ranges = std::move(ranges);
  return made;
}

void move_rules(Expression &expression, uint32_t by) {
  if (expression.kind == Expression::Kind::kRule) expression.rule += by;
  for (Expression &part : expression.parts) move_rules(part, by);
}

}  // namespace

uint32_t append(RuleSet rules, RuleSet &to) {
  const auto first = static_cast<uint32_t>(to.rules.size());
  for (Rule &rule : rules.rules) {
    move_rules(rule.body, first);
    to.rules.push_back(std::move(rule));
  }
  return first + rules.root;
}

Expression char_class(std::vector<CodePoints> ranges) {
  return char_class_except(complement(sorted_and_joined(std::move(ranges))));
}

Expression char_class_except(std::vector<CodePoints> ranges) {
  ranges.push_back({kFirstSurrogate, kLastSurrogate});
  return class_of(complement(sorted_and_joined(std::move(ranges))));
}

}  // namespace bonsai::grammar
