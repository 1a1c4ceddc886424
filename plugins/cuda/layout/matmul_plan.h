// Which kernel multiplies a matrix with n vectors, and on what grid. Any plan gives the same bytes.
#pragma once

#include <cstdint>
#include <string>

#include "core/quant/format.h"

namespace bonsai::cuda {

// What the choice depends on of the device.
struct MatmulDevice {
  uint32_t multiprocessors;
  bool has_bit_mma;  // compute capability 8.0 to 9.0: kHasBitMma of simt.cuh
};

struct MatmulShape {
  quant::Format format;
  uint64_t first_row;  // of the packed matrix
  uint64_t rows;       // at least 1
  uint64_t columns;
  uint64_t n;  // at least 1
};

struct MatmulPlan {
  const char *kernel;  // "matmul_decode", "matmul_bits" (takes the bit planes) or "matmul_prefill"
  uint32_t grid_x, grid_y;
  uint32_t threads;
  uint32_t shared_bytes;     // dynamic
  uint32_t tiles_per_block;  // for the arguments
};

MatmulPlan plan_matmul(const MatmulShape &shape, const MatmulDevice &device);

// "matmul.Q4_0": the unit (compile/units.h) that holds a format's kernels, and the one of its embedding.
std::string matmul_unit(quant::Format format);
std::string embedding_unit(quant::Format format);

}  // namespace bonsai::cuda
