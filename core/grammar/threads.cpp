#include "core/grammar/threads.h"

#include <algorithm>

namespace bonsai::grammar {
namespace {

// Adds threads until nothing new follows from them. A thread whose stacks have grown is followed again: as a call reads
// a byte before it returns, and before it calls itself, this comes to an end.
class Closure {
 public:
  Closure(Stacks &stacks, Threads &threads) : stacks_(stacks), threads_(threads) {}

  void add(Thread thread) {
    stacks_.spend(1 + threads_.list.size() / 4);
    const auto at = find(thread.state);
    if (at == threads_.list.end()) {
      if (threads_.list.size() == Threads::kMost) return;
      threads_.list.push_back(thread);
    } else {
      const uint32_t united = stacks_.unite(at->stacks, thread.stacks);
      if (united == at->stacks) return;
      at->stacks = united;
    }
    open_.push_back(thread.state);
  }

  // Calls `follow`, which may add threads, with each that is new or has grown; until the work is spent.
  template <class Follow>
  void run(Follow follow) {
    while (!open_.empty() && !stacks_.is_spent()) {
      const uint32_t state = open_.back();
      open_.pop_back();
      follow(Thread(*find(state)));
    }
  }

 private:
  std::vector<Thread>::iterator find(uint32_t state) {
    return std::find_if(threads_.list.begin(), threads_.list.end(),
                        [&](const Thread &known) { return known.state == state; });
  }

  Stacks &stacks_;
  Threads &threads_;
  std::vector<uint32_t> open_;  // states whose threads are to be followed
};

}  // namespace

void add_with_returns(const Automaton &automaton, Stacks &stacks, Thread thread, Threads &threads) {
  Closure closure(stacks, threads);
  closure.add(thread);
  closure.run([&](Thread at) {
    if (!automaton.is_end(at.state)) return;
    for (size_t i = 0; i < stacks.tops(at.stacks).size(); ++i) {
      const Stacks::Frame top = stacks.tops(at.stacks)[i];
      if (top.state == 0)
        threads.ended = true;
      else
        closure.add({top.state, top.below});
    }
  });
}

void step_into_calls(const Automaton &automaton, Stacks &stacks, Thread thread, uint8_t byte, Threads &to) {
  Threads called;  // at the starts of rules
  Closure closure(stacks, called);
  const auto add_calls = [&](Thread at) {
    for (const Automaton::Call &call : automaton.calls(at.state)) {
      if (!automaton.may_begin(call, byte)) continue;
      const uint32_t below = automaton.is_bare_end(call.to) ? at.stacks : stacks.push(call.to, at.stacks);
      if (below != Stacks::kTooDeep) closure.add({call.start, below});
    }
  };
  add_calls(thread);
  closure.run(add_calls);
  for (const Thread start : called.list) {
    const uint32_t next = automaton.next(start.state, byte);
    if (next != Automaton::kDead) add_with_returns(automaton, stacks, {next, start.stacks}, to);
  }
}

}  // namespace bonsai::grammar
