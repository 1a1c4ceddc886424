// Ternary blocks: codes and one f16 d; value = (code - 1) d. Encode: d = max |x|, code = 1 + x / d rounded, so 0, 1
// or 2.
#pragma once

#include "core/quant/codec.h"

namespace bonsai::quant {

// 2-bit codes, interleaved by runs of kRun (packing.h), before or after d. Code 3 (+2 d) is legal to read, but no
// encoder makes it.
template <uint32_t kGroup, uint32_t kRun, bool kScaleFirst>
struct TwoBit {
  static constexpr uint32_t kWeights = kGroup;
  static constexpr uint32_t kBytes = 2 + kGroup / 4;
  static constexpr uint32_t kScaleAt = kScaleFirst ? 0 : kGroup / 4;
  static constexpr uint32_t kCodesAt = kScaleFirst ? 2 : 0;
  static constexpr uint32_t kMostCode = 3;
  static void unpack(const std::byte *block, uint8_t *codes);  // over zeros
  static void pack(const uint8_t *codes, std::byte *block);    // all but d
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block + kScaleAt); }
  static uint64_t count_code3(const std::byte *block);
};

using TQ2_0_G128 = TwoBit<128, 1, true>;
using Q2_0_G64 = TwoBit<64, 1, true>;
using TQ2_0 = TwoBit<256, 32, false>;  // ggml's

// Base 3, then d: kGroup / 8 bytes of five digits, half as many more, and kGroup / 64 bytes of four digits.
template <uint32_t kGroup>
struct BaseThree {
  static constexpr uint32_t kWeights = kGroup;
  static constexpr uint32_t kBytes = kGroup / 64 * 13 + 2;
  static constexpr uint32_t kScaleAt = kBytes - 2;
  static constexpr uint32_t kMostCode = 2;
  static void unpack(const std::byte *block, uint8_t *codes);
  static void pack(const uint8_t *codes, std::byte *block);
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block + kScaleAt); }
};

using TQ1_0_G128 = BaseThree<128>;
using TQ1_0 = BaseThree<256>;  // ggml's

extern template struct TwoBit<128, 1, true>;
extern template struct TwoBit<64, 1, true>;
extern template struct TwoBit<256, 32, false>;
extern template struct BaseThree<128>;
extern template struct BaseThree<256>;

}  // namespace bonsai::quant
