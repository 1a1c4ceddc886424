// The judge's angles, by hand and against the ones that the backends' tables come from: two computations that share
// nothing and must agree.
#include "core/reference/rotation.h"

#include <gtest/gtest.h>

#include <cmath>

namespace bonsai::reference {
namespace {

using model::Config;
using model::RopeScaling;

Config yarn(uint32_t head_dim, double base, double factor, uint32_t original) {
  Config config;
  config.head_dim = head_dim;
  config.rope_base = base;
  config.rope_scaling = {RopeScaling::Kind::kYarn, factor, original, 1, 32, 1};
  return config;
}

TEST(Rotation, PlainAndLinearFrequencies) {
  Config config;
  config.head_dim = 64;
  EXPECT_EQ(pair_frequencies(config).size(), 32u);
  EXPECT_EQ(pair_frequencies(config)[0], 1);
  EXPECT_NEAR(static_cast<double>(pair_frequencies(config)[16]), 0.01, 1e-17);
  config.rope_scaling.kind = RopeScaling::Kind::kLinear;
  config.rope_scaling.factor = 8;
  EXPECT_EQ(pair_frequencies(config)[0], 0.125);
  EXPECT_NEAR(static_cast<double>(pair_frequencies(config)[16]), 0.00125, 1e-18);
}

TEST(Rotation, YarnKeepsFastPairsAndDividesSlowOnes) {
  const auto frequencies = pair_frequencies(yarn(128, 1e6, 4, 16384));
  // By hand: c(32) = 20.36 and c(1) = 36.42, so the ramp is (i - 20) / 17.
  const auto expect = [&](int i, long double share) {
    const long double expected = std::pow(1e6L, -2.0L * i / 128) * share;
    EXPECT_NEAR(static_cast<double>(frequencies[i] / expected), 1, 1e-15) << "pair " << i;
  };
  expect(20, 1);
  expect(21, 1 - 0.75L / 17);
  expect(36, 1 - 0.75L * 16 / 17);
  expect(37, 0.25L);
}

TEST(Rotation, AgreesWithTheTablesFrequencies) {
  Config plain;
  plain.head_dim = 128;
  plain.rope_base = 1e6;
  for (const Config &config : {plain, yarn(128, 1e6, 4, 16384), yarn(32, 1e4, 4, 64), yarn(80, 1e4, 8, 4096)}) {
    const auto expected = pair_frequencies(config);
    const auto frequencies = model::rope_frequencies(config);
    ASSERT_EQ(frequencies.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(frequencies[i], static_cast<double>(expected[i])) << "pair " << i << " of " << expected.size();
    }
  }
}

}  // namespace
}  // namespace bonsai::reference
