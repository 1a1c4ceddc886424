// Products of matrices with packed activations.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/quant/format.h"
#include "plugins/cuda/driver/memory.h"
#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/activations.h"
#include "plugins/cuda/layout/matmul_plan.h"

namespace bonsai::cuda {

class Device;

// Rows of one format on the device.
struct PackedMatrix {
  quant::Format format;
  uint64_t rows, columns;
  DeviceBuffer storage;  // packed_bytes()
};

// Consecutive rows of a matrix, and where their products go.
struct MatrixRows {
  const PackedMatrix *matrix;  // outlives this
  uint64_t first_row, rows;
  uint64_t output;  // element of the product that first_row makes

  bool goes_on_with(const MatrixRows &next) const {
    return next.matrix == matrix && next.first_row == first_row + rows && next.output == output + rows;
  }
};

// Bytes of weights that a product reads.
uint64_t bytes_of_rows(std::span<const MatrixRows> rows);

// The forms of activations that a product of `n` vectors reads.
ActivationForms forms_for(std::span<const MatrixRows> rows, uint64_t n, const MatmulDevice &device);

struct Product {
  std::span<const MatrixRows> rows;
  PackedActivations activations;  // with the forms of forms_for
  uint64_t n;                     // tokens
  const float *bias;              // (rows) device memory; nullptr: none
  float *y;                       // (n, y_stride) device memory
  uint64_t y_stride;
  bool add;  // y += instead of y =
};

// Submits a product; the context is current.
void multiply(Device &device, const Product &product);
// One of its parts, by a plan for it.
void multiply_part(Device &device, const Product &product, const MatrixRows &part, const MatmulPlan &plan);

// One token's products with gate and up, which go on to SwiGLU and to packing (GatedMatmulArguments).
struct GatedProduct {
  std::span<const MatrixRows> rows;
  PackedActivations activations;
  PackedActivations packed;  // the result
};
bool may_multiply_gated(std::span<const MatrixRows> rows, const MatmulDevice &device);
void multiply_gated(Device &device, const GatedProduct &product);

}  // namespace bonsai::cuda
