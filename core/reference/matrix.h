// A weight matrix as the judge multiplies it: decoded weights, float64 sums in index order.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/gguf/file.h"
#include "core/quant/format.h"

namespace bonsai::reference {

// The tensor must outlive it. Decodes a row at a time whenever it is asked, so that a file of any size can be judged;
// or everything once when `decode_now`, for small models that are evaluated over thousands of tokens.
class Matrix {
 public:
  Matrix(const gguf::Tensor &tensor, bool decode_now);

  size_t rows() const { return rows_; }
  size_t columns() const { return columns_; }

  // y = W x; x holds columns() values, y comes back with rows().
  std::vector<double> multiply(std::span<const double> x) const;

  // One decoded row, columns() values.
  std::vector<double> row(size_t index) const;

 private:
  // Rows that advance together in a decoded matrix, only because the additions of one row wait for each other.
  static constexpr size_t kTileRows = 8;

  std::span<const std::byte> row_blocks(size_t index) const;
  void decode_tiles();
  std::vector<double> multiply_tiles(std::span<const double> x) const;

  const quant::FormatTraits *traits_;
  std::span<const std::byte> blocks_;
  size_t rows_, columns_;
  std::vector<float> decoded_;  // (rows / kTileRows rounded up, columns, kTileRows), or empty
};

}  // namespace bonsai::reference
