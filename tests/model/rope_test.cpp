// The rotation tables against the formula of DESIGN §6, written a second time in long double and pair by pair.
#include <gtest/gtest.h>

#include <cmath>

#include "core/model/config.h"

namespace bonsai::model {
namespace {

struct Yarn {
  long double factor, original, fast, slow;
};

// The angle by which pair `i` turns per position, straight from the formula.
long double expected_frequency(int i, int head_dim, long double base, const Yarn &yarn) {
  const long double two_pi = 8 * std::atan(1.0L);
  const long double plain = std::exp(-2.0L * i / head_dim * std::log(base));
  long double low = std::floor(head_dim * std::log(yarn.original / (two_pi * yarn.fast)) / (2 * std::log(base)));
  long double high = std::ceil(head_dim * std::log(yarn.original / (two_pi * yarn.slow)) / (2 * std::log(base)));
  if (low < 0) low = 0;
  if (low > head_dim - 1) low = head_dim - 1;
  if (high < 0) high = 0;
  if (high > head_dim - 1) high = head_dim - 1;
  const long double width = high - low > 0.001L ? high - low : 0.001L;
  long double ramp = (i - low) / width;
  if (ramp < 0) ramp = 0;
  if (ramp > 1) ramp = 1;
  return plain * (1 - ramp) + plain / yarn.factor * ramp;
}

// A number of float32 steps between two values.
double steps_apart(float value, long double expected) {
  const float nearest = static_cast<float>(expected);
  const float step = std::nextafter(std::fabs(nearest), 2.0f) - std::fabs(nearest);
  return std::fabs(static_cast<double>(value) - nearest) / step;
}

Config bonsai_8b() {
  Config config;
  config.head_dim = 128;
  config.rope_base = 1000000;
  config.rope_scaling = {RopeScaling::Kind::kYarn, 4, 16384, 1 + 0.1 * std::log(4.0), 32, 1};
  return config;
}

TEST(Rope, PlainFrequenciesArePowersOfTheBase) {
  Config config;
  config.head_dim = 64;
  const std::vector<double> frequencies = rope_frequencies(config);
  ASSERT_EQ(frequencies.size(), 32u);
  EXPECT_EQ(frequencies[0], 1);
  EXPECT_NEAR(frequencies[16], 0.01, 1e-17);
  EXPECT_NEAR(frequencies[8], 0.1, 1e-16);
}

TEST(Rope, LinearScalingDividesEveryFrequency) {
  Config config;
  config.head_dim = 64;
  config.rope_scaling.kind = RopeScaling::Kind::kLinear;
  config.rope_scaling.factor = 8;
  const std::vector<double> frequencies = rope_frequencies(config);
  EXPECT_EQ(frequencies[0], 0.125);
  EXPECT_NEAR(frequencies[16], 0.00125, 1e-18);
}

TEST(Rope, YarnFollowsTheFormulaInBonsai8B) {
  const std::vector<double> frequencies = rope_frequencies(bonsai_8b());
  ASSERT_EQ(frequencies.size(), 64u);
  for (int i = 0; i < 64; ++i) {
    const long double expected = expected_frequency(i, 128, 1e6L, {4, 16384, 32, 1});
    EXPECT_NEAR(frequencies[i] / static_cast<double>(expected), 1, 1e-14) << "pair " << i;
  }
  // By hand: c(32) = 20.36 and c(1) = 36.42, so pairs to 20 keep their frequency and those from 37 are divided by 4.
  EXPECT_NEAR(frequencies[20], std::pow(1e6, -40.0 / 128), 1e-16);
  EXPECT_LT(frequencies[21], std::pow(1e6, -42.0 / 128) * 0.999);
  EXPECT_GT(frequencies[36], std::pow(1e6, -72.0 / 128) / 4 * 1.001);
  EXPECT_NEAR(frequencies[37], std::pow(1e6, -74.0 / 128) / 4, 1e-17);
}

TEST(Rope, YarnRampIsClampedAtBothEnds) {
  // A short original context puts both ends below zero, a long one beyond the last dimension.
  for (long double original : {4.0L, 64.0L, 1e7L}) {
    Config config;
    config.head_dim = 32;
    config.rope_base = 100;
    config.rope_scaling = {RopeScaling::Kind::kYarn, 2, static_cast<uint32_t>(original), 1, 8, 2};
    const std::vector<double> frequencies = rope_frequencies(config);
    for (int i = 0; i < 16; ++i) {
      const long double expected = expected_frequency(i, 32, 100, {2, original, 8, 2});
      EXPECT_NEAR(frequencies[i] / static_cast<double>(expected), 1, 1e-14) << "pair " << i << " of " << original;
    }
  }
}

TEST(Rope, TableHoldsScaledCosineAndSineOfEveryPosition) {
  const Config config = bonsai_8b();
  const RopeTable table = make_rope_table(config, 300);
  ASSERT_EQ(table.positions, 300u);
  ASSERT_EQ(table.pairs, 64u);
  ASSERT_EQ(table.cos.size(), 300u * 64);
  ASSERT_EQ(table.sin.size(), 300u * 64);
  const long double scale = 1 + 0.1L * std::log(4.0L);
  for (int position : {0, 1, 17, 299}) {
    for (int i = 0; i < 64; ++i) {
      const long double angle = position * expected_frequency(i, 128, 1e6L, {4, 16384, 32, 1});
      EXPECT_LE(steps_apart(table.cos[position * 64 + i], std::cos(angle) * scale), 1) << position << ", " << i;
      EXPECT_LE(steps_apart(table.sin[position * 64 + i], std::sin(angle) * scale), 1) << position << ", " << i;
    }
  }
}

TEST(Rope, FarPositionsKeepFloat64Angles) {
  // In float32 the angle 65535 * 1 has a spacing of 1/256: the cosine would be off in the third digit.
  Config config;
  config.head_dim = 2;
  const RopeTable table = make_rope_table(config, 65536);
  EXPECT_FLOAT_EQ(table.cos[65535], static_cast<float>(std::cos(65535.0L)));
  EXPECT_FLOAT_EQ(table.sin[65535], static_cast<float>(std::sin(65535.0L)));
}

}  // namespace
}  // namespace bonsai::model
