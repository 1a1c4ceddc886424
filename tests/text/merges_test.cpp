#include "core/text/merges.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <utility>

namespace bonsai::text {
namespace {

using Ids = std::vector<int32_t>;

Ids merge(const MergeTable &table, const Ids &word) {
  Ids out;
  WordMerger(table).merge(word, out);
  return out;
}

TEST(Merges, TheLowestRankGoesFirstWhateverItsPlace) {
  MergeTable table(2);
  table.add(2, 3, {0, 11});  // b c
  table.add(1, 2, {1, 10});  // a b
  EXPECT_EQ(merge(table, {1, 2, 3}), (Ids{1, 11}));
  EXPECT_EQ(merge(table, {1, 2, 1, 2, 3}), (Ids{10, 1, 11}));
}

TEST(Merges, WithinOneRankTheLeftmostGoesFirst) {
  MergeTable table(2);
  table.add(1, 1, {0, 10});
  table.add(10, 10, {1, 11});
  EXPECT_EQ(merge(table, {1, 1, 1}), (Ids{10, 1}));
  EXPECT_EQ(merge(table, {1, 1, 1, 1, 1}), (Ids{11, 1}));
}

TEST(Merges, APairThatIsAddedTwiceKeepsItsFirstRank) {
  MergeTable table(3);
  table.add(1, 2, {0, 10});
  table.add(2, 3, {1, 11});
  table.add(1, 2, {2, 10});
  EXPECT_EQ(merge(table, {1, 2, 3}), (Ids{10, 3}));
}

TEST(Merges, NothingToMergeLeavesTheWord) {
  const MergeTable table(0);
  EXPECT_EQ(merge(table, {}), (Ids{}));
  EXPECT_EQ(merge(table, {7}), (Ids{7}));
  EXPECT_EQ(merge(table, {7, 8, 9}), (Ids{7, 8, 9}));
  EXPECT_EQ(merge(table, Ids(100, 7)), Ids(100, 7));
}

// The definition, as slowly as it is written.
Ids merge_by_definition(const std::map<std::pair<int32_t, int32_t>, MergeTable::Merge> &merges, Ids word) {
  while (true) {
    uint32_t best_rank = MergeTable::kNoMerge;
    size_t best = 0;
    for (size_t i = 0; i + 1 < word.size(); ++i) {
      const auto found = merges.find({word[i], word[i + 1]});
      if (found == merges.end() || found->second.rank >= best_rank) continue;
      best_rank = found->second.rank;
      best = i;
    }
    if (best_rank == MergeTable::kNoMerge) return word;
    word[best] = merges.at({word[best], word[best + 1]}).token;
    word.erase(word.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

// Short words are searched and long ones use a heap; both must do what the definition says.
TEST(Merges, ShortAndLongWordsFollowTheDefinition) {
  std::mt19937 random(1);
  for (int round = 0; round < 60; ++round) {
    std::map<std::pair<int32_t, int32_t>, MergeTable::Merge> merges;
    MergeTable table(200);
    for (uint32_t rank = 0; rank < 200; ++rank) {
      const auto tokens = static_cast<uint32_t>(4 + rank);
      const std::pair pair{static_cast<int32_t>(random() % tokens), static_cast<int32_t>(random() % tokens)};
      const MergeTable::Merge merge{rank, static_cast<int32_t>(tokens)};
      table.add(pair.first, pair.second, merge);
      merges.emplace(pair, merge);
    }
    for (const size_t length : {2, 3, 5, 8, 31, 32, 33, 34, 64, 300}) {
      Ids word(length);
      for (int32_t &token : word) token = static_cast<int32_t>(random() % 4);
      ASSERT_EQ(merge(table, word), merge_by_definition(merges, word)) << "round " << round << ", length " << length;
    }
  }
}

TEST(Merges, AMillionTokensInOneWord) {
  MergeTable table(20);
  int32_t token = 1;
  for (uint32_t rank = 0; rank < 20; ++rank, ++token) table.add(token, token, {rank, token + 1});
  EXPECT_EQ(merge(table, Ids((1 << 20) + 1, 1)), (Ids{21, 1}));
}

}  // namespace
}  // namespace bonsai::text
