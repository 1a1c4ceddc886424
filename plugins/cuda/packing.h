// Launches that bring activations into the forms that products read: from floats, through a norm, or through SwiGLU.
#pragma once

#include <cstdint>

#include "plugins/cuda/layout/activations.h"

namespace bonsai::cuda {

class Device;

// What a product's vectors are made of.
enum class PackedSource {
  kPlain,   // x
  kNormed,  // weight * x / sqrt(mean(x^2) + eps)
  kGated,   // silu(gate) * up, x being gate, then up
  kPacked,  // what made x has packed it
};

// All pointers are to device memory; the context is current.
struct RowsToPack {
  const float *x;  // (n, columns), or as many as `picked` needs; for SwiGLU (n, 2 * columns): gate, then up
  const uint32_t *picked = nullptr;  // (n) for a norm: which of x's rows, as a copy brings it; nullptr: the first n
  const float *norm = nullptr;       // (columns): rms_norm first; nullptr: none
  float eps = 0;
  float *y = nullptr;  // (n, columns) what is packed, as floats; nullptr: not wanted
  uint64_t n, columns;
  ActivationForms forms;
  PackedActivations to;  // place_activations(forms, ...)
};
void pack_rows(Device &device, const RowsToPack &rows);
void pack_swiglu(Device &device, const RowsToPack &rows);

}  // namespace bonsai::cuda
