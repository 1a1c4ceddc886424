// Matrix products over stacked matrices of mixed formats, on all threads of a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/threads.h"

namespace bonsai::cpu {

// Rows [first_row, last_row) of a matrix, and the output element that the first of them is.
struct MatrixRows {
  const PackedMatrix *matrix;
  uint64_t first_row;
  uint64_t last_row;
  uint64_t output;
};

struct Product {
  std::span<const MatrixRows> rows;  // all of `columns` columns
  uint64_t columns;
  uint32_t n;                             // vectors
  const float *x;                         // (n, columns)
  float *y;                               // (n, y_stride)
  uint64_t y_stride;                      // elements from row to row of y
  std::byte *activations;                 // activation_bytes(n, columns), aligned to a cache line: scratch
  std::span<const MatrixRows> next = {};  // of the product that comes after this one: asked for in time
};

// What n quantised vectors take at most, in any format's layout, tables of sums included.
uint64_t activation_bytes(uint64_t n, uint64_t columns);

// What the weights of these rows occupy in the file's format.
uint64_t bytes_of_rows(std::span<const MatrixRows> rows);

// y[i][rows.output + r] = W[r] x[i]. Matrices that take the same activations share their quantisation.
void multiply(Threads &threads, const KernelTable &kernels, const Product &product);

}  // namespace bonsai::cpu
