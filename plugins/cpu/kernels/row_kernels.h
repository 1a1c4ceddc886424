// Arguments of the kernels that work on one row of floats: norms, activations, and what selection needs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace bonsai::cpu {

// y = weight * x / sqrt(mean(x^2) + eps). The squares are summed in 16 lanes by fma, then by the tree of reduce_add.
// NaN results have the bits 0x7FC00000.
struct RmsNormArgs {
  const float *x;       // (n)
  const float *weight;  // (n)
  size_t n;
  float eps;
  float *y;  // (n), may be x
};

// y = silu(gate) * up, silu(g) = g / (1 + exp(-g))
struct SwigluArgs {
  const float *gate;  // (n)
  const float *up;    // (n)
  size_t n;
  float *y;  // (n), may be gate or up
};

// RoPE, in place: pairs (a, b) of elements i and i + pairs become (a cos - b sin, b cos + a sin), each product and sum
// rounded once.
struct RotateArgs {
  float *x;          // (2 * pairs)
  const float *cos;  // (pairs)
  const float *sin;  // (pairs)
  size_t pairs;
};

// y += x, elements [0, n).
struct AddArgs {
  const float *x;  // (n)
  size_t n;
  float *y;  // (n)
};

// Floats to binary16, rounded to nearest even.
struct HalfArgs {
  const float *x;  // (n)
  size_t n;
  uint16_t *y;  // (n)
};

}  // namespace bonsai::cpu
