// ggml's super-blocks of 256: sub-blocks of 16 or 32 weights whose scales, and minima, are small integers that share
// one f16 (Q8_K: no sub-blocks). How codes and scales are packed is in k_packing.h, how an encoder finds them in
// k_fit.h.
#pragma once

#include "core/quant/codec.h"

namespace bonsai::quant {

// A codec per bit width; the decoder's and the encoder's one loop is in k_blocks.cpp. kDAt and kDminAt say where the
// f16 stand.
template <uint32_t kBitsPerWeight, uint32_t kBlockBytes, uint32_t kDAt, uint32_t kDminAt>
struct KBlock {
  static constexpr uint32_t kBits = kBitsPerWeight;
  static constexpr uint32_t kWeights = 256;
  static constexpr uint32_t kBytes = kBlockBytes;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block + kDAt) && half_is_finite(block + kDminAt); }
};

// Sub-blocks of 16; 4-bit scales and minima, codes 0 to 3: value = d scale code - dmin min.
using Q2_K = KBlock<2, 84, 80, 82>;
// Sub-blocks of 16; scales -32 to 31, codes -4 to 3: value = d scale code.
using Q3_K = KBlock<3, 110, 108, 108>;
// Sub-blocks of 32; 6-bit scales and minima, codes 0 to 15 and 0 to 31: as Q2_K.
using Q4_K = KBlock<4, 144, 0, 2>;
using Q5_K = KBlock<5, 176, 0, 2>;
// Sub-blocks of 16; scales -128 to 127, codes -32 to 31: as Q3_K.
using Q6_K = KBlock<6, 210, 208, 208>;

// f32 d, 256 signed bytes q, the sums of q over sixteen groups of 16 (16-bit integers that no value depends on); value
// = q d. Encode: d = x / -127 for the x of largest magnitude.
struct Q8_K {
  static constexpr uint32_t kWeights = 256;
  static constexpr uint32_t kBytes = 292;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
};

}  // namespace bonsai::quant
