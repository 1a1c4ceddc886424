// Promise: the 16-bit floats are IEEE 754's, for every code and for every way that a rounding can fall.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/quant/format.h"

namespace bonsai::quant {
namespace {

constexpr uint32_t kCodes = 65536;

bool is_half_nan(uint32_t code) { return (code & 0x7C00) == 0x7C00 && (code & 0x3FF) != 0; }

// What a half means, from the standard's definition rather than from bits moved about.
double half_value(uint32_t code) {
  const double sign = code & 0x8000 ? -1 : 1;
  const int exponent = static_cast<int>((code >> 10) & 31);
  const double mantissa = code & 0x3FF;
  if (exponent == 31) return sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(Half, EveryCodeDecodesToItsValue) {
  for (uint32_t code = 0; code < kCodes; ++code) {
    const float value = half_to_float(static_cast<uint16_t>(code));
    if (is_half_nan(code)) {
      ASSERT_TRUE(std::isnan(value)) << code;
      ASSERT_TRUE(std::bit_cast<uint32_t>(value) & 0x400000) << code << " is signalling";
    } else {
      ASSERT_EQ(static_cast<double>(value), half_value(code)) << code;
    }
    ASSERT_EQ(std::signbit(value), code >= 0x8000) << code;
  }
}

TEST(Half, EveryCodeSurvivesARoundTrip) {
  for (uint32_t code = 0; code < kCodes; ++code) {
    const uint16_t back = float_to_half(half_to_float(static_cast<uint16_t>(code)));
    const uint32_t expected = is_half_nan(code) ? code | 0x200 : code;  // NaN becomes quiet
    ASSERT_EQ(back, expected);
  }
}

// Between each two neighbours: below the middle goes down, above goes up, the middle goes to the even code.
TEST(Half, RoundsToNearestEven) {
  for (uint32_t code = 0; code < 0x7BFF; ++code) {
    const float middle = static_cast<float>((half_value(code) + half_value(code + 1)) / 2);
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    ASSERT_EQ(float_to_half(middle), even) << code;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 0.0f)), code) << code;
    ASSERT_EQ(float_to_half(std::nextafter(middle, 1e6f)), code + 1) << code;
    ASSERT_EQ(float_to_half(-middle), even | 0x8000) << code;
  }
}

TEST(Half, ExtremesOverflowAndUnderflow) {
  EXPECT_EQ(float_to_half(65504.0f), 0x7BFF);
  EXPECT_EQ(float_to_half(std::nextafter(65520.0f, 0.0f)), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0f), 0x7C00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::infinity()), 0xFC00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(float_to_half(-0.0f), 0x8000);
  EXPECT_EQ(float_to_half(std::bit_cast<float>(0x7F800001u)),
            0x7E00);  // a signalling NaN with a payload too low to keep
  EXPECT_EQ(float_to_half(std::bit_cast<float>(0xFFC02000u)), 0xFE01);
}

TEST(BFloat16, EveryCodeSurvivesARoundTrip) {
  for (uint32_t code = 0; code < kCodes; ++code) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(code));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), code << 16);
    const uint32_t expected = std::isnan(value) ? code | 0x40 : code;
    ASSERT_EQ(float_to_bfloat16(value), expected);
  }
}

TEST(BFloat16, RoundsToNearestEven) {
  for (uint32_t code = 0; code < 0x7F80; ++code) {
    const uint32_t even = code % 2 == 0 ? code : code + 1;
    const uint32_t middle = code << 16 | 0x8000;
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle)), even);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle - 1)), code);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle + 1)), code + 1);
    ASSERT_EQ(float_to_bfloat16(std::bit_cast<float>(middle | 0x80000000)), even | 0x8000);
  }
}

TEST(BFloat16, NaNStaysNaN) {
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x7F800001u)), 0x7FC0);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0xFFFFFFFFu)), 0xFFFF);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::infinity()), 0x7F80);
}

}  // namespace
}  // namespace bonsai::quant
