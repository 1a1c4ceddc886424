// Eight-bit floats in blocks of 32 with one scale (OCP 8-bit Floating Point Specification, revision 1.0).
#pragma once

#include "core/quant/codec.h"

namespace bonsai::quant {

// Bias 7; no infinity, 0x7F and 0xFF are NaN; 448 is the largest.
struct E4M3 {
  static constexpr uint32_t kMantissaBits = 3;
  static constexpr int kBias = 7;
  static constexpr uint8_t kLargest = 0x7E;
  static constexpr uint8_t kNaN = 0x7F;
  static constexpr float kMost = 448;
};

// Bias 15; infinity and NaN as in IEEE 754; 57,344 is the largest.
struct E5M2 {
  static constexpr uint32_t kMantissaBits = 2;
  static constexpr int kBias = 15;
  static constexpr uint8_t kLargest = 0x7B;
  static constexpr uint8_t kNaN = 0x7F;
  static constexpr float kMost = 57344;
};

template <class Kind>
float fp8_to_float(uint8_t code);

// To the nearest, ties to even; beyond the largest, infinity included, the largest; NaN stays NaN.
template <class Kind>
uint8_t float_to_fp8(float value);

// 32 bytes of codes, f16 scale; value = code * scale. Encode: scale = the largest finite |x| / c, infinity where a half
// cannot hold it, 0 where all are 0, and codes of x / scale, where infinities count as the largest finite x. c is
// kMost, halved until the scale is a normal half, but at least 1.75 times eight least normal codes; beneath that the
// scale is the nearest half above 0.
template <class Kind>
struct Fp8 {
  static constexpr uint32_t kWeights = 32;
  static constexpr uint32_t kBytes = 34;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
};

using F8_E4M3 = Fp8<E4M3>;
using F8_E5M2 = Fp8<E5M2>;

extern template struct Fp8<E4M3>;
extern template struct Fp8<E5M2>;

}  // namespace bonsai::quant
