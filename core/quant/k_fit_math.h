// What the searches for symmetric and for affine super-blocks share.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/quant/format.h"
#include "core/quant/k_packing.h"

namespace bonsai::quant {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Four floats, in whatever registers the machine has: the searches spend their time in min, max and rounding, which
// compilers do not vectorise by themselves without giving up NaN. Lane by lane the same on every machine.
using Lanes = float __attribute__((vector_size(16)));
constexpr uint32_t kLanes = 4;

inline Lanes all(float value) { return Lanes{value, value, value, value}; }

inline float sum_of(Lanes lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); }

// `values` kept in [least, most], to the nearest integer, halves to even, for bounds within 2^22: beyond 1.5 * 2^23
// neighbouring floats are 1 apart.
inline Lanes codes_of(Lanes values, float least, float most) {
  constexpr float kShift = 12582912.0f;
  values = values < least ? all(least) : values;
  values = values > most ? all(most) : values;
  return values + kShift - kShift;
}

inline float code_of(float value, float least, float most) { return codes_of(all(value), least, most)[0]; }

// A block's weights divided by the largest magnitude: squares neither overflow nor vanish.
template <uint32_t kWeights>
struct NormalisedWeights {
  float unit = 0;  // the largest magnitude; 0 for a block of zeros, infinity if the block holds one
  Lanes x[kWeights / kLanes] = {};

  explicit NormalisedWeights(const float *weights) {
    for (uint32_t i = 0; i < kWeights; ++i) unit = std::max(unit, std::fabs(weights[i]));
    if (unit == 0 || std::isinf(unit)) return;
    for (uint32_t i = 0; i < kWeights; ++i) {
      x[i / kLanes][i % kLanes] = std::isnan(weights[i]) ? 0.0f : weights[i] / unit;
    }
  }
};
using Normalised = NormalisedWeights<kSuperBlock>;

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
