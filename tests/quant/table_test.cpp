// Promise: the table's rows are what the formats' specifications say, and its look-ups find them.
#include <gtest/gtest.h>

#include <string>

#include "core/quant/format.h"

namespace bonsai::quant {
namespace {

struct Expected {
  Format format;
  const char *name;
  uint32_t gguf_type;
  const char *gguf_name;
  uint32_t block_weights;
  uint32_t block_bytes;
  bool has_code3;
};

constexpr Expected kExpected[] = {
    {Format::kF32, "F32", 0, "F32", 1, 4, false},
    {Format::kF16, "F16", 1, "F16", 1, 2, false},
    {Format::kBF16, "BF16", 30, "BF16", 1, 2, false},
    {Format::kQ8_0, "Q8_0", 8, "Q8_0", 32, 34, false},
    {Format::kQ4_0, "Q4_0", 2, "Q4_0", 32, 18, false},
    {Format::kQ1_0_G128, "Q1_0_G128", 41, "Q1_0", 128, 18, false},
    {Format::kTQ2_0_G128, "TQ2_0_G128", 142, "PQ2_0", 128, 34, true},
    {Format::kQ2_0_G64, "Q2_0_G64", 42, "Q2_0", 64, 18, true},
    {Format::kTQ1_0_G128, "TQ1_0_G128", 143, "PTQ1_0", 128, 28, false},
    {Format::kTQ2_0, "TQ2_0", 35, "TQ2_0", 256, 66, true},
    {Format::kTQ1_0, "TQ1_0", 34, "TQ1_0", 256, 54, false},
    {Format::kF8_E4M3, "F8_E4M3", 43, "F8_E4M3", 32, 34, false},
    {Format::kF8_E5M2, "F8_E5M2", 44, "F8_E5M2", 32, 34, false},
    {Format::kQ4_1, "Q4_1", 3, "Q4_1", 32, 20, false},
    {Format::kQ5_0, "Q5_0", 6, "Q5_0", 32, 22, false},
    {Format::kQ5_1, "Q5_1", 7, "Q5_1", 32, 24, false},
    {Format::kQ2_K, "Q2_K", 10, "Q2_K", 256, 84, false},
    {Format::kQ3_K, "Q3_K", 11, "Q3_K", 256, 110, false},
    {Format::kQ4_K, "Q4_K", 12, "Q4_K", 256, 144, false},
    {Format::kQ5_K, "Q5_K", 13, "Q5_K", 256, 176, false},
    {Format::kQ6_K, "Q6_K", 14, "Q6_K", 256, 210, false},
    {Format::kQ8_K, "Q8_K", 15, "Q8_K", 256, 292, false},
    {Format::kIQ4_NL, "IQ4_NL", 20, "IQ4_NL", 32, 18, false},
    {Format::kIQ4_XS, "IQ4_XS", 23, "IQ4_XS", 256, 136, false},
};

TEST(Table, HoldsEveryFormatAsDesigned) {
  ASSERT_EQ(formats().size(), std::size(kExpected));
  for (const Expected &expected : kExpected) {
    const FormatTraits &found = traits(expected.format);
    EXPECT_EQ(found.format, expected.format);
    EXPECT_EQ(found.name, expected.name);
    EXPECT_EQ(found.gguf_type, expected.gguf_type);
    EXPECT_EQ(found.gguf_name, expected.gguf_name);
    EXPECT_EQ(found.block_weights, expected.block_weights);
    EXPECT_EQ(found.block_bytes, expected.block_bytes);
    EXPECT_EQ(found.count_code3 != nullptr, expected.has_code3);
    EXPECT_EQ(row_bytes(found, 256), 256 / expected.block_weights * expected.block_bytes);
  }
}

TEST(Table, FindsNamesInEitherSpellingAndAnyCase) {
  for (const FormatTraits &format : formats()) {
    EXPECT_EQ(find_format(format.name), &format);
    EXPECT_EQ(find_format(format.gguf_name), &format);
  }
  EXPECT_EQ(find_format("q1_0_g128"), &traits(Format::kQ1_0_G128));
  EXPECT_EQ(find_format("pq2_0"), &traits(Format::kTQ2_0_G128));
  EXPECT_EQ(find_format("Bf16"), &traits(Format::kBF16));
  EXPECT_EQ(find_format(""), nullptr);
  EXPECT_EQ(find_format("Q1_"), nullptr);
  EXPECT_EQ(find_format("Q1_00"), nullptr);
}

TEST(Table, FindsTypeIdsThatHaveOneMeaning) {
  EXPECT_EQ(find_gguf_type(0), &traits(Format::kF32));
  EXPECT_EQ(find_gguf_type(41), &traits(Format::kQ1_0_G128));
  EXPECT_EQ(find_gguf_type(142), &traits(Format::kTQ2_0_G128));
  EXPECT_EQ(find_gguf_type(42), nullptr);
  EXPECT_EQ(find_gguf_type(4), nullptr);
  EXPECT_EQ(find_gguf_type(UINT32_MAX), nullptr);
}

}  // namespace
}  // namespace bonsai::quant
