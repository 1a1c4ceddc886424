// Promise: blocks of IQ4_NL and IQ4_XS mean what ggml's format says, and of weights as models have them the encoders
// lose next to nothing over the best blocks that there are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "core/quant/format.h"
#include "core/quant/iq4_blocks.h"

namespace bonsai::quant {
namespace {

// As the format has them, once more.
constexpr int kNumbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

std::vector<std::byte> bytes_of(std::initializer_list<int> values, size_t size) {
  std::vector<std::byte> bytes(size);
  std::transform(values.begin(), values.end(), bytes.begin(), [](int value) { return static_cast<std::byte>(value); });
  return bytes;
}

TEST(IQ4_NL, LowNibblesAreTheFirstSixteenWeights) {
  std::vector<std::byte> block = bytes_of({0x00, 0x38}, IQ4_NL::kBytes);  // d = 0.5
  for (int i = 0; i < 16; ++i) block[2 + i] = static_cast<std::byte>(i | (15 - i) << 4);
  float weights[IQ4_NL::kWeights];
  IQ4_NL::decode(block.data(), weights);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(weights[i], 0.5f * static_cast<float>(kNumbers[i]));
    EXPECT_EQ(weights[16 + i], 0.5f * static_cast<float>(kNumbers[15 - i]));
  }
}

// Where only one end of the numbers leaves a scale that is finite, too.
TEST(IQ4_NL, HoldsWhatTheLargestHalfCan) {
  std::mt19937 random(3);
  std::byte block[IQ4_NL::kBytes];
  for (int round = 0; round < 200; ++round) {
    float weights[IQ4_NL::kWeights];
    for (float &weight : weights) weight = std::normal_distribution<float>(0, 1e6f)(random);
    weights[round % 32] = (round % 2 == 0 ? 127 : -127) * 65000.0f;
    IQ4_NL::encode(weights, block);
    ASSERT_TRUE(IQ4_NL::finite(block)) << round;
  }
}

// Scales: 6 bits, of which two bytes hold the upper two, first, and four bytes the lower four, two in a byte.
TEST(IQ4_XS, ScalesAreInTwoPlaces) {
  // Of sub-blocks 0 to 7: 0, 63, 32, 33, 31, 1, 48, 16.
  std::vector<std::byte> block = bytes_of({0x00, 0x3C, 0xAC, 0x71, 0xF0, 0x10, 0x1F, 0x00}, IQ4_XS::kBytes);
  for (size_t i = 8; i < block.size(); ++i) block[i] = std::byte{0xF8};  // numbers 1, then 113
  float weights[IQ4_XS::kWeights];
  IQ4_XS::decode(block.data(), weights);
  constexpr int kScales[8] = {-32, 31, 0, 1, -1, -31, 16, -16};
  for (size_t i = 0; i < IQ4_XS::kWeights; ++i) {
    EXPECT_EQ(weights[i], static_cast<float>(kScales[i / 32] * (i % 32 < 16 ? 1 : 113))) << i;
  }
}

TEST(IQ4_XS, PackingIsTheInverseOfUnpacking) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    std::byte block[IQ4_XS::kBytes], again[IQ4_XS::kBytes];
    for (std::byte &byte : block) byte = static_cast<std::byte>(random());
    block[1] &= std::byte{0xBF};  // no NaN, which has other bits behind
    IQ4_XS::pack(IQ4_XS::unpack(block), again);
    EXPECT_TRUE(std::ranges::equal(block, again));
  }
}

double squared(double x) { return x * x; }

// What 32 weights lose with a scale.
double loss_with(std::span<const float> weights, double d) {
  double sum = 0;
  for (const float weight : weights) {
    double least = INFINITY;
    for (const int number : kNumbers) least = std::min(least, squared(weight - d * number));
    sum += least;
  }
  return sum;
}

// With the best of many scales.
double least_loss(std::span<const float> weights) {
  double most = 0, least = INFINITY;
  for (const float weight : weights) most = std::max(most, std::fabs(static_cast<double>(weight)));
  constexpr int kScales = 1000;
  for (int i = -kScales; i <= kScales; ++i) least = std::min(least, loss_with(weights, most / 64 * i / kScales));
  return least;
}

double loss_of(const FormatTraits &format, const std::vector<float> &weights) {
  std::vector<std::byte> blocks(row_bytes(format, weights.size()));
  std::vector<float> decoded(weights.size());
  format.encode(weights.data(), blocks.data(), weights.size());
  format.decode(blocks.data(), decoded.data(), weights.size());
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += squared(static_cast<double>(weights[i]) - decoded[i]);
  return sum;
}

struct Distribution {
  const char *name;
  double most_nl, most_xs;  // times the least loss
  float (*draw)(std::mt19937 &random);
};

class IQ4Loss : public testing::TestWithParam<Distribution> {};

// IQ4_XS has scales of six bits, and so loses more.
TEST_P(IQ4Loss, IsNearTheLeast) {
  std::mt19937 random(11);
  std::vector<float> weights(32 * 128);
  for (float &weight : weights) weight = GetParam().draw(random);
  double least = 0;
  for (size_t i = 0; i < weights.size(); i += 32) least += least_loss(std::span(weights).subspan(i, 32));
  EXPECT_LE(loss_of(traits(Format::kIQ4_NL), weights), GetParam().most_nl * least);
  EXPECT_LE(loss_of(traits(Format::kIQ4_XS), weights), GetParam().most_xs * least);
}

INSTANTIATE_TEST_SUITE_P(
    Distributions, IQ4Loss,
    testing::Values(
        Distribution{"Normal", 1.002, 1.02,
                     [](std::mt19937 &random) { return std::normal_distribution<float>(0, 0.02f)(random); }},
        Distribution{"LongTails", 1.002, 1.02,
                     [](std::mt19937 &random) { return 0.02f * std::student_t_distribution<float>(4)(random); }},
        Distribution{"Signs", 1.01, 1.05, [](std::mt19937 &random) { return random() % 2 == 0 ? 0.5f : -0.5f; }},
        Distribution{"Uniform", 1.002, 1.02,
                     [](std::mt19937 &random) { return std::uniform_real_distribution<float>(-1, 1)(random); }}),
    [](const auto &info) { return std::string(info.param.name); });

}  // namespace
}  // namespace bonsai::quant
