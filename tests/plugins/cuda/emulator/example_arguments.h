// The arguments of the kernels that the emulator's own tests run.
#pragma once

#include "plain_types.h"

namespace bonsai::cuda {

// Kernels that read `in` and write `out`, per thread or per warp as they say.
struct ExampleArguments {
  const uint32_t *in;
  uint32_t *out;
  unsigned n;
};

// One warp multiplies: c (16, 8) += a (16, k) b (k, 8), all by rows, but for b, which is by columns.
struct MatrixArguments {
  const void *a, *b;
  void *c;
};

}  // namespace bonsai::cuda
