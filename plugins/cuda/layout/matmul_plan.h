// Which kernel multiplies a matrix with n vectors, and on what grid. Any plan gives the same bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/quant/format.h"

namespace bonsai::cuda {

// a / b, rounded up.
constexpr uint32_t ceil_divide(uint64_t a, uint64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

inline constexpr uint32_t kWarpThreads = 32;

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
  std::string unit;    // of device code (compile/units.h): "matmul.Q4_0", "matmul_one.Q4_0", "matmul_held.Q4_0" or
                       // "matmul_bits.Q1_0_G128"
  std::string kernel;  // "matmul_bits_1", "_1_long", "_1_gated", "_2" or "_4", "matmul_one", "matmul_held_8" or "_16",
                       // "matmul_decode", "_16" or "_32", or "matmul_prefill"
  uint32_t grid_x, grid_y;
  uint32_t threads;
  uint32_t shared_bytes;     // dynamic
  uint32_t tiles_per_block;  // for the arguments
};

MatmulPlan plan_matmul(const MatmulShape &shape, const MatmulDevice &device);

// The plan of matmul_bits_1_gated (kernels/matmul_arguments.h) for one token's gate and up, `shape.rows` of both; none
// where that kernel does not serve: codes of more than a bit, other devices, more than eight segments of columns, rows
// of `down` that are no whole segments, more blocks than multiprocessors.
std::optional<MatmulPlan> plan_gated(const MatmulShape &shape, const MatmulDevice &device);

// Whether some n takes one of the kernels matmul_bits, which read the activations' bit planes.
bool may_take_bits(quant::Format format, const MatmulDevice &device);
// Whether the plan is one of them.
bool takes_bits(const MatmulPlan &plan);

// Every unit that plan_matmul may name for a format, for KernelLibrary::prepare.
std::vector<std::string> matmul_units(quant::Format format, const MatmulDevice &device);

// "embedding.Q4_0": the unit that decodes the rows of an embedding of a format.
std::string embedding_unit(quant::Format format);

}  // namespace bonsai::cuda
