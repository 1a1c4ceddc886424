#include "host/scheduling/radix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace bonsai::host {
namespace {

using Tokens = std::vector<int32_t>;
constexpr uint32_t kBlock = 4;

class RadixTreeTest : public testing::Test {
 protected:
  // A text's blocks come and go as a sequence's do: it computes them, the tree keeps them, it ends.
  void keep(const Tokens &tokens) {
    RadixTree::Node *node = tree_.root();
    std::vector<uint32_t> used;
    for (size_t at = 0; at < tokens.size(); at += kBlock) {
      const auto part = std::span(tokens).subspan(at, std::min<size_t>(kBlock, tokens.size() - at));
      while (pool_.n_free() == 0) ASSERT_TRUE(tree_.evict());
      used.push_back(pool_.take());
      if (part.size() < kBlock) {
        tree_.add_end(node, part, used.back());
        break;
      }
      node = tree_.add(node, part, used.back());
      pool_.share(node->block());
      pool_.release(std::exchange(used.back(), node->block()));
    }
    for (const uint32_t block : used) pool_.release(block);
  }

  std::map<Tokens, uint32_t> contents() const {
    std::map<Tokens, uint32_t> all;
    tree_.visit(
        [&](std::span<const int32_t> tokens, uint32_t block) { all[Tokens(tokens.begin(), tokens.end())] = block; });
    return all;
  }

  BlockPool pool_{8};
  RadixTree tree_{pool_, kBlock};
};

TEST_F(RadixTreeTest, FindsTheLongestBeginningInWholeBlocks) {
  keep({1, 2, 3, 4, 5, 6, 7, 8});
  const auto match = tree_.match(Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(match.blocks, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(match.node->block(), 1u);
  EXPECT_EQ(match.n_copied, 0u);
  EXPECT_EQ(tree_.match(Tokens{2, 2, 3, 4}).node, tree_.root());
}

TEST_F(RadixTreeTest, NamesABlockToCopyWhereTextsPartInsideIt) {
  keep({1, 2, 3, 4, 5, 6, 7, 8});
  auto match = tree_.match(Tokens{1, 2, 3, 4, 5, 6, 9, 9, 9});
  EXPECT_EQ(match.blocks, std::vector<uint32_t>{0});
  EXPECT_EQ(match.copy_from, 1u);
  EXPECT_EQ(match.n_copied, 2u);
  match = tree_.match(Tokens{1, 2, 3});  // too short for the block itself
  EXPECT_TRUE(match.blocks.empty());
  EXPECT_EQ(match.n_copied, 3u);
}

TEST_F(RadixTreeTest, OfSeveralBlocksTheOneThatAgreesLongestIsCopied) {
  for (const Tokens &text : {Tokens{1, 2, 9, 9}, {1, 2, 3, 9}, {1, 2, 3, 1}, {1, 1, 1, 1}}) keep(text);
  auto match = tree_.match(Tokens{1, 2, 3, 4, 5});
  EXPECT_EQ(match.n_copied, 3u);
  EXPECT_TRUE(match.copy_from == 1 || match.copy_from == 2);
  match = tree_.match(Tokens{1, 2, 3, 0, 5});  // here only the one that comes after it in order
  EXPECT_EQ(match.n_copied, 3u);
  EXPECT_EQ(match.copy_from, 2u);
}

TEST_F(RadixTreeTest, KeepsTheEndOfATextUntilALongerOneHoldsIt) {
  keep({1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tree_.match(Tokens{1, 2, 3, 4, 5, 6, 7}).n_copied, 2u);
  keep({1, 2, 3, 4, 5});  // held already
  EXPECT_EQ(contents(), (std::map<Tokens, uint32_t>{{{1, 2, 3, 4}, 0}, {{1, 2, 3, 4, 5, 6}, 1}}));
  keep({1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(contents(), (std::map<Tokens, uint32_t>{{{1, 2, 3, 4}, 0}, {{1, 2, 3, 4, 5, 6, 7, 8}, 2}}));
  EXPECT_EQ(pool_.n_free(), 6u);
}

TEST_F(RadixTreeTest, TheSameTokensAreHeldOnce) {
  keep({1, 2, 3, 4});
  keep({1, 2, 3, 4});
  EXPECT_EQ(contents(), (std::map<Tokens, uint32_t>{{{1, 2, 3, 4}, 0}}));
  EXPECT_EQ(pool_.n_free(), 7u);
}

TEST_F(RadixTreeTest, GivesUpTheLeastRecentlyUsedLeafFirst) {
  keep({1, 1, 1, 1, 2, 2, 2, 2});
  keep({3, 3, 3, 3});
  keep({4, 4, 4, 4});
  tree_.match(Tokens{3, 3, 3, 3, 0});
  EXPECT_TRUE(tree_.evict());
  EXPECT_FALSE(contents().contains({1, 1, 1, 1, 2, 2, 2, 2}));
  EXPECT_TRUE(tree_.evict());
  EXPECT_FALSE(contents().contains({1, 1, 1, 1}));
  EXPECT_TRUE(tree_.evict());
  EXPECT_FALSE(contents().contains({4, 4, 4, 4}));
  EXPECT_TRUE(tree_.evict());
  EXPECT_FALSE(tree_.evict());
  EXPECT_EQ(pool_.n_free(), 8u);
}

TEST_F(RadixTreeTest, KeepsWhatASequenceUses) {
  keep({1, 1, 1, 1, 2, 2, 2, 2});
  const auto match = tree_.match(Tokens{1, 1, 1, 1, 3});
  for (const uint32_t block : match.blocks) pool_.share(block);
  EXPECT_EQ(tree_.n_idle(), 1u);
  EXPECT_TRUE(tree_.evict());
  EXPECT_FALSE(tree_.evict());
  EXPECT_EQ(contents(), (std::map<Tokens, uint32_t>{{{1, 1, 1, 1}, 0}}));
  pool_.release(0);
  EXPECT_TRUE(tree_.evict());
}

TEST_F(RadixTreeTest, ClearingFreesEverything) {
  keep({1, 1, 1, 1, 2, 2, 2, 2, 3});
  keep({3, 3, 3, 3});
  tree_.clear();
  EXPECT_EQ(tree_.n_blocks(), 0u);
  EXPECT_EQ(pool_.n_free(), 8u);
  EXPECT_FALSE(tree_.evict());
  keep({5, 5, 5, 5});
  EXPECT_EQ(contents().size(), 1u);
}

// Against a plain list of what was kept: whatever matches was kept, no block is lost, and no key is the beginning of
// another.
TEST_F(RadixTreeTest, HoldsOnlyWhatWasKeptWhateverComes) {
  std::mt19937 random(3);
  std::vector<Tokens> kept;
  for (int round = 0; round < 3000; ++round) {
    Tokens text(1 + random() % 14);
    for (int32_t &token : text) token = static_cast<int32_t>(random() % 2);
    if (random() % 2 == 0) {
      keep(text);
      kept.push_back(text);
    }
    const auto match = tree_.match(text);
    const size_t n = match.blocks.size() * kBlock + match.n_copied;
    ASSERT_LE(n, text.size());
    const bool known = std::any_of(kept.begin(), kept.end(), [&](const Tokens &other) {
      return other.size() >= n &&
             std::equal(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(n), other.begin());
    });
    ASSERT_TRUE(n == 0 || known);
    const auto all = contents();
    ASSERT_EQ(all.size(), tree_.n_blocks());
    ASSERT_EQ(pool_.n_free() + tree_.n_blocks(), pool_.size());
    for (const auto &[tokens, block] : all) {
      ASSERT_EQ(pool_.users(block), 1u);
      if (tokens.size() % kBlock == 0) continue;
      const auto after = all.upper_bound(tokens);  // would begin with the same
      if (after == all.end() || after->first.size() < tokens.size()) continue;
      ASSERT_FALSE(std::equal(tokens.begin(), tokens.end(), after->first.begin()));
    }
  }
}

}  // namespace
}  // namespace bonsai::host
