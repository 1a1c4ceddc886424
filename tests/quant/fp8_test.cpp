// Promise: FP8 numbers are the OCP specification's, for every code and for every way that a rounding can fall.
#include "core/quant/fp8_blocks.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::quant {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a code means, from the specification's tables; NaN for what is no number.
double meaning(uint32_t code, int mantissa_bits, int bias, uint32_t largest) {
  const uint32_t magnitude = code & 127;
  if (magnitude > largest) return kNaN;
  const int exponent = static_cast<int>(magnitude >> mantissa_bits);
  const double fraction = static_cast<double>(magnitude & ((1u << mantissa_bits) - 1)) / (1 << mantissa_bits);
  const double value = exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
  return code & 128 ? -value : value;
}

TEST(E4M3, EveryCodeDecodesToItsValue) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = fp8_to_float<E4M3>(static_cast<uint8_t>(code));
    if ((code & 127) == 127) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(static_cast<double>(value), meaning(code, 3, 7, 126)) << code;
    }
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
  }
  EXPECT_EQ(fp8_to_float<E4M3>(0x7E), 448.0f);
  EXPECT_EQ(fp8_to_float<E4M3>(0x01), 0x1p-9f);
}

TEST(E5M2, EveryCodeDecodesToItsValue) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = fp8_to_float<E5M2>(static_cast<uint8_t>(code));
    if ((code & 127) == 124) {
      EXPECT_EQ(value, code < 128 ? kInfinity : -kInfinity);
    } else if ((code & 127) > 124) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(static_cast<double>(value), meaning(code, 2, 15, 123)) << code;
    }
    EXPECT_EQ(std::signbit(value), code >= 128) << code;
  }
  EXPECT_EQ(fp8_to_float<E5M2>(0x7B), 57344.0f);
  EXPECT_EQ(fp8_to_float<E5M2>(0x01), 0x1p-16f);
}

template <class Kind>
class Fp8Rounding : public testing::Test {};
using Kinds = testing::Types<E4M3, E5M2>;
TYPED_TEST_SUITE(Fp8Rounding, Kinds);

TYPED_TEST(Fp8Rounding, EveryNumberSurvivesARoundTrip) {
  for (uint32_t code = 0; code < 256; ++code) {
    const float value = fp8_to_float<TypeParam>(static_cast<uint8_t>(code));
    if (!std::isfinite(value)) continue;
    EXPECT_EQ(float_to_fp8<TypeParam>(value), code);
  }
}

// Between each two neighbours: below the middle goes down, above goes up, the middle goes to the even code.
TYPED_TEST(Fp8Rounding, IsToNearestEven) {
  for (uint32_t code = 0; code < TypeParam::kLargest; ++code) {
    const float low = fp8_to_float<TypeParam>(static_cast<uint8_t>(code));
    const float high = fp8_to_float<TypeParam>(static_cast<uint8_t>(code + 1));
    const float middle = (low + high) / 2;
    EXPECT_EQ(float_to_fp8<TypeParam>(middle), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(float_to_fp8<TypeParam>(std::nextafter(middle, 0.0f)), code);
    EXPECT_EQ(float_to_fp8<TypeParam>(std::nextafter(middle, kInfinity)), code + 1);
    EXPECT_EQ(float_to_fp8<TypeParam>(-std::nextafter(middle, kInfinity)), (code + 1) | 128);
  }
}

TYPED_TEST(Fp8Rounding, Saturates) {
  const uint8_t largest = TypeParam::kLargest;
  EXPECT_EQ(float_to_fp8<TypeParam>(TypeParam::kMost * 1.01f), largest);
  EXPECT_EQ(float_to_fp8<TypeParam>(std::numeric_limits<float>::max()), largest);
  EXPECT_EQ(float_to_fp8<TypeParam>(kInfinity), largest);
  EXPECT_EQ(float_to_fp8<TypeParam>(-kInfinity), largest | 128);
  EXPECT_EQ(float_to_fp8<TypeParam>(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(float_to_fp8<TypeParam>(-0.0f), 128);
  EXPECT_TRUE(std::isnan(fp8_to_float<TypeParam>(float_to_fp8<TypeParam>(kNaN))));
}

std::vector<float> round_trip(Format format, const std::vector<float> &weights) {
  const FormatTraits &fp8 = traits(format);
  std::vector<std::byte> blocks(row_bytes(fp8, weights.size()));
  std::vector<float> decoded(weights.size());
  fp8.encode(weights.data(), blocks.data(), weights.size());
  fp8.decode(blocks.data(), decoded.data(), decoded.size());
  return decoded;
}

// The largest weight gets the largest code, and the others keep a relative error of half a step.
TEST(Fp8Block, ScaleBringsTheLargestWeightToTheLargestCode) {
  for (const auto &[format, most, step] :
       {std::tuple(Format::kF8_E4M3, 448.0f, 1 / 16.0f), std::tuple(Format::kF8_E5M2, 57344.0f, 1 / 8.0f)}) {
    std::vector<float> weights(32);
    for (size_t i = 0; i < weights.size(); ++i)
      weights[i] = std::ldexp(i % 2 ? -7.37f : 7.81f, -static_cast<int>(i / 8));
    std::vector<std::byte> blocks(34);
    traits(format).encode(weights.data(), blocks.data(), 32);
    uint16_t scale = 0;
    std::memcpy(&scale, blocks.data() + 32, 2);
    EXPECT_EQ(scale, float_to_half(7.81f / most));
    const std::vector<float> decoded = round_trip(format, weights);
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(decoded[i], weights[i], step * std::fabs(weights[i]));
  }
}

// Promise: small weights of many magnitudes keep what the codes alone hold of them, although halves hold scales as
// small no better than roughly.
TEST(Fp8Block, SmallWeightsKeepTheirPrecision) {
  for (const auto &[format, least, most_error] :
       {std::tuple(Format::kF8_E4M3, 1e-6f, 0.027), std::tuple(Format::kF8_E5M2, 1e-9f, 0.06)}) {
    for (float size = 1; size > least; size *= 0.7f) {
      double error = 0, whole = 0;
      std::vector<float> weights(320);
      for (size_t i = 0; i < weights.size(); ++i)
        weights[i] = size * (static_cast<float>(i * 7919 % 2048) / 1024 - 1 + 1 / 2048.0f);
      const std::vector<float> decoded = round_trip(format, weights);
      for (size_t i = 0; i < weights.size(); ++i) {
        error += std::pow(double{weights[i]} - double{decoded[i]}, 2);
        whole += std::pow(double{weights[i]}, 2);
      }
      EXPECT_LT(std::sqrt(error / whole), most_error) << traits(format).name << " " << size;
    }
  }
}

// Promise: blocks of one magnitude, with zeros or without, lose only the rounding of a normal half, however small the
// weights: down to eight least normal codes with the least normal half.
TEST(Fp8Block, OneMagnitudeIsKeptAsANormalHalfKeepsIt) {
  for (const auto &[format, least] : {std::tuple(Format::kF8_E4M3, 2e-5f), std::tuple(Format::kF8_E5M2, 1e-7f)}) {
    for (float size = 1000; size > least; size *= 0.83f) {
      std::vector<float> weights(32);
      for (size_t i = 0; i < weights.size(); ++i) weights[i] = size * (static_cast<float>(i % 3) - 1);
      const std::vector<float> decoded = round_trip(format, weights);
      for (size_t i = 0; i < weights.size(); ++i) ASSERT_NEAR(decoded[i], weights[i], size * 0x1p-11f) << size;
    }
  }
}

// Where halves are subnormal, the largest weight still is among normal codes: no more than half their step is lost.
TEST(Fp8Block, TheLargestWeightHasANormalCodeWhereTheScaleIsSubnormal) {
  for (const auto &[format, least, step] :
       {std::tuple(Format::kF8_E4M3, 0x1p-30f, 1 / 8.0f), std::tuple(Format::kF8_E5M2, 0x1p-38f, 1 / 4.0f)}) {
    for (float size = 1e-4f; size >= least; size *= 0.97f) {
      const float decoded = round_trip(format, std::vector<float>(32, size))[0];
      ASSERT_NEAR(decoded, size, size * step / 2) << size;
    }
  }
}

// The scale is a half: even the least leaves these weights zeros. (Where it would overflow: codec_test.cpp.)
TEST(Fp8Block, WeightsBelowTheLeastScaleAreZeros) {
  for (const Format format : {Format::kF8_E4M3, Format::kF8_E5M2}) {
    EXPECT_EQ(round_trip(format, std::vector<float>(32, 1e-30f)), std::vector<float>(32, 0.0f));
  }
}

// A NaN stays one and spoils no neighbour; an infinity becomes the block's largest number.
TEST(Fp8Block, NaNAndInfinityAreDefined) {
  for (const Format format : {Format::kF8_E4M3, Format::kF8_E5M2}) {
    std::vector<float> weights(32, 1.75f);
    weights[3] = kNaN;
    weights[4] = -kInfinity;
    const std::vector<float> decoded = round_trip(format, weights);
    EXPECT_TRUE(std::isnan(decoded[3]));
    EXPECT_NEAR(decoded[4], -1.75f, 0.001f);
    EXPECT_NEAR(decoded[5], 1.75f, 0.001f);
    EXPECT_TRUE(std::isnan(round_trip(format, std::vector<float>(32, kNaN))[0]));
  }
}

}  // namespace
}  // namespace bonsai::quant
