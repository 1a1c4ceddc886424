#include "core/quant/one_bit_blocks.h"

#include <cmath>

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

}  // namespace bonsai::quant
