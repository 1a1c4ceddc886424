// The kernels that multiply a matrix with vectors, and the grid that each takes. Any of them serves any number of
// vectors, and gives the same bytes; which is fastest, matmul_plan.h says.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "plugins/cuda/layout/matmul_plan.h"

namespace bonsai::cuda {

enum class MatmulKernel {
  kBits1,
  kBits1Long,
  kBits2,
  kBits4,
  kOne,
  kHeld8,
  kHeld16,
  kDecode8,
  kDecode16,
  kDecode32,
  kPrefill,
};
inline constexpr std::array kMatmulKernels = {
    MatmulKernel::kBits1,    MatmulKernel::kBits1Long, MatmulKernel::kBits2,   MatmulKernel::kBits4,
    MatmulKernel::kOne,      MatmulKernel::kHeld8,     MatmulKernel::kHeld16,  MatmulKernel::kDecode8,
    MatmulKernel::kDecode16, MatmulKernel::kDecode32,  MatmulKernel::kPrefill,
};

// "matmul_bits_1": as a unit of device code has it.
std::string_view name_of(MatmulKernel kernel);

// "matmul_bits.Q1_0_G128": the unit that has it, for a format.
std::string unit_of(MatmulKernel kernel, quant::Format format);

// Whether it is compiled for a format, and there on the device.
bool serves(MatmulKernel kernel, quant::Format format, const MatmulDevice &device);

// The plan by which it multiplies. It serves.
MatmulPlan plan_by(MatmulKernel kernel, const MatmulShape &shape, const MatmulDevice &device);

// Tiles of 16 rows that hold the shape's.
uint32_t tiles_of(const MatmulShape &shape);

// Blocks of matmul_held that a multiprocessor has room for.
uint32_t held_blocks(const MatmulShape &shape);

}  // namespace bonsai::cuda
