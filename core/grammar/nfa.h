// Rules as nondeterministic automata over bytes and calls of other rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/expression.h"

namespace bonsai::grammar {

// One rule. State kStart has no edge into it, state kEnd none out of it.
struct Nfa {
  static constexpr uint32_t kStart = 0, kEnd = 1;
  struct Edge {
    enum class Kind : uint8_t { kEmpty, kBytes, kCall } kind;
    uint8_t first = 0, last = 0;  // kBytes: both included
    uint32_t rule = 0;            // kCall
    uint32_t to = 0;
  };
  std::vector<std::vector<Edge>> states;  // edges out of each

  uint32_t add_state() {
    states.emplace_back();
    return static_cast<uint32_t>(states.size() - 1);
  }
  void add_empty(uint32_t from, uint32_t to) { states[from].push_back({Edge::Kind::kEmpty, 0, 0, 0, to}); }
};

// The most states of all rules together: a few tens of megabytes.
inline constexpr size_t kMostNfaStates = size_t{1} << 18;

// An automaton for each rule that the root needs; the others stay empty. Small rules that do not recur become part of
// those that use them. Errors: too many states, with the rule's name.
Result<std::vector<Nfa>> build_nfas(const RuleSet &rules);

// Rewrites the automata so that a call always reads a byte before it returns, and no rule calls itself before it has
// read one: what may be empty may be skipped instead (`may_be_empty` says which rules match the empty text), and left
// recursion becomes a loop (Paull's method: https://doi.org/10.1137/0201010 is one account). Calls of rules that match
// nothing vanish. Errors: a rule that can never end; too many states.
struct Simplified {
  std::vector<Nfa> nfas;
  std::vector<bool> may_be_empty;  // by rule
};
Result<Simplified> simplify(std::vector<Nfa> nfas, const RuleSet &rules);

}  // namespace bonsai::grammar
