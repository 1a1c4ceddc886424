// Products of many vectors with weights of one or two bits: 32 vectors abreast, whose sums are looked up in memory
// (abreast_matmul.inl.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace bonsai::cpu {

struct PackedMatrix;

// Vectors that lie side by side, and those that are multiplied with weights before others are unpacked.
inline constexpr uint32_t kAbreastVectors = 32;
inline constexpr uint32_t kMostAbreast = 2 * kAbreastVectors;

// What it takes beside the vectors: results so far of up to 2,048 rows, sums of a block's first part, tables of a
// part's columns and what was found in them, and unpacked weights.
inline constexpr size_t kAbreastScratchBytes = size_t{2048} * kMostAbreast * sizeof(float) + 640 * 1024;

// Rows [first_row, last_row) of a matrix, whose results for vector i are y[i * y_stride] and those behind it.
struct AbreastRows {
  const PackedMatrix *matrix;
  uint64_t first_row, last_row;
  float *y;
};

// y[i][r] = W[r] x[i], as MatmulArgs has it, of rows of one or more matrices of equal columns and code layouts, which
// KernelTable::takes_abreast. Vectors beyond the last whole kAbreastVectors take as long as so many.
struct AbreastArgs {
  std::span<const AbreastRows> rows;
  uint32_t n;
  const std::byte *quantized_rows;  // without tables, in the layout of the matrices' activations
  size_t y_stride;
  std::byte *scratch;  // kAbreastScratchBytes, aligned to 64
};

// A tier's kernel, and from where on it is faster than others: how many vectors there are to be beyond whole
// kAbreastVectors, and rows of a call, for which the tables are made.
struct AbreastKernel {
  void (*multiply)(const AbreastArgs &args) = nullptr;  // nullptr: there is none
  uint32_t fewest_vectors = 0;
  uint64_t fewest_rows = 0;
  bool takes_ternary = true, takes_q2_0_g64 = true;  // beside signs; false: others multiply these
};

}  // namespace bonsai::cpu
