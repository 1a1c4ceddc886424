#include "host/scheduling/block_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace bonsai::host {
namespace {

TEST(BlockPool, HandsOutEveryBlockOnceFromTheFirst) {
  BlockPool pool(3);
  EXPECT_EQ(pool.n_free(), 3u);
  for (uint32_t block = 0; block < 3; ++block) EXPECT_EQ(pool.take(), block);
  EXPECT_EQ(pool.n_free(), 0u);
}

TEST(BlockPool, ABlockIsFreeWhenItsLastUserIsGone) {
  BlockPool pool(1);
  const uint32_t block = pool.take();
  pool.share(block);
  EXPECT_EQ(pool.n_shared(), 1u);
  pool.release(block);
  EXPECT_EQ(pool.users(block), 1u);
  EXPECT_EQ(pool.n_shared(), 0u);
  EXPECT_EQ(pool.n_free(), 0u);
  pool.release(block);
  EXPECT_EQ(pool.n_free(), 1u);
}

TEST(BlockPool, CountsRightWhateverIsDone) {
  std::mt19937 random(1);
  BlockPool pool(20);
  std::vector<uint32_t> users(20, 0);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t block = random() % 20;
    switch (random() % 3) {
      case 0:
        if (pool.n_free() == 0) break;
        ASSERT_EQ(users[pool.take()]++, 0u);
        break;
      case 1:
        if (users[block] == 0) break;
        pool.share(block);
        ++users[block];
        break;
      default:
        if (users[block] == 0) break;
        pool.release(block);
        --users[block];
    }
    uint32_t n_free = 0, n_shared = 0;
    for (uint32_t b = 0; b < 20; ++b) {
      ASSERT_EQ(pool.users(b), users[b]);
      n_free += users[b] == 0;
      n_shared += users[b] > 1;
    }
    ASSERT_EQ(pool.n_free(), n_free);
    ASSERT_EQ(pool.n_shared(), n_shared);
  }
}

}  // namespace
}  // namespace bonsai::host
