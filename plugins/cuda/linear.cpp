#include "plugins/cuda/linear.h"

#include "plugins/cuda/device.h"
#include "plugins/cuda/kernels/matmul_arguments.h"
#include "plugins/cuda/layout/packed_matrix.h"

namespace bonsai::cuda {
namespace {

MatmulPlan plan(const MatrixRows &rows, uint64_t n, const MatmulDevice &device) {
  return plan_matmul({.format = rows.matrix->format,
                      .first_row = rows.first_row,
                      .rows = rows.rows,
                      .columns = rows.matrix->columns,
                      .n = n},
                     device);
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

void multiply(Device &device, const Product &product) {
  for (const MatrixRows &part : product.rows) {
    const PackedMatrix &matrix = *part.matrix;
    const MatmulPlan chosen = plan(part, product.n, device.matmul_device());
    const MatmulArguments arguments = {.weights = matrix.storage.data(),
                                       .tile_bytes = tile_bytes(matrix.format, matrix.columns),
                                       .activations = product.activations,
                                       .bias = product.bias ? product.bias + part.output : nullptr,
                                       .y = product.y + part.output,
                                       .y_stride = product.y_stride,
                                       .first_row = static_cast<uint32_t>(part.first_row),
                                       .rows = static_cast<uint32_t>(part.rows),
                                       .segments = segment_count(matrix.columns),
                                       .n = static_cast<uint32_t>(product.n),
                                       .tiles_per_block = chosen.tiles_per_block,
                                       .add = product.add};
    device.launch(
        chosen.unit, chosen.kernel,
        {.grid = {chosen.grid_x, chosen.grid_y, 1}, .threads = chosen.threads, .shared_bytes = chosen.shared_bytes},
        arguments);
  }
}

}  // namespace bonsai::cuda
