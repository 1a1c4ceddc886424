// The ways in which a text may be read so far, and how a byte takes them on.
#pragma once

#include <cstdint>
#include <vector>

#include "core/grammar/automaton.h"
#include "core/grammar/stacks.h"

namespace bonsai::grammar {

// One state of some rule, which returns to any of the stacks of a set.
struct Thread {
  uint32_t state, stacks;
};

// All ways at one place in the text; each state occurs once.
struct Threads {
  // What an ambiguous grammar may have at once; further ones are left out, so that less is allowed than could be, but
  // nothing that the grammar forbids.
  static constexpr size_t kMost = 256;

  std::vector<Thread> list;
  bool ended = false;  // a thread with nothing to return to is at its end

  void clear() {
    list.clear();
    ended = false;
  }
};

// Adds a thread, and with it all that returns lead to without a byte.
void add_with_returns(const Automaton &automaton, Stacks &stacks, Thread thread, Threads &threads);

// Adds what `byte` makes of those rules that a thread may call.
void step_into_calls(const Automaton &automaton, Stacks &stacks, Thread thread, uint8_t byte, Threads &to);

// `to` becomes what `byte` makes of `from`. Returns whether any thread is left; not, if the work is spent.
inline bool step(const Automaton &automaton, Stacks &stacks, const Threads &from, uint8_t byte, Threads &to) {
  to.clear();
  for (const Thread thread : from.list) {
    const uint32_t next = automaton.next(thread.state, byte);
    if (next != Automaton::kDead) {
      if (from.list.size() == 1 && !automaton.is_end(next))
        to.list.push_back({next, thread.stacks});
      else
        add_with_returns(automaton, stacks, {next, thread.stacks}, to);
    }
    for (const Automaton::Call &call : automaton.calls(thread.state)) {
      if (!automaton.may_begin(call, byte)) continue;
      step_into_calls(automaton, stacks, thread, byte, to);
      break;
    }
  }
  stacks.spend(from.list.size());
  return !to.list.empty() && !stacks.is_spent();
}

}  // namespace bonsai::grammar
