// A weight matrix as the judge multiplies it: decoded weights, float64 sums in index order.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/gguf/file.h"
#include "core/quant/format.h"

namespace bonsai::reference {

// The tensor must outlive it. Decodes a few rows at a time whenever it is asked, so that a file of any size can be
// judged; or everything once when `decode_now`, for small models that are evaluated over thousands of tokens.
class Matrix {
 public:
  Matrix(const gguf::Tensor &tensor, bool decode_now);

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }

  // Y = W X for n vectors: X is (n, columns()), Y comes back as (n, rows()). Rows are shared by the threads of the
  // caller's oneTBB arena, and decoded once for all vectors; no sum depends on either.
  std::vector<double> multiply(std::span<const double> x, size_t n = 1) const;

  // One decoded row, columns() values.
  std::vector<double> row(size_t index) const;

 private:
  // A tile is a few rows side by side: (columns, rows of a tile), zeros in place of rows behind the last.
  std::span<const std::byte> row_blocks(size_t index) const;
  size_t tiles() const;
  size_t tile_values() const;
  void decode_tile(size_t tile, std::span<double> to) const;

  const quant::FormatTraits *traits_;
  std::span<const std::byte> blocks_;
  size_t rows_, columns_;
  std::vector<double> decoded_;  // all tiles, or empty
};

}  // namespace bonsai::reference
