// Where the threads of a grammar return to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace bonsai::grammar {

// Sets of stacks, as a graph whose nodes share what lies below (the graph-structured stacks of Tomita's parsers,
// https://aclanthology.org/J87-1004): an ambiguous grammar has very many stacks at once, but few different tops. Equal
// sets are the same number. They stay until release(); a copy is a fork.
class Stacks {
 public:
  // A state to return to, and the set of stacks below it.
  struct Frame {
    uint32_t state, below;
    bool operator==(const Frame &) const = default;
  };
  static constexpr uint32_t kBottom = 0;  // the empty stack alone; as a frame it has state 0
  static constexpr uint32_t kTooDeep = ~0u;
  static constexpr uint32_t kMostDepth = 512;
  static constexpr uint64_t kMostWork = uint64_t{1} << 26;

  Stacks();

  // The stacks of a set with `state` on top of each; kTooDeep instead of one above kMostDepth.
  uint32_t push(uint32_t state, uint32_t below);
  // All stacks of two sets.
  uint32_t unite(uint32_t a, uint32_t b);

  // The tops of a set, by state, each state once; valid until the next change. State 0 stands for the empty stack.
  std::span<const Frame> tops(uint32_t stacks) const {
    return {frames_.data() + sets_[stacks].first, sets_[stacks].count};
  }

  uint32_t depth(uint32_t stacks) const { return sets_[stacks].depth; }  // of the deepest
  size_t size() const { return sets_.size(); }
  // Forgets every set that was made since size() was `size`.
  void release(size_t size);

  // A meter of the work that is done with these, in steps of a few nanoseconds: there are small grammars that can be
  // read in so many ways that a byte takes seconds. Whoever works on them gives up once it is spent.
  void spend(size_t steps) { work_ += steps; }
  bool is_spent() const { return work_ > kMostWork; }
  void restart_work() { work_ = 0; }

 private:
  struct Set {
    uint32_t first, count, depth;
    uint64_t hash;
  };

  uint32_t number_of(std::span<const Frame> frames, uint32_t depth);

  std::vector<Set> sets_;
  std::vector<Frame> frames_;
  std::unordered_multimap<uint64_t, uint32_t> numbers_;  // by hash
  std::unordered_map<uint64_t, uint32_t> united_;        // by both numbers
  uint64_t work_ = 0;
};

}  // namespace bonsai::grammar
