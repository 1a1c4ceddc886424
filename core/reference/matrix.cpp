#include "core/reference/matrix.h"

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace bonsai::reference {
namespace {

// Rows that advance together, only because the additions of one row wait for each other.
constexpr size_t kTileRows = 8;

// w: (columns, kTileRows). Pairs, as every x86-64 and AArch64 adds them: GCC would take several columns at a time, and
// turn them about.
std::array<double, kTileRows> multiply_tile(const double *w, const double *x, size_t columns) {
  using Pair [[gnu::vector_size(2 * sizeof(double))]] = double;
  Pair sums[kTileRows / 2] = {};
  for (size_t c = 0; c < columns; ++c) {
#pragma GCC unroll 4
    for (size_t i = 0; i < kTileRows / 2; ++i) {
      Pair weights;
      std::memcpy(&weights, w + c * kTileRows + 2 * i, sizeof weights);
      sums[i] += weights * x[c];
    }
  }
  return std::bit_cast<std::array<double, kTileRows>>(sums);
}

}  // namespace

Matrix::Matrix(const gguf::Tensor &tensor, bool decode_now)
    : traits_(&quant::traits(tensor.format)), blocks_(tensor.data), rows_(tensor.rows()), columns_(tensor.columns()) {
  if (!decode_now) return;
  decoded_.resize(tiles() * tile_values());
  for (size_t i = 0; i < tiles(); ++i) decode_tile(i, std::span(decoded_).subspan(i * tile_values(), tile_values()));
}

size_t Matrix::tiles() const { return (rows_ + kTileRows - 1) / kTileRows; }
size_t Matrix::tile_values() const { return columns_ * kTileRows; }

std::span<const std::byte> Matrix::row_blocks(size_t index) const {
  const size_t bytes = quant::row_bytes(*traits_, columns_);
  return blocks_.subspan(index * bytes, bytes);
}

void Matrix::decode_tile(size_t tile, std::span<double> to) const {
  const size_t first = tile * kTileRows, n = std::min(kTileRows, rows_ - first);
  std::vector<float> values(columns_);
  std::fill(to.begin(), to.end(), 0.0);
  for (size_t r = 0; r < n; ++r) {
    traits_->decode(row_blocks(first + r).data(), values.data(), columns_);
    for (size_t c = 0; c < columns_; ++c) to[c * kTileRows + r] = values[c];
  }
}

std::vector<double> Matrix::multiply(std::span<const double> x, size_t n) const {
  constexpr size_t kProductsWorthATask = 1 << 18;
  const size_t grain = kProductsWorthATask / (tile_values() * n) + 1;
  std::vector<double> y(n * rows_);
  tbb::parallel_for(tbb::blocked_range<size_t>(0, tiles(), grain), [&](const tbb::blocked_range<size_t> &range) {
    std::vector<double> scratch(decoded_.empty() ? tile_values() : 0);
    for (size_t tile = range.begin(); tile != range.end(); ++tile) {
      const double *w = decoded_.empty() ? scratch.data() : &decoded_[tile * tile_values()];
      if (decoded_.empty()) decode_tile(tile, scratch);
      const size_t first = tile * kTileRows, rows = std::min(kTileRows, rows_ - first);
      for (size_t i = 0; i < n; ++i) {
        const auto sums = multiply_tile(w, &x[i * columns_], columns_);
        std::copy_n(sums.begin(), rows, &y[i * rows_ + first]);
      }
    }
  });
  return y;
}

std::vector<double> Matrix::row(size_t index) const {
  std::vector<float> values(columns_);
  traits_->decode(row_blocks(index).data(), values.data(), columns_);
  return {values.begin(), values.end()};
}

}  // namespace bonsai::reference
