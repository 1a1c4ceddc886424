// The dot product that those of kernels are measured against.
#pragma once

#include <cstddef>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::test {

// The sum of w[i] * x[i] in float64 over n decoded weights, in index order. n is a multiple of the format's block.
inline double exact_dot(const quant::FormatTraits &format, const std::byte *blocks, const double *x, size_t n) {
  std::vector<float> weights(n);
  format.decode(blocks, weights.data(), n);
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += static_cast<double>(weights[i]) * x[i];
  return sum;
}

}  // namespace bonsai::test
