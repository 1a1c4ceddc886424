// Promises that hold for every format of the table, beyond agreement with ggml (golden_test.cpp).
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::quant {
namespace {

constexpr size_t kColumns = 512;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_weights(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> weights(kColumns);
  for (float &weight : weights) weight = static_cast<float>(random()) / 2147483648.0f - 1.0f;
  return weights;
}

std::vector<std::byte> encode(const FormatTraits &format, const std::vector<float> &weights) {
  std::vector<std::byte> blocks(row_bytes(format, weights.size()));
  format.encode(weights.data(), blocks.data(), weights.size());
  return blocks;
}

std::vector<float> decode(const FormatTraits &format, const std::vector<std::byte> &blocks) {
  std::vector<float> weights(blocks.size() / format.block_bytes * format.block_weights);
  format.decode(blocks.data(), weights.data(), weights.size());
  return weights;
}

class EveryFormat : public testing::TestWithParam<FormatTraits> {
 protected:
  const FormatTraits &format() const { return GetParam(); }
  bool block_is_one_bit() const { return format().format == Format::kQ1_0_G128; }
};

// Formats whose encoder searches for scales: it may find another way to write the same weights.
bool searches(const FormatTraits &format) {
  const bool has_even_codes = format.format >= Format::kQ2_K && format.format <= Format::kQ6_K;
  return has_even_codes || format.format == Format::kIQ4_NL || format.format == Format::kIQ4_XS;
}

double squared_distance(const std::vector<float> &a, const std::vector<float> &b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

// Values that a format holds survive: encoding what was decoded gives the same values, so a file can be re-encoded.
// Where scales are searched for, the loss of the second time is small beside that of the first.
TEST_P(EveryFormat, ReencodingDecodedWeightsChangesNothing) {
  const std::vector<float> original = random_weights(1);
  const std::vector<float> once = decode(format(), encode(format(), original));
  const std::vector<float> twice = decode(format(), encode(format(), once));
  if (searches(format())) {
    EXPECT_LE(squared_distance(once, twice), 0.1 * squared_distance(original, once));
  } else {
    EXPECT_EQ(twice, once);
  }
}

TEST_P(EveryFormat, ZerosStayZero) {
  for (const float weight : decode(format(), encode(format(), std::vector<float>(kColumns, 0.0f)))) {
    ASSERT_EQ(weight, 0.0f);
  }
}

// Blocks have even sizes and arrive anywhere in a mapped file: no load may ask for alignment (UBSan would tell).
TEST_P(EveryFormat, BlocksNeedNoAlignment) {
  const std::vector<float> original = random_weights(3);
  const std::vector<std::byte> blocks = encode(format(), original);
  std::vector<std::byte> shifted(blocks.size() + 1);
  format().encode(original.data(), shifted.data() + 1, original.size());
  EXPECT_EQ(std::memcmp(shifted.data() + 1, blocks.data(), blocks.size()), 0);
  std::vector<float> weights(kColumns);
  format().decode(shifted.data() + 1, weights.data(), weights.size());
  EXPECT_EQ(weights, decode(format(), blocks));
}

// Any float can be encoded: no undefined conversion, nothing written beyond the block.
TEST_P(EveryFormat, EncodesEveryFloatWithinItsBlocks) {
  std::vector<float> weights(kColumns);
  const float extremes[] = {kNaN,     kInfinity, -kInfinity, std::numeric_limits<float>::max(),
                            -0.0f,    1e-45f,    -1e-40f,    std::numeric_limits<float>::lowest(),
                            65520.0f, 1e-8f,     3.0f,       -3.0f};
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = extremes[i / 32 % std::size(extremes)];
  const size_t bytes = row_bytes(format(), kColumns);
  std::vector<std::byte> blocks(bytes + 8, std::byte{0xA5});
  format().encode(weights.data(), blocks.data(), weights.size());
  for (size_t i = bytes; i < blocks.size(); ++i) EXPECT_EQ(blocks[i], std::byte{0xA5});
}

// Keys and values are kept like this, too: what is wrong with them must show, and nowhere else.
TEST(Q8_0, OfANaNAllOfItsBlockIsNaN) {
  for (const size_t at : {32u, 45u, 63u}) {
    std::vector<float> weights(96, 1.5f);
    weights[at] = kNaN;
    const std::vector<float> decoded = decode(traits(Format::kQ8_0), encode(traits(Format::kQ8_0), weights));
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_EQ(std::isnan(decoded[i]), i >= 32 && i < 64) << i;
  }
}

// Weights of very different sizes in a block, next to nothing beside something: still every code is a number.
TEST_P(EveryFormat, VanishingWeightsStayNearZero) {
  std::vector<float> weights(kColumns, 0.0f);
  for (size_t i = 0; i < kColumns; ++i) weights[i] = std::ldexp(i % 3 == 0 ? -1.0f : 1.0f, -static_cast<int>(i % 150));
  for (size_t i = 64; i < 128; ++i) weights[i] = i % 2 == 0 ? 1e-45f : -1e-45f;
  const std::vector<float> decoded = decode(format(), encode(format(), weights));
  for (size_t i = 0; i < kColumns; ++i) {
    ASSERT_LE(std::fabs(decoded[i]), 1.2f) << i;
    if (block_is_one_bit()) continue;
    EXPECT_NEAR(decoded[i], weights[i], 0.51f) << i;
  }
}

// Scales are halves (Q8_K: a float), so small ones are coarse and vanish in the end; the error stays below the least
// of them, or below what the format loses anyway.
TEST_P(EveryFormat, SmallWeightsAreKeptAsWellAsAHalfCan) {
  constexpr float kLeastHalf = 0x1p-24f;
  for (float size = 1e-2f; size > 1e-10f; size /= 3) {
    std::vector<float> weights = random_weights(7);
    for (float &weight : weights) weight *= size;
    const std::vector<float> decoded = decode(format(), encode(format(), weights));
    for (size_t i = 0; i < kColumns; ++i) {
      ASSERT_LE(std::fabs(decoded[i] - weights[i]), 1.01f * size + 32 * kLeastHalf) << size;
    }
  }
}

// What is too large for a half scale is told by infinite blocks, not made smaller: `bonsai validate` sees it. Wide
// formats have no such bound.
TEST_P(EveryFormat, ScalesBeyondAHalfAreInfinite) {
  const bool bounded = format().block_weights > 1 && format().format != Format::kQ8_K;
  if (!bounded) return;
  std::vector<float> weights = random_weights(8);
  for (float &weight : weights) weight *= 1e30f;
  const uint64_t n_blocks = kColumns / format().block_weights;
  EXPECT_EQ(format().count_nonfinite(encode(format(), weights).data(), kColumns), n_blocks);
  for (float &weight : weights) weight *= 6e4f / 1e30f;
  EXPECT_EQ(format().count_nonfinite(encode(format(), weights).data(), kColumns), 0u);
}

// Every bit pattern decodes; the counter of non-finite blocks sees exactly the blocks that decode to something else
// than numbers.
TEST_P(EveryFormat, NonfiniteBlocksAreCounted) {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::byte> blocks(row_bytes(format(), kColumns));
    for (std::byte &byte : blocks) byte = static_cast<std::byte>(random());
    // The highest exponents in the first block: rare in random bytes.
    if (round % 2 == 0) blocks[1] = std::byte{0x7C}, blocks[0] = static_cast<std::byte>(round);
    const std::vector<float> weights = decode(format(), blocks);
    uint64_t expected = 0;
    for (size_t i = 0; i < weights.size(); i += format().block_weights) {
      bool finite = true;
      for (size_t j = 0; j < format().block_weights; ++j) finite = finite && std::isfinite(weights[i + j]);
      expected += !finite;
    }
    ASSERT_EQ(format().count_nonfinite(blocks.data(), kColumns), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat, testing::ValuesIn(formats().begin(), formats().end()),
                         [](const auto &info) { return std::string(info.param.name); });

// Code 3 is +2 d: a counter that misses one would let a ternary kernel compute something else.
TEST(LowBits, Code3IsCounted) {
  for (const Format ternary : {Format::kTQ2_0_G128, Format::kQ2_0_G64}) {
    const FormatTraits &format = traits(ternary);
    std::vector<std::byte> blocks = encode(format, std::vector<float>(kColumns, 1.0f));
    EXPECT_EQ(format.count_code3(blocks.data(), kColumns), 0u);
    std::mt19937 random(5);
    for (size_t i = 0; i < blocks.size(); ++i) {
      if (i % format.block_bytes >= 2) blocks[i] = static_cast<std::byte>(random());
    }
    uint64_t expected = 0;
    for (const float weight : decode(format, blocks)) expected += weight == 2.0f;
    EXPECT_GT(expected, 0u);
    EXPECT_EQ(format.count_code3(blocks.data(), kColumns), expected);
  }
}

// A 1-bit or ternary weight that is d, 0 or -d, with d a half, is kept exactly: what makes conversion lossless.
TEST(LowBits, RepresentableRowsAreLossless) {
  std::mt19937 random(6);
  std::vector<float> signs(kColumns), ternary(kColumns);
  for (size_t i = 0; i < kColumns; ++i) {
    const float d = half_to_float(static_cast<uint16_t>(0x2000 + i / 128 * 0x123));
    signs[i] = random() % 2 ? d : -d;
    ternary[i] = static_cast<float>(static_cast<int>(random() % 3) - 1) * d;
  }
  const FormatTraits &one_bit = traits(Format::kQ1_0_G128);
  EXPECT_EQ(decode(one_bit, encode(one_bit, signs)), signs);
  for (const Format format : {Format::kTQ2_0_G128, Format::kQ2_0_G64}) {
    EXPECT_EQ(decode(traits(format), encode(traits(format), ternary)), ternary);
    EXPECT_EQ(decode(traits(format), encode(traits(format), signs)), signs);
  }
}

}  // namespace
}  // namespace bonsai::quant
