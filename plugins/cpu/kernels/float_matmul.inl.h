// Matrices of floats (F32, F16, BF16, FP8) times float activations. A dot product is 16 lanes over the columns and the
// tree of reduce_add; a few rows and vectors are worked on together so that each load is used more than once, which
// changes no sum. Part of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How a row's weights become floats: a span of kSpan columns, which is what can share a scale, 16 at a time, and what
// is left at the end of a row. Weights lie in the file's mapping, where nothing is aligned. kRows rows are multiplied
// with several vectors at a time; their number is 1 where decoding costs more than the products.
struct F32Weights {
  static constexpr uint64_t kSpan = 16;
  static constexpr int kRows = kMaxTokens > 1 ? kMaxTokens / 2 : 1;
  const float *from;

  static constexpr size_t row_bytes(uint64_t columns) { return columns * 4; }
  F32Weights(const uint8_t *row, uint64_t column) : from(reinterpret_cast<const float *>(row) + column) {}
  F32x16 get(uint64_t) const { return load(from); }
  F32x16 get_partial(size_t n) const { return load_partial(from, n); }
};

struct F16Weights {
  static constexpr uint64_t kSpan = 16;
  static constexpr int kRows = F32Weights::kRows;
  const uint16_t *from;

  static constexpr size_t row_bytes(uint64_t columns) { return columns * 2; }
  F16Weights(const uint8_t *row, uint64_t column) : from(reinterpret_cast<const uint16_t *>(row) + column) {}
  F32x16 get(uint64_t) const { return load_f16(from); }
  F32x16 get_partial(size_t n) const { return load_f16_partial(from, n); }
};

struct BF16Weights : F16Weights {
  using F16Weights::F16Weights;
  F32x16 get(uint64_t) const { return load_bf16(from); }
  F32x16 get_partial(size_t n) const { return load_bf16_partial(from, n); }
};

// A block of 32 codes and a binary16 scale. A code's 4 or fewer significant bits times a scale's 11 are exact in a
// float. Rows have no end that is not a whole block.
struct E5M2Weights {
  static constexpr uint64_t kSpan = 32;
  static constexpr int kRows = 1;
  static constexpr uint64_t kBlockBytes = 34;
  const uint8_t *codes;
  F32x16 scale;

  static constexpr size_t row_bytes(uint64_t columns) { return columns / kSpan * kBlockBytes; }
  E5M2Weights(const uint8_t *row, uint64_t column)
      : codes(row + column / kSpan * kBlockBytes), scale(splat_f16(codes + kSpan)) {}
  F32x16 get(uint64_t column) const { return mul(load_e5m2(codes + column), scale); }
  F32x16 get_partial(size_t) const { return splat(0.0f); }
};

struct E4M3Weights : E5M2Weights {
  static constexpr float kUnit = 256.0f;  // of what load_e4m3 gives
  E4M3Weights(const uint8_t *row, uint64_t column) : E5M2Weights(row, column) { scale = mul(scale, splat(kUnit)); }
  F32x16 get(uint64_t column) const { return mul(load_e4m3(codes + column), scale); }
};

// y for rows [row, row + R) and vectors [token, token + T).
template <class Weights, int R, int T>
void multiply_float_block(const MatmulArgs &args, uint64_t row, uint32_t token) {
  const uint64_t columns = args.matrix->columns;
  const size_t row_bytes = Weights::row_bytes(columns);
  const auto *rows = reinterpret_cast<const uint8_t *>(args.matrix->data) + row * row_bytes;
  const float *x = args.x + token * args.x_stride;
  F32x16 sums[R][T];
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) sums[r][t] = splat(0.0f);
  }
  uint64_t column = 0;
  for (; column + Weights::kSpan <= columns; column += Weights::kSpan) {
#pragma GCC unroll 2
    for (uint64_t i = 0; i < Weights::kSpan; i += 16) {
      F32x16 values[T];
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) values[t] = load(x + t * args.x_stride + column + i);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const F32x16 weight = Weights(rows + r * row_bytes, column).get(i);
#pragma GCC unroll 8
        for (int t = 0; t < T; ++t) sums[r][t] = fma(weight, values[t], sums[r][t]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) {
      if (column < columns) {
        const F32x16 weight = Weights(rows + r * row_bytes, column).get_partial(columns - column);
        const F32x16 value = load_partial(x + t * args.x_stride + column, columns - column);
        sums[r][t] = fma(weight, value, sums[r][t]);
      }
      const F32x16 y = canonical_nan(splat(reduce_add(sums[r][t])));
      store_partial(args.y + (token + t) * args.y_stride + (row + r - args.first_row), y, 1);
    }
  }
}

// R rows at a time, then one by one.
template <class Weights, int R, int T>
void multiply_float_rows(const MatmulArgs &args, uint32_t token) {
  uint64_t row = args.first_row;
  for (; row + R <= args.last_row; row += R) multiply_float_block<Weights, R, T>(args, row, token);
  for (; row < args.last_row; ++row) multiply_float_block<Weights, 1, T>(args, row, token);
}

template <class Weights>
void multiply_floats(const MatmulArgs &args) {
  constexpr int kTokens = Weights::kRows > 1 ? Weights::kRows : kMaxTokens;
  uint32_t token = 0;
  for (; token + kTokens <= args.n; token += kTokens)
    multiply_float_rows<Weights, Weights::kRows, kTokens>(args, token);
  for (; token < args.n; ++token) multiply_float_rows<Weights, 4, 1>(args, token);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
