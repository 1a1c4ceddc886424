// ggml's formats of 4 bits whose codes stand for numbers that are not evenly spaced.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/quant/codec.h"
#include "core/quant/k_packing.h"

namespace bonsai::quant {

// What the codes stand for: close together around zero, where most weights are.
inline constexpr int8_t kIQ4Values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// f16 d, 16 bytes of codes as Q4_0; value = d kIQ4Values[code]. Encode: our own search for the least squared error.
struct IQ4_NL {
  static constexpr uint32_t kWeights = 32;
  static constexpr uint32_t kBytes = 18;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }
};

// A super-block of IQ4_XS as numbers: value = d scale kIQ4Values[code], per sub-block of 32.
struct IQ4Block {
  float d = 0;  // a half's value
  int8_t scales[kSuperBlock / 32] = {};
  uint8_t codes[kSuperBlock] = {};
};

// f16 d, the upper two bits of eight scales (16 bits, the first one's lowest), their lower four (two in a byte, the
// first one's lowest), and for each sub-block 16 bytes of codes as Q4_0; scales count from -32.
struct IQ4_XS {
  using Block = IQ4Block;
  static constexpr uint32_t kWeights = kSuperBlock;
  static constexpr uint32_t kBytes = 136;
  static void decode(const std::byte *block, float *weights);
  static void encode(const float *weights, std::byte *block);
  static bool finite(const std::byte *block) { return half_is_finite(block); }

  // unpack() reads any bytes; pack() expects scales from -32 to 31 and codes to 15, and writes the whole block.
  static IQ4Block unpack(const std::byte *bytes);
  static void pack(const IQ4Block &block, std::byte *bytes);
};

}  // namespace bonsai::quant
