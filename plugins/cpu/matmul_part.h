// What one worker computes of a product, however the product is divided among all.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/matmul.h"
#include "plugins/cpu/quantized_vectors.h"

namespace bonsai::cpu {

struct TileRange {
  uint64_t first, last;
};

struct RowRange {
  uint64_t first, last;
};

inline TileRange tiles_of(const MatrixRows &rows) {
  return {rows.first_row / kTileRows, (rows.last_row + kTileRows - 1) / kTileRows};
}

RowRange rows_of(const MatrixRows &rows, TileRange tiles);
uint64_t output_of(const MatrixRows &rows, TileRange tiles);

// Vectors of a product, and what a worker multiplies its share of the rows with.
struct WorkerPart {
  const KernelTable &kernels;
  Product product;
  QuantizedVectors vectors;
  int worker;

  // Vectors [first, last) of these. Their bounds are right only from an even one on.
  WorkerPart of(uint32_t first, uint32_t last) const {
    if (first == 0 && last == product.n) return *this;
    return {kernels, part_of(product, first, last), vectors.from(first), worker};
  }
};

// What a worker does of one matrix.
struct MatrixShare {
  const MatrixRows &rows;
  TileRange tiles;
  ReadingPlace then;  // what it reads next, if that is known
};

// Where results go: of all vectors, the first row's to y[0].
struct Results {
  float *y;
  uint64_t stride;
};

// All vectors times a share's tiles.
void multiply_matrix(const WorkerPart &part, const MatrixShare &share, Results results);

}  // namespace bonsai::cpu
