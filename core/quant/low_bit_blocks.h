// One- and two-bit blocks: f16 d, then the codes, low bits first.
#pragma once

#include "core/quant/codec.h"

namespace bonsai::quant {

// 16 bytes of bits; 1 is +d, 0 is -d. Encode: d = mean |x|, bit = x >= 0.
struct Q1_0_G128 {
  static constexpr uint32_t kWeights = 128;
  static constexpr uint32_t kBytes = 18;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }
};

// Four 2-bit codes a byte; value = (code - 1) d. Encode: d = max |x|, code = 1 + x / d rounded, so 0, 1 or 2; code 3
// (+2 d) is legal to read, but no encoder makes it.
template <uint32_t kGroup>
struct TwoBit {
  static constexpr uint32_t kWeights = kGroup;
  static constexpr uint32_t kBytes = 2 + kGroup / 4;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }
  static uint64_t count_code3(const std::byte *block);
};

using TQ2_0_G128 = TwoBit<128>;
using Q2_0_G64 = TwoBit<64>;

extern template struct TwoBit<128>;
extern template struct TwoBit<64>;

}  // namespace bonsai::quant
