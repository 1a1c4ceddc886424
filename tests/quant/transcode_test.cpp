// Promise: transcoding changes no weight, and says when it cannot keep that.
#include "core/quant/transcode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace bonsai::quant {
namespace {

constexpr Format kTernary[] = {Format::kTQ2_0_G128, Format::kQ2_0_G64, Format::kTQ2_0, Format::kTQ1_0_G128,
                               Format::kTQ1_0};
constexpr size_t kWeights = 4096;

using Bytes = std::vector<std::byte>;

std::vector<float> decode(Format format, const Bytes &blocks) {
  std::vector<float> weights(blocks.size() / traits(format).block_bytes * traits(format).block_weights);
  traits(format).decode(blocks.data(), weights.data(), weights.size());
  return weights;
}

Bytes encode(Format format, const std::vector<float> &weights) {
  Bytes blocks(row_bytes(traits(format), weights.size()));
  traits(format).encode(weights.data(), blocks.data(), weights.size());
  return blocks;
}

Bytes random_bytes(Format format, uint32_t seed) {
  std::mt19937 random(seed);
  Bytes blocks(row_bytes(traits(format), kWeights));
  for (std::byte &byte : blocks) byte = static_cast<std::byte>(random());
  return blocks;
}

// Ternary weights; every `group` of them with a scale of its own, extremes and negative zero among the scales.
std::vector<float> ternary_weights(size_t group, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> weights(kWeights);
  float d = 0;
  for (size_t i = 0; i < kWeights; ++i) {
    if (i % group == 0) d = half_to_float(static_cast<uint16_t>(random() % 0x7C00));
    weights[i] = static_cast<float>(static_cast<int>(random() % 3) - 1) * d;
  }
  return weights;
}

std::optional<Bytes> transcoded(Format from, Format to, const Bytes &blocks) {
  const size_t n = blocks.size() / traits(from).block_bytes * traits(from).block_weights;
  Bytes result(n / traits(to).block_weights * traits(to).block_bytes);
  if (!transcode(from, to, blocks.data(), result.data(), n)) return std::nullopt;
  return result;
}

void expect_same_bits(const std::vector<float> &a, const std::vector<float> &b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

using Pair = std::pair<Format, Format>;

class TernaryPair : public testing::TestWithParam<Pair> {
 protected:
  Format from = GetParam().first, to = GetParam().second;
};

// Groups of 256 share a scale: every packing can hold them.
TEST_P(TernaryPair, ChangesNoWeight) {
  ASSERT_TRUE(can_transcode(from, to));
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const Bytes blocks = encode(from, ternary_weights(256, seed));
    const auto result = transcoded(from, to, blocks);
    ASSERT_TRUE(result);
    expect_same_bits(decode(to, *result), decode(from, blocks));
    const auto back = transcoded(to, from, *result);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, blocks);
  }
}

// Bytes of any value, NaN and negative scales and code 3 included, come through or are refused.
TEST_P(TernaryPair, ManagesOrRefusesAnyBytes) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const Bytes blocks = random_bytes(from, seed);
    const auto result = transcoded(from, to, blocks);
    if (result) expect_same_bits(decode(to, *result), decode(from, blocks));
    const bool joins = traits(to).block_weights > traits(from).block_weights;
    const bool loses_code3 = traits(from).count_code3 != nullptr && traits(to).count_code3 == nullptr;
    EXPECT_EQ(result.has_value(), !joins && !loses_code3);
  }
}

TEST_P(TernaryPair, RefusesToJoinBlocksOfDifferentScales) {
  const size_t group = traits(from).block_weights;
  const auto result = transcoded(from, to, encode(from, ternary_weights(group, 1)));
  EXPECT_EQ(result.has_value(), traits(to).block_weights <= group);
}

// Half a block of the target cannot be written.
TEST_P(TernaryPair, RefusesRowsThatDoNotDivide) {
  const Bytes blocks(traits(from).block_bytes);
  EXPECT_EQ(transcoded(from, to, blocks).has_value(), traits(to).block_weights <= traits(from).block_weights);
}

std::vector<Pair> ternary_pairs() {
  std::vector<Pair> pairs;
  for (const Format from : kTernary) {
    for (const Format to : kTernary) {
      if (from != to) pairs.emplace_back(from, to);
    }
  }
  return pairs;
}

INSTANTIATE_TEST_SUITE_P(Formats, TernaryPair, testing::ValuesIn(ternary_pairs()), [](const auto &info) {
  return std::string(traits(info.param.first).name) + "_to_" + std::string(traits(info.param.second).name);
});

// One code 3, anywhere, cannot be written in base 3.
TEST(Transcode, FindsEveryCode3) {
  const Bytes clean = encode(Format::kTQ2_0_G128, ternary_weights(128, 1));
  for (size_t i = 0; i < 128; ++i) {
    Bytes blocks(clean.begin(), clean.begin() + 34);
    blocks[2 + i / 4] |= static_cast<std::byte>(3 << (i % 4 * 2));
    EXPECT_FALSE(transcoded(Format::kTQ2_0_G128, Format::kTQ1_0_G128, blocks)) << i;
    EXPECT_TRUE(transcoded(Format::kTQ2_0_G128, Format::kQ2_0_G64, blocks)) << i;
  }
}

// All 65,536 codes, NaNs included.
TEST(Transcode, SixteenBitFloatsBecomeF32) {
  for (const Format from : {Format::kF16, Format::kBF16}) {
    Bytes blocks(2 * 65536);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::byte>(i % 2 == 0 ? i / 2 : i / 512);
    const auto result = transcoded(from, Format::kF32, blocks);
    ASSERT_TRUE(result);
    expect_same_bits(decode(Format::kF32, *result), decode(from, blocks));
  }
}

TEST(Transcode, IsOfferedWhereNothingIsLostAndNowhereElse) {
  size_t n_pairs = 0;
  for (const FormatTraits &from : formats()) {
    EXPECT_TRUE(can_transcode(from.format, from.format));
    const auto targets = lossless_targets(from.format);
    EXPECT_EQ(std::count(targets.begin(), targets.end(), from.format), 0);
    for (const FormatTraits &to : formats())
      n_pairs += from.format != to.format && can_transcode(from.format, to.format);
  }
  EXPECT_EQ(n_pairs, 2u + std::size(kTernary) * (std::size(kTernary) - 1));
  EXPECT_FALSE(can_transcode(Format::kF32, Format::kF16));
  EXPECT_FALSE(can_transcode(Format::kQ8_0, Format::kF32));
  EXPECT_FALSE(can_transcode(Format::kTQ2_0_G128, Format::kQ1_0_G128));
}

TEST(Transcode, ToTheSameFormatCopies) {
  const Bytes blocks = random_bytes(Format::kQ4_K, 1);
  EXPECT_EQ(transcoded(Format::kQ4_K, Format::kQ4_K, blocks), blocks);
}

}  // namespace
}  // namespace bonsai::quant
