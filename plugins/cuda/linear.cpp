#include "plugins/cuda/linear.h"

#include <algorithm>

#include "plugins/cuda/device.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

MatmulShape shape_of(const MatrixRows &rows, uint64_t n) {
  return {.format = rows.matrix->format,
          .first_row = rows.first_row,
          .rows = rows.rows,
          .columns = rows.matrix->columns,
          .n = n};
}

MatmulPlan plan(const MatrixRows &rows, uint64_t n, const MatmulDevice &device) {
  return plan_matmul(shape_of(rows, n), device);
}

}  // namespace

uint64_t bytes_of_rows(std::span<const MatrixRows> rows) {
  uint64_t bytes = 0;
  for (const MatrixRows &part : rows) bytes += packed_bytes(part.matrix->format, part.rows, part.matrix->columns);
  return bytes;
}

ActivationForms forms_for(std::span<const MatrixRows> rows, uint64_t n, const MatmulDevice &device) {
  ActivationForms forms;
  for (const MatrixRows &part : rows) {
    forms |= ActivationForms::of(part.matrix->format, takes_bits(plan(part, n, device)));
  }
  return forms;
}

namespace {

LaunchShape launch_shape(const MatmulPlan &plan) {
  return {.grid = {plan.grid_x, plan.grid_y, 1}, .threads = plan.threads, .shared_bytes = plan.shared_bytes};
}

// A product of some rows of one matrix, as kernels are told of it.
MatmulArguments arguments_of(const MatrixRows &part, uint32_t tiles_per_block) {
  const PackedMatrix &matrix = *part.matrix;
  MatmulArguments arguments = {};
  arguments.weights = matrix.storage.data();
  arguments.tile_bytes = tile_bytes(matrix.format, matrix.columns);
  arguments.first_row = static_cast<uint32_t>(part.first_row);
  arguments.rows = static_cast<uint32_t>(part.rows);
  arguments.segments = segment_count(matrix.columns);
  arguments.tiles_per_block = tiles_per_block;
  return arguments;
}

}  // namespace

void multiply_part(Device &device, const Product &product, const MatrixRows &part, const MatmulPlan &plan) {
  MatmulArguments arguments = arguments_of(part, plan.tiles_per_block);
  arguments.activations = product.activations;
  arguments.bias = product.bias ? product.bias + part.output : nullptr;
  arguments.y = product.y + part.output;
  arguments.y_stride = product.y_stride;
  arguments.n = static_cast<uint32_t>(product.n);
  arguments.add = product.add;
  device.launch(plan.unit, plan.kernel, launch_shape(plan), arguments);
}

void multiply(Device &device, const Product &product) {
  for (const MatrixRows &part : product.rows) {
    multiply_part(device, product, part, plan(part, product.n, device.matmul_device()));
  }
}

bool may_multiply_gated(std::span<const MatrixRows> rows, const MatmulDevice &device) {
  return rows.size() == 1 && plan_gated(shape_of(rows[0], 1), device);
}

void multiply_gated(Device &device, const GatedProduct &product) {
  const MatrixRows &part = product.rows[0];
  const MatmulPlan chosen = *plan_gated(shape_of(part, 1), device.matmul_device());
  GatedMatmulArguments arguments = {.product = arguments_of(part, chosen.tiles_per_block), .packed = product.packed};
  arguments.product.activations = product.activations;
  arguments.product.n = 1;
  device.launch(chosen.unit, chosen.kernel, launch_shape(chosen), arguments);
}

}  // namespace bonsai::cuda
