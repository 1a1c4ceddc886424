// Conversions between binary32 and the two 16-bit floats, in integer arithmetic: the same on every machine and in every
// rounding mode.
#include <bit>
#include <cstdint>

#include "core/quant/format.h"

namespace bonsai::quant {
namespace {

constexpr uint32_t kFloatInfinity = 0x7F800000;

// `value` >> `shift`, rounded to nearest, ties to even. shift is 1 to 31.
uint32_t shift_right_to_even(uint32_t value, uint32_t shift) {
  const uint32_t result = value >> shift;
  const uint32_t rest = value & ((1u << shift) - 1);
  const uint32_t half = 1u << (shift - 1);
  return result + (rest > half || (rest == half && (result & 1)) ? 1 : 0);
}

}  // namespace

float half_to_float(uint16_t half) {
  const uint32_t sign = (half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1F;
  const uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0x1F) {
    const uint32_t quiet = mantissa != 0 ? 0x400000u : 0;
    return std::bit_cast<float>(sign | kFloatInfinity | quiet | (mantissa << 13));
  }
  if (exponent == 0) {
    // Zero and subnormals count units of 2^-24, which a binary32 holds exactly.
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > kFloatInfinity) {
    return static_cast<uint16_t>(sign | 0x7E00 | ((magnitude >> 13) & 0x3FF));
  }
  if (magnitude >= 0x47800000) return sign | 0x7C00;  // 65536 and above, infinity included
  if (magnitude >= 0x38800000) {                      // 2^-14 and above: a normal half
    // A carry out of the mantissa moves into the exponent, up to infinity for 65520 and above: what IEEE 754 asks.
    return static_cast<uint16_t>(sign | shift_right_to_even(magnitude - (112u << 23), 13));
  }
  if (magnitude < 0x33000000) return sign;  // below 2^-25, half of the smallest subnormal
  const uint32_t exponent = magnitude >> 23;
  const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  return static_cast<uint16_t>(sign | shift_right_to_even(mantissa, 126 - exponent));
}

float bfloat16_to_float(uint16_t value) { return std::bit_cast<float>(static_cast<uint32_t>(value) << 16); }

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > kFloatInfinity) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>(shift_right_to_even(bits, 16));
}

}  // namespace bonsai::quant
