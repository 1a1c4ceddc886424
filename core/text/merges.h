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
  // A token still in the word. Indices, because a word of a megabyte has a million of them.
  struct Node {
    int32_t token;
    uint32_t previous;
    uint32_t next;
  };
  // A pair that could merge, if both its tokens are still the same when its turn comes.
  struct Candidate {
    uint32_t rank;
    uint32_t position;  // of the left token
    int32_t left;
    int32_t right;
    int32_t merged;
  };
  // One token of a short word and its merge with the one behind it.
  struct Symbol {
    int32_t token;
    MergeTable::Merge with_next;
  };

  void merge_short(std::span<const int32_t> word, std::vector<int32_t> &out) const;
  void merge_long(std::span<const int32_t> word, std::vector<int32_t> &out);
  void link(std::span<const int32_t> word);
  void push_candidate(uint32_t position);

  const MergeTable &table_;
  std::vector<Node> nodes_;
  std::vector<Candidate> heap_;
};

}  // namespace bonsai::text
