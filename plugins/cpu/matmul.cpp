#include "plugins/cpu/matmul.h"

#include <algorithm>

#include "plugins/cpu/buffer.h"

namespace bonsai::cpu {
namespace {

constexpr uint64_t kSmallestGroup = 32;

// Quantised vectors that a matrix is multiplied with in one go stay in a core's second-level cache.
constexpr uint64_t kActivationBlockBytes = 256 * 1024;

void quantize(Threads &threads, const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  const uint64_t row_bytes = quantized_row_bytes(layout, product.columns);
  const size_t grain = rows_worth_a_thread(product.columns);
  threads.each_range(product.n, grain, [&](size_t begin, size_t end, int) {
    kernels.quantize({.x = product.x + begin * product.columns,
                      .x_stride = product.columns,
                      .n = static_cast<uint32_t>(end - begin),
                      .columns = product.columns,
                      .layout = layout,
                      .rows = product.activations + begin * row_bytes});
  });
}

// All vectors times tiles [first_tile, last_tile) of the given rows, which are counted through.
void multiply_tiles(const KernelTable &kernels, const Product &product, const MatrixRows &rows, uint64_t first_tile,
                    uint64_t last_tile) {
  const ActivationLayout layout = activation_layout(rows.matrix->format);
  const bool quantized = layout.group != 0;
  const uint64_t vector_bytes =
      quantized ? quantized_row_bytes(layout, product.columns) : product.columns * sizeof(float);
  const uint64_t block = std::max<uint64_t>(8, kActivationBlockBytes / vector_bytes / 8 * 8);
  const uint64_t first_row = std::max(rows.first_row, first_tile * kTileRows);
  const uint64_t last_row = std::min(rows.last_row, last_tile * kTileRows);
  for (uint64_t i = 0; i < product.n; i += block) {
    kernels.matmul({.matrix = rows.matrix,
                    .first_row = first_row,
                    .last_row = last_row,
                    .n = static_cast<uint32_t>(std::min<uint64_t>(block, product.n - i)),
                    .x = product.x + i * product.columns,
                    .x_stride = product.columns,
                    .quantized_rows = quantized ? product.activations + i * vector_bytes : nullptr,
                    .y = product.y + i * product.y_stride + rows.output + (first_row - rows.first_row),
                    .y_stride = product.y_stride});
  }
}

struct TileRange {
  uint64_t first, last;
};

TileRange tiles_of(const MatrixRows &rows) {
  return {rows.first_row / kTileRows, (rows.last_row + kTileRows - 1) / kTileRows};
}

// Every matrix that takes its activations in `layout`: their tiles, counted through, are divided among the threads.
void multiply_layout(Threads &threads, const KernelTable &kernels, const Product &product, ActivationLayout layout) {
  const auto matches = [&](const MatrixRows &rows) { return activation_layout(rows.matrix->format) == layout; };
  uint64_t n_tiles = 0;
  for (const MatrixRows &rows : product.rows) {
    if (matches(rows)) n_tiles += tiles_of(rows).last - tiles_of(rows).first;
  }
  threads.each_range(n_tiles, 1, [&](uint64_t begin, uint64_t end, int) {
    uint64_t passed = 0;
    for (const MatrixRows &rows : product.rows) {
      if (!matches(rows)) continue;
      const TileRange tiles = tiles_of(rows);
      const uint64_t first = std::max(begin, passed), last = std::min(end, passed + tiles.last - tiles.first);
      if (first < last) {
        multiply_tiles(kernels, product, rows, tiles.first + first - passed, tiles.first + last - passed);
      }
      passed += tiles.last - tiles.first;
    }
  });
}

}  // namespace

uint64_t activation_bytes(uint64_t columns) {
  return round_up(columns + (columns / kSmallestGroup + 1) * (sizeof(float) + sizeof(int32_t)), kPackedAlignment);
}

uint64_t bytes_of_rows(std::span<const MatrixRows> rows) {
  uint64_t bytes = 0;
  for (const MatrixRows &part : rows) {
    bytes +=
        (part.last_row - part.first_row) * quant::row_bytes(quant::traits(part.matrix->format), part.matrix->columns);
  }
  return bytes;
}

void multiply(Threads &threads, const KernelTable &kernels, const Product &product) {
  for (size_t i = 0; i < product.rows.size(); ++i) {
    const ActivationLayout layout = activation_layout(product.rows[i].matrix->format);
    const auto takes_same = [&](const MatrixRows &rows) { return activation_layout(rows.matrix->format) == layout; };
    if (std::any_of(product.rows.begin(), product.rows.begin() + i, takes_same)) continue;
    if (layout.group != 0) quantize(threads, kernels, product, layout);
    multiply_layout(threads, kernels, product, layout);
  }
}

}  // namespace bonsai::cpu
