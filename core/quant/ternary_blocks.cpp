#include "core/quant/ternary_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/quant/packing.h"
#include "core/quant/rounding.h"

namespace bonsai::quant {
namespace {

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

// The three sections of codes in base 3.
template <uint32_t kGroup>
struct Sections {
  using First = Trits<5, kGroup / 8>;
  using Second = Trits<5, kGroup / 16>;
  using Third = Trits<4, kGroup / 64>;
  static constexpr uint32_t kSecondAt = kGroup / 8, kThirdAt = kSecondAt + kGroup / 16;  // bytes
  static constexpr uint32_t kSecondCode = First::kCodes, kThirdCode = kSecondCode + Second::kCodes;
  static_assert(kThirdCode + Third::kCodes == kGroup);
};

}  // namespace

template <uint32_t kGroup, uint32_t kRun, bool kScaleFirst>
void TwoBit<kGroup, kRun, kScaleFirst>::unpack(const std::byte *block, uint8_t *codes) {
  Interleaved<2, kRun>::unpack(block + kCodesAt, codes, kGroup);
}

template <uint32_t kGroup, uint32_t kRun, bool kScaleFirst>
void TwoBit<kGroup, kRun, kScaleFirst>::pack(const uint8_t *codes, std::byte *block) {
  Interleaved<2, kRun>::pack(codes, block + kCodesAt, kGroup);
}

template <uint32_t kGroup, uint32_t kRun, bool kScaleFirst>
void TwoBit<kGroup, kRun, kScaleFirst>::decode(const std::byte *block, float *weights) {
  decode_ternary<TwoBit>(block, weights);
}

template <uint32_t kGroup, uint32_t kRun, bool kScaleFirst>
void TwoBit<kGroup, kRun, kScaleFirst>::encode(const float *weights, std::byte *block) {
  encode_ternary<TwoBit>(weights, block);
}

template <uint32_t kGroup, uint32_t kRun, bool kScaleFirst>
uint64_t TwoBit<kGroup, kRun, kScaleFirst>::count_code3(const std::byte *block) {
  uint64_t count = 0;
  for (uint32_t i = 0; i < kGroup / 4; i += 8) {
    const auto codes = load<uint64_t>(block + kCodesAt + i);
    const uint64_t threes = codes & (codes >> 1) & 0x5555555555555555u;
    if (threes != 0) count += static_cast<uint64_t>(std::popcount(threes));  // without the instruction, a call
  }
  return count;
}

template <uint32_t kGroup>
void BaseThree<kGroup>::unpack(const std::byte *block, uint8_t *codes) {
  using Parts = Sections<kGroup>;
  Parts::First::unpack(block, codes);
  Parts::Second::unpack(block + Parts::kSecondAt, codes + Parts::kSecondCode);
  Parts::Third::unpack(block + Parts::kThirdAt, codes + Parts::kThirdCode);
}

template <uint32_t kGroup>
void BaseThree<kGroup>::pack(const uint8_t *codes, std::byte *block) {
  using Parts = Sections<kGroup>;
  Parts::First::pack(codes, block);
  Parts::Second::pack(codes + Parts::kSecondCode, block + Parts::kSecondAt);
  Parts::Third::pack(codes + Parts::kThirdCode, block + Parts::kThirdAt);
}

template <uint32_t kGroup>
void BaseThree<kGroup>::decode(const std::byte *block, float *weights) {
  decode_ternary<BaseThree>(block, weights);
}

template <uint32_t kGroup>
void BaseThree<kGroup>::encode(const float *weights, std::byte *block) {
  encode_ternary<BaseThree>(weights, block);
}

template struct TwoBit<128, 1, true>;
template struct TwoBit<64, 1, true>;
template struct TwoBit<256, 32, false>;
template struct BaseThree<128>;
template struct BaseThree<256>;

}  // namespace bonsai::quant
