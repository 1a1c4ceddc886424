#include "plugins/cpu/matmul_part.h"

#include <algorithm>

namespace bonsai::cpu {
namespace {

// Quantised vectors that a matrix is multiplied with in one go stay in a core's second-level cache; but those in
// panels, of which the kernels see to it. Of floats, pieces are read again for some rows after the other, from the
// first level (float_matmul.inl.h), so that they need not; and those in panels, of which 512 were measured, may be any
// number (of FP8's the kernel takes some after the other).
constexpr uint64_t kFloatBlockBytes = 4096 * 1024;

}  // namespace

RowRange rows_of(const MatrixRows &rows, TileRange tiles) {
  return {std::max(rows.first_row, tiles.first * kTileRows), std::min(rows.last_row, tiles.last * kTileRows)};
}

uint64_t output_of(const MatrixRows &rows, TileRange tiles) {
  return rows.output + (rows_of(rows, tiles).first - rows.first_row);
}

void multiply_matrix(const WorkerPart &part, const MatrixShare &share, Results results) {
  const Product &product = part.product;
  const QuantizedVectors &vectors = part.vectors;
  const bool quantized = vectors.layout.block != 0;
  const PanelKernel &panel_kernel = part.kernels.panels;
  const std::byte *panels =
      vectors.panels.empty() ? nullptr : vectors.panels.of(panel_kernel.kind_of(*share.rows.matrix, product.n));
  const uint64_t vector_bytes = quantized ? vectors.row_bytes : product.columns * sizeof(float);
  const uint64_t block_bytes = quantized ? part.kernels.vector_bytes : kFloatBlockBytes;
  const uint64_t block =
      vectors.tables || panels ? product.n : std::max<uint64_t>(8, block_bytes / vector_bytes / 8 * 8);
  const RowRange rows = rows_of(share.rows, share.tiles);
  for (uint64_t i = 0; i < product.n; i += block) {
    part.kernels.matmul({.matrix = share.rows.matrix,
                         .first_row = rows.first,
                         .last_row = rows.last,
                         .n = static_cast<uint32_t>(std::min<uint64_t>(block, product.n - i)),
                         .x = product.x + i * product.x_stride,
                         .x_stride = product.x_stride,
                         .quantized_rows = quantized ? vectors.rows + i * vector_bytes : nullptr,
                         .tables = vectors.tables,
                         .y = results.y + i * results.stride,
                         .y_stride = results.stride,
                         .then = share.then,
                         .prefetch = part.kernels.prefetch,
                         .scratch = product.activations.many_of(part.worker),
                         .panels = panels});
  }
}

}  // namespace bonsai::cpu
