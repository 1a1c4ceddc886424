// Rounding to small integer codes, defined for every float.
#pragma once

#include <algorithm>
#include <cmath>

namespace bonsai::quant {

// `value` to the nearest integer, halves away from zero, kept in [low, high]. NaN, for which ggml's result is
// undefined, gives the code nearest 0.
inline int round_to_code(float value, int low, int high) {
  if (std::isnan(value)) return std::clamp(0, low, high);
  const float rounded = std::round(value);
  return static_cast<int>(std::clamp(rounded, static_cast<float>(low), static_cast<float>(high)));
}

// 1 / scale, or 0 for a block of zeros.
inline float inverse_or_zero(float scale) { return scale != 0 ? 1.0f / scale : 0.0f; }

}  // namespace bonsai::quant
