// Promises of the encoder that searches for the K-quants' scales, beyond losing no more than ggml's (golden_test.cpp).
#include "core/quant/k_blocks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::quant {
namespace {

constexpr size_t kBlock = 256;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Expected {
  Format format;
  double signal_to_noise;  // in decibels: of normal weights, or of one-bit weights with a scale for 128
};

class KBlocks : public testing::TestWithParam<Expected> {
 protected:
  const FormatTraits &format() const { return traits(GetParam().format); }

  std::vector<std::byte> encode(const std::vector<float> &weights) const {
    std::vector<std::byte> blocks(row_bytes(format(), weights.size()));
    format().encode(weights.data(), blocks.data(), weights.size());
    return blocks;
  }

  std::vector<float> round_trip(const std::vector<float> &weights) const {
    const std::vector<std::byte> blocks = encode(weights);
    std::vector<float> decoded(weights.size());
    format().decode(blocks.data(), decoded.data(), decoded.size());
    return decoded;
  }

  double signal_to_noise(const std::vector<float> &weights) const {
    const std::vector<float> decoded = round_trip(weights);
    double signal = 0, noise = 0;
    for (size_t i = 0; i < weights.size(); ++i) {
      signal += std::pow(static_cast<double>(weights[i]), 2);
      noise += std::pow(static_cast<double>(weights[i]) - static_cast<double>(decoded[i]), 2);
    }
    return 10 * std::log10(signal / noise);
  }
};

std::vector<float> normal_weights(float sigma, float mean = 0) {
  std::mt19937 random(1);
  std::vector<float> weights(64 * kBlock);
  // Twelve uniform numbers: the same on every standard library.
  for (float &weight : weights) {
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(random() >> 8) * 0x1p-24f;
    weight = mean + sigma * sum;
  }
  return weights;
}

TEST_P(KBlocks, KeepWhatTheirBitsAllowWhateverTheSize) {
  for (const float sigma : {1e-2f, 1.0f, 1e3f})
    EXPECT_GE(signal_to_noise(normal_weights(sigma)), GetParam().signal_to_noise);
}

// One sign only, and far from zero: a minimum cannot be negative, and must reach.
TEST_P(KBlocks, KeepWeightsOfOneSign) {
  EXPECT_GE(signal_to_noise(normal_weights(0.25f, 1)), GetParam().signal_to_noise);
  EXPECT_GE(signal_to_noise(normal_weights(0.25f, -1)), GetParam().signal_to_noise);
}

// Constant blocks are one scale and one code; what is lost is the rounding of d, coarse where halves are subnormal.
TEST_P(KBlocks, KeepConstants) {
  for (const float constant : {1.0f, -1.0f, 0.03f, -700.0f}) {
    for (const float weight : round_trip(std::vector<float>(kBlock, constant))) {
      ASSERT_NEAR(weight, constant, 2e-3f * std::fabs(constant));
    }
  }
}

TEST_P(KBlocks, SubBlocksOfZerosBesideOthersStayZero) {
  std::vector<float> weights = normal_weights(1);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = i / 32 % 3 == 0 ? 0.0f : weights[i];
  const std::vector<float> decoded = round_trip(weights);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] != 0) continue;
    ASSERT_EQ(decoded[i], 0.0f) << i;
  }
}

TEST_P(KBlocks, NaNCountsAsZero) {
  std::vector<float> weights = normal_weights(1);
  std::vector<float> zeroed = weights;
  for (size_t i = 0; i < weights.size(); i += 37) weights[i] = kNaN, zeroed[i] = 0;
  EXPECT_EQ(encode(weights), encode(zeroed));
  EXPECT_EQ(encode(std::vector<float>(kBlock, kNaN)), encode(std::vector<float>(kBlock, 0.0f)));
}

// An infinity makes its block infinite, and no other.
TEST_P(KBlocks, InfinityIsSeen) {
  std::vector<float> weights = normal_weights(1);
  weights[3 * kBlock + 5] = -kInfinity;
  EXPECT_EQ(format().count_nonfinite(encode(weights).data(), weights.size()), 1u);
}

INSTANTIATE_TEST_SUITE_P(Formats, KBlocks,
                         testing::Values(Expected{Format::kQ2_K, 11}, Expected{Format::kQ3_K, 16},
                                         Expected{Format::kQ4_K, 22}, Expected{Format::kQ5_K, 28},
                                         Expected{Format::kQ6_K, 34}, Expected{Format::kQ8_K, 42}),
                         [](const auto &info) { return std::string(traits(info.param.format).name); });

// Promise: the f32 scale holds weights of any size, those whose scale is subnormal and has no finite inverse, too; what
// is too small for a scale at all is zeros, in codes and sums.
TEST(Q8K, KeepsWeightsDownToTheLeastFloats) {
  const std::vector<float> weights = normal_weights(1);
  for (const float size : {1e-30f, 1e-36f, 1e-37f, 1e-38f}) {
    std::byte block[Q8_K::kBytes];
    std::vector<float> small(kBlock), decoded(kBlock);
    for (size_t i = 0; i < kBlock; ++i) small[i] = size * weights[i];
    Q8_K::encode(small.data(), block);
    Q8_K::decode(block, decoded.data());
    for (size_t i = 0; i < kBlock; ++i) ASSERT_NEAR(decoded[i], small[i], 0.013f * size) << size;
  }
  std::byte block[Q8_K::kBytes];
  Q8_K::encode(std::vector<float>(kBlock, std::numeric_limits<float>::denorm_min()).data(), block);
  for (const std::byte byte : std::span(block).subspan(4)) ASSERT_EQ(byte, std::byte{0});
}

std::vector<float> one_bit_weights(size_t group) {
  std::mt19937 random(2);
  std::vector<float> weights(64 * kBlock);
  float d = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i % group == 0) d = half_to_float(static_cast<uint16_t>(0x2400 + random() % 0x600));
    weights[i] = random() % 2 ? d : -d;
  }
  return weights;
}

std::vector<float> with_outliers(std::vector<float> weights, float outlier) {
  for (size_t i = 77; i < weights.size(); i += kBlock) weights[i] = outlier;
  return weights;
}

class AffineKBlocks : public KBlocks {};

// Promise: weights of few values, as models of one bit have them, lose no more than what halves and small integers as
// scales have to.
TEST_P(AffineKBlocks, KeepWeightsOfFewValues) {
  EXPECT_GE(signal_to_noise(std::vector<float>(kBlock, 0.0173f)), 75);
  std::vector<float> two_values = one_bit_weights(kBlock);
  for (float &weight : two_values) weight = std::copysign(0.013f, weight);
  EXPECT_GE(signal_to_noise(two_values), 80);
  EXPECT_GE(signal_to_noise(one_bit_weights(kBlock)), 80);
  EXPECT_GE(signal_to_noise(one_bit_weights(128)), GetParam().signal_to_noise);
  EXPECT_GE(signal_to_noise(with_outliers(normal_weights(0.02f), 5e4f)), 85);
}

INSTANTIATE_TEST_SUITE_P(Formats, AffineKBlocks,
                         testing::Values(Expected{Format::kQ2_K, 42}, Expected{Format::kQ4_K, 58},
                                         Expected{Format::kQ5_K, 58}),
                         [](const auto &info) { return std::string(traits(info.param.format).name); });

// ggml's kernels take the sums of sixteen codes from the block instead of adding them up.
TEST(Q8K, HoldsTheSumsOfItsCodes) {
  const std::vector<float> weights = normal_weights(1);
  std::byte block[Q8_K::kBytes];
  Q8_K::encode(weights.data(), block);
  for (size_t group = 0; group < 16; ++group) {
    int sum = 0;
    for (size_t i = 0; i < 16; ++i) sum += load<int8_t>(block + 4 + group * 16 + i);
    EXPECT_EQ(load<int16_t>(block + 260 + 2 * group), sum);
  }
}

}  // namespace
}  // namespace bonsai::quant
