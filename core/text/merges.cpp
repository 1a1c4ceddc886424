#include "core/text/merges.h"

#include <algorithm>
#include <array>
#include <bit>

namespace bonsai::text {
namespace {

// Up to this length, searching all pairs for the best one beats a heap.
constexpr size_t kShortWord = 32;

constexpr uint32_t kNone = UINT32_MAX;

uint64_t pair_of(int32_t left, int32_t right) {
  return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t merges)
    : slots_(std::bit_ceil(merges * 2 + 2), Slot{0, {kNoMerge, 0}}), shift_(64 - std::countr_zero(slots_.size())) {}

// Multiplicative hashing: the top bits of the product depend on both ids.
size_t MergeTable::slot_of(uint64_t pair) const {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  const size_t mask = slots_.size() - 1;
  size_t at = ((pair ^ (pair >> 29)) * kGoldenRatio) >> shift_;
  while (slots_[at].merge.rank != kNoMerge && slots_[at].pair != pair) at = (at + 1) & mask;
  return at;
}

void MergeTable::add(int32_t left, int32_t right, Merge merge) {
  Slot &slot = slots_[slot_of(pair_of(left, right))];
  if (slot.merge.rank == kNoMerge) slot = {pair_of(left, right), merge};
}

MergeTable::Merge MergeTable::find(int32_t left, int32_t right) const {
  return slots_[slot_of(pair_of(left, right))].merge;
}

void WordMerger::merge(std::span<const int32_t> word, std::vector<int32_t> &out) {
  if (word.size() <= kShortWord) {
    merge_short(word, out);
  } else {
    merge_long(word, out);
  }
}

void WordMerger::merge_short(std::span<const int32_t> word, std::vector<int32_t> &out) const {
  constexpr MergeTable::Merge kNothing{MergeTable::kNoMerge, 0};
  std::array<Symbol, kShortWord> symbols;
  size_t count = word.size();
  for (size_t i = 0; i < count; ++i) {
    symbols[i] = {word[i], i + 1 < count ? table_.find(word[i], word[i + 1]) : kNothing};
  }
  const auto lower_rank = [](const Symbol &a, const Symbol &b) { return a.with_next.rank < b.with_next.rank; };
  while (count > 1) {
    const auto end = symbols.begin() + static_cast<ptrdiff_t>(count);
    const auto best = std::min_element(symbols.begin(), end, lower_rank);
    if (best->with_next.rank == MergeTable::kNoMerge) break;
    best->token = best->with_next.token;
    std::copy(best + 2, end, best + 1);
    --count;
    best->with_next = best + 2 < end ? table_.find(best->token, (best + 1)->token) : kNothing;
    if (best != symbols.begin()) (best - 1)->with_next = table_.find((best - 1)->token, best->token);
  }
  for (size_t i = 0; i < count; ++i) out.push_back(symbols[i].token);
}

void WordMerger::link(std::span<const int32_t> word) {
  const auto count = static_cast<uint32_t>(word.size());
  nodes_.resize(count);
  for (uint32_t i = 0; i < count; ++i) {
    nodes_[i] = {word[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  }
}

// The heap's front is the lowest rank and, within one rank, the leftmost pair.
void WordMerger::push_candidate(uint32_t position) {
  const Node &left = nodes_[position];
  if (left.next == kNone) return;
  const Node &right = nodes_[left.next];
  const MergeTable::Merge merge = table_.find(left.token, right.token);
  if (merge.rank == MergeTable::kNoMerge) return;
  heap_.push_back({merge.rank, position, left.token, right.token, merge.token});
}

void WordMerger::merge_long(std::span<const int32_t> word, std::vector<int32_t> &out) {
  constexpr int32_t kGone = -1;
  const auto later = [](const Candidate &a, const Candidate &b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  };
  const auto push = [&](uint32_t position) {
    const size_t before = heap_.size();
    push_candidate(position);
    if (heap_.size() != before) std::push_heap(heap_.begin(), heap_.end(), later);
  };
  link(word);
  heap_.clear();
  for (uint32_t i = 0; i < nodes_.size(); ++i) push_candidate(i);
  std::make_heap(heap_.begin(), heap_.end(), later);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate best = heap_.back();
    heap_.pop_back();
    Node &left = nodes_[best.position];
    // Tokens only grow, so the pair is the one that was pushed exactly if both tokens are unchanged.
    if (left.token != best.left || left.next == kNone || nodes_[left.next].token != best.right) continue;
    Node &right = nodes_[left.next];
    left.token = best.merged;
    left.next = right.next;
    right.token = kGone;
    if (left.next != kNone) nodes_[left.next].previous = best.position;
    push(best.position);
    if (left.previous != kNone) push(left.previous);
  }
  for (uint32_t i = 0; i != kNone; i = nodes_[i].next) out.push_back(nodes_[i].token);
}

}  // namespace bonsai::text
