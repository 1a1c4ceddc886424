#include "core/quant/ternary_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/quant/rounding.h"

namespace bonsai::quant {
namespace {

using TwoBitCodes = Interleaved<2, 32>;

template <class Codec>
void decode_ternary(const std::byte *block, float *weights) {
  uint8_t codes[Codec::kWeights] = {};
  Codec::unpack(block, codes);
  const float d = load_half(block + Codec::kScaleAt);
  for (uint32_t j = 0; j < Codec::kWeights; ++j) weights[j] = static_cast<float>(codes[j] - 1) * d;
}

template <class Codec>
void encode_ternary(const float *weights, std::byte *block) {
  float d = 0;
  for (uint32_t j = 0; j < Codec::kWeights; ++j) d = std::max(d, std::fabs(weights[j]));
  const float inverse = inverse_or_zero(d);
  uint8_t codes[Codec::kWeights];
  for (uint32_t j = 0; j < Codec::kWeights; ++j) {
    codes[j] = static_cast<uint8_t>(round_to_code(weights[j] * inverse, -1, 1) + 1);
  }
  Codec::pack(codes, block);
  store_half(block + Codec::kScaleAt, d);
}

}  // namespace

void TQ2_0::unpack(const std::byte *block, uint8_t *codes) { TwoBitCodes::unpack(block, codes, kWeights); }
void TQ2_0::pack(const uint8_t *codes, std::byte *block) { TwoBitCodes::pack(codes, block, kWeights); }
void TQ2_0::decode(const std::byte *block, float *weights) { decode_ternary<TQ2_0>(block, weights); }
void TQ2_0::encode(const float *weights, std::byte *block) { encode_ternary<TQ2_0>(weights, block); }

uint64_t TQ2_0::count_code3(const std::byte *block) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < kScaleAt; i += 8) {
    const auto codes = load<uint64_t>(block + i);
    count += static_cast<uint64_t>(std::popcount(codes & (codes >> 1) & 0x5555555555555555u));
  }
  return count;
}

template <uint32_t kGroup>
void BaseThree<kGroup>::unpack(const std::byte *block, uint8_t *codes) {
  using Long = Trits<5, kGroup / 8>;
  using Short = Trits<5, kGroup / 16>;
  using Rest = Trits<4, kGroup / 64>;
  Long::unpack(block, codes);
  Short::unpack(block + kGroup / 8, codes + Long::kCodes);
  Rest::unpack(block + kGroup / 16 * 3, codes + Long::kCodes + Short::kCodes);
}

template <uint32_t kGroup>
void BaseThree<kGroup>::pack(const uint8_t *codes, std::byte *block) {
  using Long = Trits<5, kGroup / 8>;
  using Short = Trits<5, kGroup / 16>;
  using Rest = Trits<4, kGroup / 64>;
  Long::pack(codes, block);
  Short::pack(codes + Long::kCodes, block + kGroup / 8);
  Rest::pack(codes + Long::kCodes + Short::kCodes, block + kGroup / 16 * 3);
}

template <uint32_t kGroup>
void BaseThree<kGroup>::decode(const std::byte *block, float *weights) {
  decode_ternary<BaseThree>(block, weights);
}

template <uint32_t kGroup>
void BaseThree<kGroup>::encode(const float *weights, std::byte *block) {
  encode_ternary<BaseThree>(weights, block);
}

template struct BaseThree<256>;
template struct BaseThree<128>;

}  // namespace bonsai::quant
