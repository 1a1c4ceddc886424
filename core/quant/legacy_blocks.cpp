#include "core/quant/legacy_blocks.h"

#include <algorithm>
#include <cmath>

#include "core/quant/rounding.h"

namespace bonsai::quant {
namespace {

constexpr size_t kScaleBytes = 2;

}  // namespace

void Q8_0::decode(const std::byte *block, float *weights) {
  const float d = load_half(block);
  for (uint32_t j = 0; j < kWeights; ++j) {
    weights[j] = static_cast<float>(load<int8_t>(block + kScaleBytes + j)) * d;
  }
}

void Q8_0::encode(const float *weights, std::byte *block) {
  float largest = 0;
  for (uint32_t j = 0; j < kWeights; ++j) largest = std::max(largest, std::fabs(weights[j]));
  const float d = largest / 127;
  const float inverse = inverse_or_zero(d);
  store_half(block, d);
  for (uint32_t j = 0; j < kWeights; ++j) {
    store(block + kScaleBytes + j, static_cast<int8_t>(round_to_code(weights[j] * inverse, -127, 127)));
  }
}

void Q4_0::decode(const std::byte *block, float *weights) {
  const float d = load_half(block);
  for (uint32_t j = 0; j < kWeights / 2; ++j) {
    const auto pair = std::to_integer<int>(block[kScaleBytes + j]);
    weights[j] = static_cast<float>((pair & 15) - 8) * d;
    weights[j + kWeights / 2] = static_cast<float>((pair >> 4) - 8) * d;
  }
}

void Q4_0::encode(const float *weights, std::byte *block) {
  float extreme = 0;
  for (uint32_t j = 0; j < kWeights; ++j) {
    if (std::fabs(weights[j]) > std::fabs(extreme)) extreme = weights[j];
  }
  // The extreme gets code 0, the one that reaches farthest from 8.
  const float d = extreme / -8;
  const float inverse = inverse_or_zero(d);
  const auto code = [&](float x) { return round_to_code(std::floor(x * inverse + 8.5f), 0, 15); };
  store_half(block, d);
  for (uint32_t j = 0; j < kWeights / 2; ++j) {
    store(block + kScaleBytes + j, static_cast<uint8_t>(code(weights[j]) | code(weights[j + kWeights / 2]) << 4));
  }
}

}  // namespace bonsai::quant
