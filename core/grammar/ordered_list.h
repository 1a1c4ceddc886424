// Lists of different things in a given order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/grammar/expression.h"

namespace bonsai::grammar {

struct ListMember {
  Expression text;
  bool needed = false;  // else it may be left out
};

struct OrderedList {
  // The most members times the numbers of them that are counted up to.
  static constexpr size_t kMostCounts = size_t{1} << 16;

  std::vector<ListMember> members;   // in this order
  std::optional<Expression> others;  // one more behind them, any number of times; two may be the same thing
  // How many there have to be, where others count once, and how many there may be.
  uint32_t least = 0, most = Expression::kUnbounded;

  bool may_be_empty() const;
  // Whether counting takes more than kMostCounts.
  bool is_too_long() const;
  // The lists of at least one, with commas. Preconditions: !is_too_long(); there is such a list.
  Expression expression() const;
};

}  // namespace bonsai::grammar
