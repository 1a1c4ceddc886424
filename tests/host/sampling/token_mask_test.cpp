// A mask forbids exactly the tokens whose bits are not set.
#include "host/sampling/token_mask.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <vector>

namespace bonsai::host {
namespace {

TEST(TokenMask, ForbidsWhatIsNotSetAndLeavesTheRest) {
  std::mt19937 random(1);
  for (const size_t n : {1u, 31u, 32u, 33u, 100u, 4096u, 4099u}) {
    std::vector<uint32_t> mask((n + 31) / 32);
    for (uint32_t &word : mask)
      word = random() % 3 == 0 ? 0 : random() % 2 == 0 ? ~0u : static_cast<uint32_t>(random());
    std::vector<float> logits(n);
    for (size_t i = 0; i < n; ++i) logits[i] = static_cast<float>(i) - 7;
    apply_mask(mask, logits);
    for (size_t i = 0; i < n; ++i) {
      const bool allowed = (mask[i / 32] >> (i % 32) & 1) != 0;
      ASSERT_EQ(logits[i], allowed ? static_cast<float>(i) - 7 : -std::numeric_limits<float>::infinity()) << i;
    }
  }
}

}  // namespace
}  // namespace bonsai::host
