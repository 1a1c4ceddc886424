#include "host/sampling/random.h"

#include <gtest/gtest.h>

#include <array>

namespace bonsai::host {
namespace {

// Computed from the formula in the header by a script outside this project.
TEST(RandomStream, GivesTheSameNumbersOnEveryMachine) {
  const RandomStream stream(42);
  EXPECT_EQ(stream.bits(0), 0x989b3f130a063869u);
  EXPECT_EQ(stream.bits(1), 0x290db4bf2570ded7u);
  EXPECT_EQ(stream.bits(1'000'000), 0xfabed23ce0f4c425u);
  EXPECT_EQ(RandomStream(0).bits(0), 0xe220a8397b1dcdafu);
  EXPECT_EQ(stream.uniform(0), static_cast<double>(0x989b3f130a063869u >> 11) / 9007199254740992.0);
}

TEST(RandomStream, IsUniform) {
  const RandomStream stream(7);
  constexpr int kCells = 64, kDraws = 64'000;
  std::array<int, kCells> counts{};
  for (int n = 0; n < kDraws; ++n) {
    const double u = stream.uniform(static_cast<uint64_t>(n));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++counts[static_cast<size_t>(u * kCells)];
  }
  double chi_square = 0;
  for (const int count : counts) chi_square += (count - 1000.0) * (count - 1000.0) / 1000.0;
  EXPECT_LT(chi_square, 103.4);  // the 99.9 % quantile for 63 degrees of freedom
  EXPECT_GT(chi_square, 30.0);   // too even is not random either
}

TEST(RandomStream, NeighbouringSeedsAreUnrelated) {
  int equal_bits = 0;
  for (uint64_t seed = 0; seed < 100; ++seed)
    equal_bits += 64 - __builtin_popcountll(RandomStream(seed).bits(0) ^ RandomStream(seed + 1).bits(0));
  EXPECT_NEAR(equal_bits, 3200, 160);  // four standard deviations of 6,400 coin tosses
}

}  // namespace
}  // namespace bonsai::host
