// Sets of texts as deterministic automata over bytes that can be cut with one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/expression.h"

namespace bonsai::grammar {

// Immutable. Every state leads to an end, but for the start of the empty set.
class Language {
 public:
  // The most states of one; more are an error.
  static constexpr size_t kMostStates = size_t{1} << 16;
  static constexpr uint32_t kStart = 0;

  struct Step {
    uint8_t first, last;  // bytes, both included
    uint32_t to;
  };
  struct State {
    std::vector<Step> steps;  // by byte, none twice
    bool end = false;
  };

  // Any automaton whose first state is the start.
  explicit Language(std::vector<State> states);

  // The texts that the expression matches. Precondition: it calls no rules. Errors: too many states.
  static Result<Language> of(const Expression &expression);
  // The texts that are in both, and those that are in `a` alone (the product construction, doi:10.1147/rd.32.0114).
  // Errors: too many states.
  static Result<Language> both(const Language &a, const Language &b);
  static Result<Language> difference(const Language &a, const Language &b);

  // The same texts with the fewest states (Moore's partition refinement).
  Language minimal() const;

  bool is_empty() const { return states_[kStart].steps.empty() && !states_[kStart].end; }
  bool contains(std::string_view text) const;
  // Precondition: not empty.
  Expression expression() const;

 private:
  static Result<Language> product(const Language &a, const Language &b, bool in_b);

  std::vector<State> states_;
};

}  // namespace bonsai::grammar
