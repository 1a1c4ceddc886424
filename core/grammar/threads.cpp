#include "core/grammar/threads.h"

#include <algorithm>

namespace bonsai::grammar {
namespace {

// Adds threads until nothing new follows from them. A thread whose stacks have grown is followed again: as a call reads
// a byte before it returns, and before it calls itself, this comes to an end.
class Closure {
 public:
  Closure(const Automaton &automaton, Stacks &stacks, Threads &threads)
      : automaton_(automaton), stacks_(stacks), threads_(threads) {}

  void add(Thread thread) {
    const auto at = std::find_if(threads_.list.begin(), threads_.list.end(),
                                 [&](const Thread &known) { return known.state == thread.state; });
    if (at == threads_.list.end()) {
      if (threads_.list.size() == Threads::kMost) return;
      threads_.list.push_back(thread);
    } else {
      const uint32_t united = stacks_.unite(at->stacks, thread.stacks);
      if (united == at->stacks) return;
      at->stacks = united;
    }
    if (!automaton_.is_plain(thread.state)) open_.push_back(thread.state);
  }

  void follow() {
    while (!open_.empty()) {
      const uint32_t state = open_.back();
      open_.pop_back();
      const auto at = std::find_if(threads_.list.begin(), threads_.list.end(),
                                   [&](const Thread &known) { return known.state == state; });
      expand(*at);
    }
  }

 private:
  void expand(Thread thread) {
    for (const Automaton::Call &call : automaton_.calls(thread.state)) {
      const uint32_t stacks = automaton_.is_bare_end(call.to) ? thread.stacks : stacks_.push(call.to, thread.stacks);
      if (stacks != Stacks::kTooDeep) add({call.start, stacks});
    }
    if (!automaton_.is_end(thread.state)) return;
    for (size_t i = 0; i < stacks_.tops(thread.stacks).size(); ++i) {
      const Stacks::Frame top = stacks_.tops(thread.stacks)[i];
      if (top.state == 0)
        threads_.ended = true;
      else
        add({top.state, top.below});
    }
  }

  const Automaton &automaton_;
  Stacks &stacks_;
  Threads &threads_;
  std::vector<uint32_t> open_;  // states whose threads are to be followed
};

}  // namespace

void add_with_closure(const Automaton &automaton, Stacks &stacks, Thread thread, Threads &threads) {
  Closure closure(automaton, stacks, threads);
  closure.add(thread);
  closure.follow();
}

}  // namespace bonsai::grammar
