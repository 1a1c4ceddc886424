#include "core/text/merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>

namespace bonsai::text {
namespace {

// Up to this length, searching all pairs for the best one beats a heap.
constexpr size_t kShortWord = 32;

constexpr uint32_t kNone = UINT32_MAX;  // no neighbour
constexpr MergeTable::Merge kNothing{MergeTable::kNoMerge, 0};

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
    nodes_[i] = {{word[i], kNothing}, i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  }
}

// Brings a node's merge up to date and puts it into the heap, still unordered.
void WordMerger::look_up_merge(uint32_t position) {
  Node &node = nodes_[position];
  node.symbol.with_next =
      node.next == kNone ? kNothing : table_.find(node.symbol.token, nodes_[node.next].symbol.token);
  const uint32_t rank = node.symbol.with_next.rank;
  if (rank != MergeTable::kNoMerge) heap_.push_back((uint64_t{rank} << 32) | position);
}

void WordMerger::join_with_next(uint32_t position) {
  Node &left = nodes_[position];
  Node &right = nodes_[left.next];
  left.symbol.token = left.symbol.with_next.token;
  left.next = right.next;
  right.symbol.with_next = kNothing;
  if (left.next != kNone) nodes_[left.next].previous = position;
}

void WordMerger::merge_long(std::span<const int32_t> word, std::vector<int32_t> &out) {
  const auto push = [&](uint32_t position) {
    const size_t before = heap_.size();
    look_up_merge(position);
    if (heap_.size() != before) std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  };
  link(word);
  heap_.clear();
  for (uint32_t i = 0; i < nodes_.size(); ++i) look_up_merge(i);
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const auto rank = static_cast<uint32_t>(heap_.back() >> 32);
    const auto position = static_cast<uint32_t>(heap_.back());
    heap_.pop_back();
    // A rank belongs to one pair; another rank now means that one of its tokens has been merged away.
    if (nodes_[position].symbol.with_next.rank != rank) continue;
    join_with_next(position);
    push(position);
    if (nodes_[position].previous != kNone) push(nodes_[position].previous);
  }
  for (uint32_t i = 0; i != kNone; i = nodes_[i].next) out.push_back(nodes_[i].symbol.token);
}

}  // namespace bonsai::text
