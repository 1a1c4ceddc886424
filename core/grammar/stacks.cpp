#include "core/grammar/stacks.h"

#include <algorithm>

namespace bonsai::grammar {
namespace {

// FNV-1a over the numbers (http://www.isthe.com/chongo/tech/comp/fnv).
uint64_t hash_of(std::span<const Stacks::Frame> frames) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const Stacks::Frame frame : frames) {
    hash = (hash ^ frame.state) * 0x100000001B3u;
    hash = (hash ^ frame.below) * 0x100000001B3u;
  }
  return hash;
}

}  // namespace

Stacks::Stacks() {
  constexpr Frame kEmpty = {0, kBottom};
  number_of({&kEmpty, 1}, 0);
}

uint32_t Stacks::number_of(std::span<const Frame> frames, uint32_t depth) {
  const uint64_t hash = hash_of(frames);
  for (auto [at, end] = numbers_.equal_range(hash); at != end; ++at) {
    const auto known = tops(at->second);
    if (std::equal(known.begin(), known.end(), frames.begin(), frames.end())) return at->second;
  }
  const auto number = static_cast<uint32_t>(sets_.size());
  sets_.push_back({static_cast<uint32_t>(frames_.size()), static_cast<uint32_t>(frames.size()), depth, hash});
  frames_.insert(frames_.end(), frames.begin(), frames.end());
  numbers_.emplace(hash, number);
  return number;
}

uint32_t Stacks::push(uint32_t state, uint32_t below) {
  const uint32_t depth = sets_[below].depth + 1;
  if (depth > kMostDepth) return kTooDeep;
  const Frame frame = {state, below};
  return number_of({&frame, 1}, depth);
}

// What has the same state on top in both is united below. The recursion is as deep as the stacks.
uint32_t Stacks::unite(uint32_t a, uint32_t b) {
  if (a == b || is_spent()) return a;
  const uint64_t key = uint64_t{std::min(a, b)} << 32 | std::max(a, b);
  if (const auto known = united_.find(key); known != united_.end()) return known->second;
  spend(16 + tops(a).size() + tops(b).size());
  const std::vector<Frame> left(tops(a).begin(), tops(a).end()), right(tops(b).begin(), tops(b).end());
  std::vector<Frame> merged;
  for (size_t i = 0, j = 0; i < left.size() || j < right.size();) {
    if (j == right.size() || (i < left.size() && left[i].state < right[j].state)) {
      merged.push_back(left[i++]);
    } else if (i == left.size() || right[j].state < left[i].state) {
      merged.push_back(right[j++]);
    } else {
      merged.push_back({left[i].state, unite(left[i].below, right[j].below)});
      ++i, ++j;
    }
  }
  const uint32_t united = number_of(merged, std::max(sets_[a].depth, sets_[b].depth));
  united_[key] = united;
  return united;
}

void Stacks::release(size_t size) {
  if (sets_.size() == size) return;
  united_.clear();
  for (; sets_.size() > size; sets_.pop_back()) {
    const auto number = static_cast<uint32_t>(sets_.size() - 1);
    auto at = numbers_.equal_range(sets_.back().hash).first;
    while (at->second != number) ++at;
    numbers_.erase(at);
    frames_.resize(sets_.back().first);
  }
}

}  // namespace bonsai::grammar
