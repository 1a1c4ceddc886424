// Matrices of floats (F32, F16, BF16) times float activations. A dot product is 16 lanes over the columns and the tree
// of reduce_add; a few rows and vectors are worked on together so that each load is used more than once, which changes
// no sum. Part of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How 16 weights become floats. Weights lie in the file's mapping, where nothing is aligned.
struct F32Weights {
  using Element = float;
  static F32x16 get(const float *from) { return load(from); }
  static F32x16 get_partial(const float *from, size_t n) { return load_partial(from, n); }
};

struct F16Weights {
  using Element = uint16_t;
  static F32x16 get(const uint16_t *from) { return load_f16(from); }
  static F32x16 get_partial(const uint16_t *from, size_t n) { return load_f16_partial(from, n); }
};

struct BF16Weights {
  using Element = uint16_t;
  static F32x16 get(const uint16_t *from) { return load_bf16(from); }
  static F32x16 get_partial(const uint16_t *from, size_t n) { return load_bf16_partial(from, n); }
};

// y for rows [row, row + R) and vectors [token, token + T).
template <class Weights, int R, int T>
void multiply_float_block(const MatmulArgs &args, uint64_t row, uint32_t token) {
  const uint64_t columns = args.matrix->columns;
  const auto *weights = reinterpret_cast<const typename Weights::Element *>(args.matrix->data) + row * columns;
  const float *x = args.x + token * args.x_stride;
  F32x16 sums[R][T];
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) sums[r][t] = splat(0.0f);
  }
  uint64_t column = 0;
  for (; column + 16 <= columns; column += 16) {
    F32x16 values[T];
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) values[t] = load(x + t * args.x_stride + column);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const F32x16 weight = Weights::get(weights + r * columns + column);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) sums[r][t] = fma(weight, values[t], sums[r][t]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) {
      if (column < columns) {
        const F32x16 weight = Weights::get_partial(weights + r * columns + column, columns - column);
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
  constexpr int kTokens = kMaxTokens > 1 ? kMaxTokens / 2 : 1;
  uint32_t token = 0;
  for (; token + kTokens <= args.n; token += kTokens) multiply_float_rows<Weights, kTokens, kTokens>(args, token);
  for (; token < args.n; ++token) multiply_float_rows<Weights, 4, 1>(args, token);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
