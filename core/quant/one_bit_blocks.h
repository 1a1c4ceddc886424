// One-bit blocks: f16 d, then a sign for each weight.
#pragma once

#include "core/quant/codec.h"

namespace bonsai::quant {

// 16 bytes of bits, LSB first; 1 is +d, 0 is -d. Encode: d = mean |x|, bit = x >= 0.
struct Q1_0_G128 {
  static constexpr uint32_t kWeights = 128;
  static constexpr uint32_t kBytes = 18;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }
};

}  // namespace bonsai::quant
