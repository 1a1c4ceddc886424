#include "core/quant/low_bit_blocks.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/quant/rounding.h"

namespace bonsai::quant {
namespace {

constexpr size_t kScaleBytes = 2;

}  // namespace

void Q1_0_G128::decode(const std::byte *block, float *weights) {
  const float d = load_half(block);
  for (uint32_t j = 0; j < kWeights; ++j) {
    const auto bits = std::to_integer<uint32_t>(block[kScaleBytes + j / 8]);
    weights[j] = (bits >> (j % 8)) & 1 ? d : -d;
  }
}

void Q1_0_G128::encode(const float *weights, std::byte *block) {
  float sum = 0;
  for (uint32_t j = 0; j < kWeights; ++j) sum += std::fabs(weights[j]);
  store_half(block, sum / kWeights);
  for (uint32_t i = 0; i < kWeights / 8; ++i) {
    uint32_t bits = 0;
    for (uint32_t j = 0; j < 8; ++j) bits |= static_cast<uint32_t>(weights[8 * i + j] >= 0) << j;
    store(block + kScaleBytes + i, static_cast<uint8_t>(bits));
  }
}

template <uint32_t kGroup>
void TwoBit<kGroup>::decode(const std::byte *block, float *weights) {
  const float d = load_half(block);
  for (uint32_t j = 0; j < kWeights; ++j) {
    const auto codes = std::to_integer<int>(block[kScaleBytes + j / 4]);
    weights[j] = static_cast<float>(((codes >> (j % 4 * 2)) & 3) - 1) * d;
  }
}

template <uint32_t kGroup>
void TwoBit<kGroup>::encode(const float *weights, std::byte *block) {
  float d = 0;
  for (uint32_t j = 0; j < kWeights; ++j) d = std::max(d, std::fabs(weights[j]));
  const float inverse = inverse_or_zero(d);
  store_half(block, d);
  for (uint32_t i = 0; i < kWeights / 4; ++i) {
    uint32_t codes = 0;
    for (uint32_t j = 0; j < 4; ++j) {
      codes |= static_cast<uint32_t>(round_to_code(weights[4 * i + j] * inverse, -1, 1) + 1) << (2 * j);
    }
    store(block + kScaleBytes + i, static_cast<uint8_t>(codes));
  }
}

template <uint32_t kGroup>
uint64_t TwoBit<kGroup>::count_code3(const std::byte *block) {
  uint64_t count = 0;
  for (uint32_t i = kScaleBytes; i < kBytes; i += 8) {
    const auto codes = load<uint64_t>(block + i);
    count += static_cast<uint64_t>(std::popcount(codes & (codes >> 1) & 0x5555555555555555u));
  }
  return count;
}

template struct TwoBit<128>;
template struct TwoBit<64>;

}  // namespace bonsai::quant
