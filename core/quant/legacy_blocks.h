// ggml's blocks of 32: f16 d, for some an f16 minimum m, then the codes.
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

// f16 d, f16 m, 16 bytes as Q4_0; value = q d + m. Encode: m = min x, d = (max x - m) / 15, q = floor((x - m) / d +
// 0.5).
struct Q4_1 {
  static constexpr uint32_t kWeights = 32;
  static constexpr uint32_t kBytes = 20;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block) && half_is_finite(block + 2); }
};

// f16 d, the fifth bits of all codes, LSB first, 16 bytes as Q4_0; value = (q - 16) d. Encode: as Q4_0 with -16 for -8.
struct Q5_0 {
  static constexpr uint32_t kWeights = 32;
  static constexpr uint32_t kBytes = 22;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }
};

// f16 d, f16 m, then as Q5_0; value = q d + m. Encode: as Q4_1 with 31 for 15.
struct Q5_1 {
  static constexpr uint32_t kWeights = 32;
  static constexpr uint32_t kBytes = 24;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block) && half_is_finite(block + 2); }
};

}  // namespace bonsai::quant
