// Sets of texts as deterministic automata over bytes that can be cut with one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/expression.h"
#include "core/grammar/nfa.h"

namespace bonsai::grammar {

// How much work on automata may still be done: one bound for all languages of a schema, as what they take is not seen
// by its length. Counted in states and steps that are made or looked at, some 50 ns each.
class Effort {
 public:
  explicit Effort(size_t most) : most_(most), left_(most) {}
  // False: less was left, and nothing is any more.
  bool spend(size_t n) {
    const bool enough = n <= left_;
    left_ -= enough ? n : left_;
    return enough;
  }
  size_t most() const { return most_; }

  // Of the languages that become part of the grammar, that so many states do: false where they alone are more than it
  // may have.
  bool keep(size_t n_states) { return (n_kept_ += n_states) <= kMostNfaStates; }
  // What was kept up to a place, for keep_only() where what came behind it is left out of the grammar.
  size_t kept() const { return n_kept_; }
  void keep_only(size_t n_states) { n_kept_ = n_states; }

 private:
  size_t most_, left_, n_kept_ = 0;
};

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

  // The functions that make one spend effort; their errors: more of it than is left, too many states.
  //
  // The texts that the expression matches. Precondition: it calls no rules.
  static Result<Language> of(const Expression &expression, Effort &effort);
  // The texts that are in both, and those that are in `a` alone (the product construction, doi:10.1147/rd.32.0114).
  static Result<Language> both(const Language &a, const Language &b, Effort &effort);
  static Result<Language> difference(const Language &a, const Language &b, Effort &effort);

  // The same texts with the fewest states (Moore's partition refinement).
  Result<Language> minimal(Effort &effort) const;

  bool is_empty() const { return states_[kStart].steps.empty() && !states_[kStart].end; }
  bool contains(std::string_view text) const;
  // For the schema's grammar. Errors: with those before it, more states than a grammar may have. Precondition: not
  // empty.
  Result<Expression> expression(Effort &effort) const;

 private:
  static Result<Language> product(const Language &a, const Language &b, bool in_b, Effort &effort);

  std::vector<State> states_;
};

}  // namespace bonsai::grammar
