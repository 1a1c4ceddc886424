// ggml's blocks of 32 with one scale.
#pragma once

#include "core/quant/codec.h"

namespace bonsai::quant {

// f16 d, 32 signed bytes q; value = q d. Encode: d = max |x| / 127, q = x / d rounded, halves away from zero.
struct Q8_0 {
  static constexpr uint32_t kWeights = 32;
  static constexpr uint32_t kBytes = 34;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }
};

// f16 d, 16 bytes: byte j holds weight j in its low and weight j + 16 in its high four bits; value = (q - 8) d.
// Encode: d = x / -8 for the x of largest magnitude (the first of equals), q = floor(x / d + 8.5), at most 15.
struct Q4_0 {
  static constexpr uint32_t kWeights = 32;
  static constexpr uint32_t kBytes = 18;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }
};

}  // namespace bonsai::quant
