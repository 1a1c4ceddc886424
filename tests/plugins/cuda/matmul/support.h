// What the tests of layouts, activations and products share: random matrices of every format, packed, and the kernels
// run by the emulator as the backend would launch them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "core/quant/format.h"
#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/activations.h"
#include "plugins/cuda/layout/matmul_kernels.h"
#include "plugins/cuda/layout/matmul_plan.h"
#include "plugins/cuda/layout/packed_matrix.h"
#include "tests/plugins/cuda/emulator/emulator.h"

namespace bonsai::cuda {

using quant::Format;

// A device of four multiprocessors, with tensor cores for bits.
inline constexpr MatmulDevice kTestDevice = {.multiprocessors = 4, .has_bit_mma = true};

inline constexpr emulation::Order kForward = emulation::kOrders[0];

std::vector<Format> all_formats();

// A GoogleTest-safe name: letters and digits.
std::string name_of(Format format);

// The emulator's name of a unit of compile/units.h: "matmul.Q4_0" is "matmul.cu BONSAI_FORMAT=Q4_0" there.
std::string emulated_unit(const std::string &unit);

// Memory aligned as the driver's is, with margins that must stay as they are.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory &&) = default;

  std::byte *data() { return bytes_.data() + begin_; }
  template <class T>
  T *as() {
    return reinterpret_cast<T *>(data());
  }

 private:
  std::vector<std::byte> bytes_;
  size_t begin_, size_;
};

// Every code with all of its bits at random; scales between 1/64 and 1/32, of both signs. Numbers of F32, F16 and BF16
// are normally distributed.
class RandomMatrix {
 public:
  RandomMatrix(Format format, uint64_t rows, uint64_t columns, uint32_t seed = 1);

  Format format() const { return format_; }
  uint64_t rows() const { return rows_; }
  uint64_t columns() const { return columns_; }
  std::byte *block(uint64_t row, uint64_t block);
  std::vector<float> decoded(uint64_t row) const;  // by core/quant

  // Call after the blocks are as they should be.
  const void *pack();
  uint64_t tile_bytes() const { return cuda::tile_bytes(format_, columns_); }

 private:
  Format format_;
  uint64_t rows_, columns_;
  std::vector<std::byte> blocks_;
  std::optional<DeviceMemory> packed_;
};

// (n, columns), normally distributed, some tokens much larger than others.
std::vector<float> random_vectors(uint64_t n, uint64_t columns, uint32_t seed = 2);

// Packed activations and their memory.
struct Activations {
  DeviceMemory memory;
  PackedActivations packed;
};

// x (n, columns), packed by the kernel `quantize`.
Activations pack_activations(const ActivationForms &forms, const std::vector<float> &x, uint64_t columns,
                             const emulation::Order &order = kForward);

// Packed activations as numbers, in the form that a format takes.
std::vector<double> unpacked(const PackedActivations &packed, Packing packing, uint64_t n, uint64_t columns);

// A product as the backend asks for it.
struct Product {
  uint64_t first_row = 0, rows = 0;
  const float *bias = nullptr;
  bool add = false;
  uint64_t y_stride = 0;
};

// Runs a plan. `y` has (n, y_stride) floats.
void run_matmul(const MatmulPlan &plan, RandomMatrix &matrix, const void *packed, const Activations &activations,
                uint64_t n, const Product &product, float *y, const emulation::Order &order = kForward);

// (n, rows): all of the matrix times x, by a kernel.
std::vector<float> multiply(const MatmulPlan &plan, RandomMatrix &matrix, const std::vector<float> &x,
                            const emulation::Order &order = kForward);

// How many tokens a block of the plan's kernel takes.
uint64_t tokens_of_block(const MatmulPlan &plan);

// A plan for the shape, of any kernel but matmul_prefill, with blocks of so many tiles.
MatmulPlan with_tiles(MatmulPlan plan, const MatmulShape &shape, uint32_t tiles_of_block);

// The plans that a product of a format with n vectors can have: every kernel, few tiles in a block and many.
std::vector<MatmulPlan> all_plans(Format format, uint64_t rows, uint64_t columns, uint64_t n);

}  // namespace bonsai::cuda
