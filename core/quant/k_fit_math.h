// What the searches for symmetric and for affine super-blocks share.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "core/quant/format.h"
#include "core/quant/k_packing.h"

namespace bonsai::quant {

// A super-block's weights divided by the largest magnitude: squares neither overflow nor vanish.
struct Normalised {
  float unit = 0;  // the largest magnitude; 0 for a block of zeros, infinity if the block holds one
  float x[kSuperBlock] = {};

  explicit Normalised(const float *weights) {
    for (uint32_t i = 0; i < kSuperBlock; ++i) unit = std::max(unit, std::fabs(weights[i]));
    if (unit == 0 || std::isinf(unit)) return;
    for (uint32_t i = 0; i < kSuperBlock; ++i) x[i] = std::isnan(weights[i]) ? 0.0f : weights[i] / unit;
  }
};

// To the nearest integer, halves to even, for |value| < 2^22: beyond 1.5 * 2^23 neighbouring floats are 1 apart. Unlike
// std::round this is two instructions that every compiler vectorises.
inline float round_small(float value) {
  constexpr float kShift = 12582912.0f;
  return value + kShift - kShift;
}

inline float code_of(float value, float least, float most) {
  return round_small(std::min(std::max(value, least), most));
}

// The sum by halves: a fixed order that needs no reassociation to be vectorised.
template <uint32_t kLanes>
float sum_of(float (&lanes)[kLanes]) {
  for (uint32_t width = kLanes / 2; width > 0; width /= 2) {
    for (uint32_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

inline float to_half_and_back(float value) { return half_to_float(float_to_half(value)); }

// `d`, in normalised weights, as halves can hold it: the nearest and, among subnormals, where steps are coarse and 0
// may be the nearest, the next of larger magnitude. Equal twice where there is no choice.
inline std::array<float, 2> held_by_halves(float d, float unit) {
  constexpr uint16_t kLeastNormal = 0x0400;
  const uint16_t half = float_to_half(d * unit);
  const bool is_subnormal = (half & 0x7FFF) < kLeastNormal && d != 0;
  const auto next = static_cast<uint16_t>(half + (is_subnormal ? 1 : 0));
  return {half_to_float(half), half_to_float(next)};
}

}  // namespace bonsai::quant
