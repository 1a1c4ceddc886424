#include "core/reference/matrix.h"

#include <array>

namespace bonsai::reference {

Matrix::Matrix(const gguf::Tensor &tensor, bool decode_now)
    : traits_(&quant::traits(tensor.format)), blocks_(tensor.data), rows_(tensor.rows()), columns_(tensor.columns()) {
  if (!decode_now) return;
  decoded_.resize(rows_ * columns_);
  traits_->decode(blocks_.data(), decoded_.data(), decoded_.size());
}

std::span<const std::byte> Matrix::row_blocks(size_t index) const {
  const size_t bytes = quant::row_bytes(*traits_, columns_);
  return blocks_.subspan(index * bytes, bytes);
}

std::vector<double> Matrix::multiply(std::span<const double> x) const {
  if (!decoded_.empty()) return multiply_decoded(x);
  std::vector<double> y(rows_);
  for (size_t r = 0; r < rows_; ++r) y[r] = traits_->dot(row_blocks(r).data(), x.data(), columns_);
  return y;
}

// The same sums in the same order. Four rows advance together only because one row's additions wait for each other.
std::vector<double> Matrix::multiply_decoded(std::span<const double> x) const {
  constexpr size_t kTogether = 4;
  std::vector<double> y(rows_);
  size_t r = 0;
  for (; r + kTogether <= rows_; r += kTogether) {
    const float *w = &decoded_[r * columns_];
    std::array<double, kTogether> sums{};
    for (size_t c = 0; c < columns_; ++c) {
      for (size_t j = 0; j < kTogether; ++j) sums[j] += w[j * columns_ + c] * x[c];
    }
    for (size_t j = 0; j < kTogether; ++j) y[r + j] = sums[j];
  }
  for (; r < rows_; ++r) {
    for (size_t c = 0; c < columns_; ++c) y[r] += decoded_[r * columns_ + c] * x[c];
  }
  return y;
}

std::vector<double> Matrix::row(size_t index) const {
  std::vector<float> values(columns_);
  traits_->decode(row_blocks(index).data(), values.data(), columns_);
  return {values.begin(), values.end()};
}

}  // namespace bonsai::reference
