// A grammar as it runs: a deterministic automaton over bytes for each rule, and calls between them.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"
#include "core/grammar/expression.h"

namespace bonsai::grammar {

// Immutable. The states of all rules are numbered together. From every state but kDead some text leads to the rule's
// end, so that whoever follows only living states can always finish.
class Automaton {
 public:
  static constexpr uint32_t kDead = 0;
  // The most states of all rules together: some tens of megabytes.
  static constexpr size_t kMostStates = size_t{1} << 16;

  struct Call {
    uint32_t start;  // of the called rule
    uint32_t to;     // where to go on when it returns
    uint32_t first;  // number of the set of bytes that it may begin with
  };

  // Errors: as of build_nfas() and simplify(); too many states, with the rule's name.
  static Result<Automaton> compile(const RuleSet &rules);

  uint32_t root() const { return root_; }
  bool may_be_empty() const { return may_be_empty_; }  // the empty text is a sentence
  size_t n_states() const { return states_.size(); }
  // What compiling took: states and entries of their rows that were looked at or made.
  size_t n_steps() const { return n_steps_; }

  uint32_t next(uint32_t state, uint8_t byte) const { return rows_[state * n_classes_ + class_of_[byte]]; }
  // Whether the called rule, or one that it calls first, reads `byte` first.
  bool may_begin(const Call &call, uint8_t byte) const { return first_bytes_[call.first][byte]; }
  bool is_end(uint32_t state) const { return states_[state].end; }
  // An end that nothing follows: returning to it is returning to its caller. The root of a grammar of the empty text
  // alone is one, too.
  bool is_bare_end(uint32_t state) const { return states_[state].bare_end; }
  std::span<const Call> calls(uint32_t state) const {
    return {calls_.data() + states_[state].first_call, states_[state].n_calls};
  }

 private:
  friend class Determiniser;
  struct State {
    uint32_t first_call = 0, n_calls = 0;
    bool end = false, bare_end = false;
  };

  uint32_t root_ = kDead;
  bool may_be_empty_ = false;
  size_t n_steps_ = 0;
  uint32_t n_classes_ = 1;
  std::array<uint8_t, 256> class_of_{};  // bytes that no rule tells apart are one class
  std::vector<uint32_t> rows_;           // (states, classes)
  std::vector<State> states_;
  std::vector<Call> calls_;
  std::vector<std::bitset<256>> first_bytes_;
};

}  // namespace bonsai::grammar
