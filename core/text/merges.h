// The merges of byte-pair encoding (https://arxiv.org/abs/1508.07909) and their application to one word.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace bonsai::text {

// From a pair of adjacent tokens to the token that replaces it and the merge's rank; the lowest rank merges first.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank;  // kNoMerge: the pair does not merge
    int32_t token;
  };
  static constexpr uint32_t kNoMerge = UINT32_MAX;

  explicit MergeTable(size_t merges);

  // Adds a merge, at most as many as were announced. A pair that is there already keeps its rank.
  void add(int32_t left, int32_t right, Merge merge);
  Merge find(int32_t left, int32_t right) const;

 private:
  struct Slot {
    uint64_t pair;
    Merge merge;  // rank kNoMerge: free
  };
  size_t slot_of(uint64_t pair) const;

  std::vector<Slot> slots_;  // open addressing; a power of two, at most half full
  int shift_;
};

// Merges words. Keeps its scratch memory from word to word; one per call of encode().
class WordMerger {
 public:
  explicit WordMerger(const MergeTable &table) : table_(table) {}

  // Appends what is left of the tokens of one word when no pair merges any more. Among pairs of the lowest rank the
  // leftmost goes first. O(n log n) in the tokens of the word, which are at most 2^31.
  void merge(std::span<const int32_t> word, std::vector<int32_t> &out);

 private:
  // One token and its merge with the one behind it.
  struct Symbol {
    int32_t token;
    MergeTable::Merge with_next;
  };
  // A symbol of a long word, in a linked list. Indices, because a word of a megabyte has a million of them.
  struct Node {
    Symbol symbol;
    uint32_t previous;
    uint32_t next;
  };

  void merge_short(std::span<const int32_t> word, std::vector<int32_t> &out) const;
  void merge_long(std::span<const int32_t> word, std::vector<int32_t> &out);
  void link(std::span<const int32_t> word);
  void join_with_next(uint32_t position);
  void look_up_merge(uint32_t position);

  const MergeTable &table_;
  std::vector<Node> nodes_;
  std::vector<uint64_t> heap_;  // rank and position of every pair that merges, and of some that are no more
};

}  // namespace bonsai::text
