#include "core/reference/matrix.h"

#include <array>

namespace bonsai::reference {

Matrix::Matrix(const gguf::Tensor &tensor, bool decode_now)
    : traits_(&quant::traits(tensor.format)), blocks_(tensor.data), rows_(tensor.rows()), columns_(tensor.columns()) {
  if (decode_now) decode_tiles();
}

std::span<const std::byte> Matrix::row_blocks(size_t index) const {
  const size_t bytes = quant::row_bytes(*traits_, columns_);
  return blocks_.subspan(index * bytes, bytes);
}

void Matrix::decode_tiles() {
  const size_t tiles = (rows_ + kTileRows - 1) / kTileRows;
  decoded_.resize(tiles * columns_ * kTileRows);
  std::vector<float> values(columns_);
  for (size_t r = 0; r < rows_; ++r) {
    traits_->decode(row_blocks(r).data(), values.data(), columns_);
    float *tile = &decoded_[r / kTileRows * columns_ * kTileRows];
    for (size_t c = 0; c < columns_; ++c) tile[c * kTileRows + r % kTileRows] = values[c];
  }
}

std::vector<double> Matrix::multiply(std::span<const double> x) const {
  if (!decoded_.empty()) return multiply_tiles(x);
  std::vector<double> y(rows_);
  for (size_t r = 0; r < rows_; ++r) y[r] = traits_->dot(row_blocks(r).data(), x.data(), columns_);
  return y;
}

// The same sums in the same order as one row at a time.
std::vector<double> Matrix::multiply_tiles(std::span<const double> x) const {
  std::vector<double> y;
  y.reserve(rows_ + kTileRows);
  for (const float *w = decoded_.data(); y.size() < rows_; w += columns_ * kTileRows) {
    std::array<double, kTileRows> sums{};
    for (size_t c = 0; c < columns_; ++c) {
      for (size_t j = 0; j < kTileRows; ++j) sums[j] += w[c * kTileRows + j] * x[c];
    }
    y.insert(y.end(), sums.begin(), sums.end());
  }
  y.resize(rows_);
  return y;
}

std::vector<double> Matrix::row(size_t index) const {
  std::vector<float> values(columns_);
  traits_->decode(row_blocks(index).data(), values.data(), columns_);
  return {values.begin(), values.end()};
}

}  // namespace bonsai::reference
