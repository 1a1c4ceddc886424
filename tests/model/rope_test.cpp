// The rotation tables against the formula, written a second time in long double and pair by pair.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cfenv>
#include <cmath>
#include <span>

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

struct Shape {
  uint32_t head_dim;
  double base, factor;  // 0: no YaRN
  double original;
  uint32_t positions;
};

Config config_of(const Shape &shape) {
  Config config;
  config.head_dim = shape.head_dim;
  config.rope_base = shape.base;
  if (shape.factor != 0) {
    const double attention_factor = 1 + 0.1 * std::log(shape.factor);
    config.rope_scaling = {RopeScaling::Kind::kYarn, shape.factor, static_cast<uint32_t>(shape.original),
                           attention_factor,         32,           1};
  }
  return config;
}

// cos and sin of a position in long double from the formula, rounded once.
void expect_row(const RopeTable &table, uint32_t position, const std::vector<long double> &frequencies,
                long double scale) {
  for (uint32_t i = 0; i < table.pairs; ++i) {
    const long double angle = position * frequencies[i];
    const size_t at = size_t{position} * table.pairs + i;
    EXPECT_EQ(table.cos[at], static_cast<float>(std::cos(angle) * scale)) << "position " << position << ", pair " << i;
    EXPECT_EQ(table.sin[at], static_cast<float>(std::sin(angle) * scale)) << "position " << position << ", pair " << i;
  }
}

// The shapes of the released models, and of others that are near them.
TEST(Rope, TablesAreTheFormulaRoundedOnce) {
  constexpr std::array<Shape, 9> kShapes = {{{128, 1e6, 4, 16384, 1 << 17},
                                             {128, 1e6, 0, 0, 1 << 17},
                                             {32, 1e4, 0, 0, 1 << 17},
                                             {64, 1e4, 0, 0, 1 << 15},
                                             {64, 1e6, 2, 32768, 1 << 15},
                                             {80, 1e4, 8, 4096, 1 << 15},
                                             {96, 1e6, 0, 0, 1 << 15},
                                             {256, 1e6, 4, 8192, 1 << 13},
                                             {32, 1e4, 4, 64, 1 << 13}}};
  for (const Shape &shape : kShapes) {
    SCOPED_TRACE(testing::Message() << "head_dim " << shape.head_dim << ", base " << shape.base << ", factor "
                                    << shape.factor);
    const Config config = config_of(shape);
    std::vector<long double> frequencies;
    for (uint32_t i = 0; i < shape.head_dim / 2; ++i) {
      const auto pair = static_cast<int>(i), head_dim = static_cast<int>(shape.head_dim);
      frequencies.push_back(
          shape.factor == 0 ? std::pow(static_cast<long double>(shape.base), -2.0L * i / shape.head_dim)
                            : expected_frequency(pair, head_dim, shape.base, {shape.factor, shape.original, 32, 1}));
    }
    const RopeTable table = make_rope_table(config, shape.positions);
    for (uint32_t position = 0; position < shape.positions; position += position < 1000 ? 1 : 97) {
      expect_row(table, position, frequencies, config.rope_scaling.attention_factor);
    }
    expect_row(table, shape.positions - 1, frequencies, config.rope_scaling.attention_factor);
  }
}

uint64_t fnv1a(std::span<const float> values, uint64_t hash) {
  for (const float value : values) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3;
  return hash;
}

// The same bytes on every machine, whatever its libm: so they can be pinned.
TEST(Rope, BytesArePinned) {
  Config config = bonsai_8b();
  config.rope_scaling.attention_factor = 1.1386294361119891;
  const RopeTable table = make_rope_table(config, 20000);
  EXPECT_EQ(fnv1a(table.sin, fnv1a(table.cos, 0xcbf29ce484222325)), 4861867534227999644u);
}

TEST(Rope, BytesDoNotDependOnTheCallersRounding) {
  const Config config = bonsai_8b();
  const RopeTable expected = make_rope_table(config, 3000);
  const std::vector<double> frequencies = rope_frequencies(config);
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    const RopeTable table = make_rope_table(config, 3000);
    const std::vector<double> same_frequencies = rope_frequencies(config);
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(after, rounding) << "the caller's own setting stays";
    EXPECT_TRUE(table.cos == expected.cos && table.sin == expected.sin) << rounding;
    EXPECT_EQ(same_frequencies, frequencies);
  }
}

}  // namespace
}  // namespace bonsai::model
