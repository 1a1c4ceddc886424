#include "core/quant/fp8_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bonsai::quant {
namespace {

constexpr uint32_t kFloatMantissaBits = 23;
constexpr int kFloatBias = 127;
// How many exponents of normal codes there are at least below that of a block's largest weight.
constexpr int kExponentsBelow = 3;

// 2^exponent, for exponents of normal floats.
float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(exponent + kFloatBias) << kFloatMantissaBits);
}

// The half that is the scale of a block whose largest weight is this. Subnormal halves are coarse, and what a scale
// loses all weights lose; so the largest weight has a smaller code instead, of the same mantissa, as long as the codes
// beneath it do for the others.
template <class Kind>
uint16_t scale_of(float largest) {
  constexpr float kLeastNormalHalf = 0x1p-14f;
  constexpr uint16_t kLeastHalf = 1;
  constexpr int kLeastExponent = 1 - Kind::kBias + kExponentsBelow;
  if (largest == 0) return 0;
  float code = Kind::kMost;
  while (largest / code < kLeastNormalHalf && code > power_of_two(kLeastExponent + 1)) code /= 2;
  return std::max(float_to_half(largest / code), kLeastHalf);
}

}  // namespace

template <class Kind>
float fp8_to_float(uint8_t code) {
  constexpr uint32_t kBits = Kind::kMantissaBits;
  const uint8_t magnitude = code & 0x7F;
  const uint32_t sign = (code & 0x80u) << 24;
  if (magnitude > Kind::kLargest) {
    // Of the codes above the largest only E5M2's first, with no mantissa, is an infinity.
    const bool infinite = Kind::kLargest + 1 != Kind::kNaN && magnitude == Kind::kLargest + 1;
    return std::bit_cast<float>(sign | (infinite ? 0x7F800000u : 0x7FC00000u));
  }
  const uint32_t mantissa = magnitude & ((1u << kBits) - 1);
  const uint32_t exponent = magnitude >> kBits;
  // Subnormals have the exponent of the smallest normal numbers and no leading 1.
  const auto significand = static_cast<float>(exponent != 0 ? mantissa | 1u << kBits : mantissa);
  const int power = static_cast<int>(std::max(exponent, 1u)) - Kind::kBias - static_cast<int>(kBits);
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(significand * power_of_two(power)));
}

template <class Kind>
uint8_t float_to_fp8(float value) {
  constexpr uint32_t kBits = Kind::kMantissaBits;
  constexpr int kLeastExponent = 1 - Kind::kBias;
  const auto sign = static_cast<uint8_t>(std::bit_cast<uint32_t>(value) >> 24 & 0x80);
  if (std::isnan(value)) return sign | Kind::kNaN;
  const float magnitude = std::fabs(value);
  if (magnitude >= Kind::kMost) return sign | Kind::kLargest;
  const int exponent =
      static_cast<int>(std::bit_cast<uint32_t>(magnitude) >> kFloatMantissaBits) - kFloatBias;  // -127: subnormal
  // The distance of neighbouring codes here; multiplying by its inverse is exact. Counting in it, a code is its
  // significand plus the steps of the smaller exponents, and a carry out of the significand is the next exponent's
  // first code.
  const int power = std::max(exponent, kLeastExponent);
  const float steps = magnitude * power_of_two(static_cast<int>(kBits) - power);
  const float whole = std::floor(steps);
  const float rest = steps - whole;
  auto code = static_cast<uint32_t>(whole);
  code += rest > 0.5f || (rest == 0.5f && code % 2 == 1);
  code += static_cast<uint32_t>(power - kLeastExponent) << kBits;
  return static_cast<uint8_t>(sign | std::min<uint32_t>(code, Kind::kLargest));
}

template <class Kind>
void Fp8<Kind>::decode(const std::byte *block, float *weights) {
  const float scale = load_half(block + kWeights);
  for (uint32_t j = 0; j < kWeights; ++j) weights[j] = fp8_to_float<Kind>(load<uint8_t>(block + j)) * scale;
}

template <class Kind>
void Fp8<Kind>::encode(const float *weights, std::byte *block) {
  float largest = 0;
  for (uint32_t j = 0; j < kWeights; ++j) {
    if (std::isfinite(weights[j])) largest = std::max(largest, std::fabs(weights[j]));
  }
  const uint16_t half = scale_of<Kind>(largest);
  store(block + kWeights, half);
  const float scale = half_to_float(half);
  for (uint32_t j = 0; j < kWeights; ++j) {
    const float weight = std::clamp(weights[j], -largest, largest);  // an infinity, too; NaN stays
    // A block of zeros has scale 0: its codes are zeros with the weights' signs.
    const float scaled = scale != 0 || std::isnan(weight) ? weight / scale : std::copysign(0.0f, weight);
    store(block + j, float_to_fp8<Kind>(scaled));
  }
}

template float fp8_to_float<E4M3>(uint8_t);
template float fp8_to_float<E5M2>(uint8_t);
template uint8_t float_to_fp8<E4M3>(float);
template uint8_t float_to_fp8<E5M2>(float);
template struct Fp8<E4M3>;
template struct Fp8<E5M2>;

}  // namespace bonsai::quant
