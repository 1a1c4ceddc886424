// Ternary blocks whose codes are packed for ggml's kernels: value = (code - 1) d, f16 d at the end. Encode, as for
// every ternary format: d = max |x|, code = 1 + x / d rounded.
#pragma once

#include "core/quant/codec.h"
#include "core/quant/packing.h"

namespace bonsai::quant {

// 64 bytes of 2-bit codes, interleaved by runs of 32. Code 3 (+2 d) is legal to read, but no encoder makes it.
struct TQ2_0 {
  static constexpr uint32_t kWeights = 256;
  static constexpr uint32_t kBytes = 66;
  static constexpr uint32_t kScaleAt = 64;
  static void unpack(const std::byte *block, uint8_t *codes);
  static void pack(const uint8_t *codes, std::byte *block);
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block + kScaleAt); }
  static uint64_t count_code3(const std::byte *block);
};

// Base 3: bytes of five digits in two runs, the second half as long as the first, and bytes of four.
template <uint32_t kGroup>
struct BaseThree {
  static constexpr uint32_t kWeights = kGroup;
  static constexpr uint32_t kBytes = kGroup / 64 * 13 + 2;
  static constexpr uint32_t kScaleAt = kBytes - 2;
  static void unpack(const std::byte *block, uint8_t *codes);
  static void pack(const uint8_t *codes, std::byte *block);
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block + kScaleAt); }
};

using TQ1_0 = BaseThree<256>;
using TQ1_0_G128 = BaseThree<128>;

extern template struct BaseThree<256>;
extern template struct BaseThree<128>;

}  // namespace bonsai::quant
