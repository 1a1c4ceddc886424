// F32, F16 and BF16: a block is one number.
#pragma once

#include "core/quant/codec.h"

namespace bonsai::quant {

struct F32 {
  static constexpr uint32_t kWeights = 1;
  static constexpr uint32_t kBytes = 4;
  static void decode(const std::byte *block, float *weights) { *weights = load<float>(block); }
  static void encode(const float *weights, std::byte *block) { store(block, *weights); }
};

struct F16 {
  static constexpr uint32_t kWeights = 1;
  static constexpr uint32_t kBytes = 2;
  static void decode(const std::byte *block, float *weights) { *weights = load_half(block); }
  static void encode(const float *weights, std::byte *block) { store_half(block, *weights); }
  static bool finite(const std::byte *block) { return half_is_finite(block); }
};

struct BF16 {
  static constexpr uint32_t kWeights = 1;
  static constexpr uint32_t kBytes = 2;
  static void decode(const std::byte *block, float *weights) { *weights = bfloat16_to_float(load<uint16_t>(block)); }
  static void encode(const float *weights, std::byte *block) { store(block, float_to_bfloat16(*weights)); }
};

}  // namespace bonsai::quant
