// Matrices of floats (F32, F16, BF16, FP8) times float activations. A dot product is 16 lanes over the columns and the
// tree of reduce_add; a few rows and vectors are worked on together so that each load is used more than once, which
// changes no sum. Part of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How a row's weights become floats: a span of kSpan columns, which is what can share a scale, as vectors, and what is
// left at the end of a row. Weights lie in the file's mapping, where nothing is aligned. kRows rows are multiplied with
// kTokens vectors at a time: where decoding costs much, one row with more vectors.
struct F32Weights {
  static constexpr uint64_t kSpan = 16;
  static constexpr int kRows = kMaxTokens > 1 ? kMaxTokens / 2 : 1;
  static constexpr int kTokens = kRows > 1 ? kRows : kMaxTokens;

  static constexpr size_t row_bytes(uint64_t columns) { return columns * 4; }
  static void get(const uint8_t *from, F32x16 (&to)[1]) { to[0] = load(reinterpret_cast<const float *>(from)); }
  static F32x16 get_partial(const uint8_t *from, size_t n) {
    return load_partial(reinterpret_cast<const float *>(from), n);
  }
};

struct F16Weights {
  static constexpr uint64_t kSpan = 16;
  static constexpr int kRows = F32Weights::kRows;
  static constexpr int kTokens = F32Weights::kTokens;

  static constexpr size_t row_bytes(uint64_t columns) { return columns * 2; }
  static void get(const uint8_t *from, F32x16 (&to)[1]) { to[0] = load_f16(reinterpret_cast<const uint16_t *>(from)); }
  static F32x16 get_partial(const uint8_t *from, size_t n) {
    return load_f16_partial(reinterpret_cast<const uint16_t *>(from), n);
  }
};

struct BF16Weights : F16Weights {
  static void get(const uint8_t *from, F32x16 (&to)[1]) { to[0] = load_bf16(reinterpret_cast<const uint16_t *>(from)); }
  static F32x16 get_partial(const uint8_t *from, size_t n) {
    return load_bf16_partial(reinterpret_cast<const uint16_t *>(from), n);
  }
};

// A block of 32 codes and a binary16 scale. A code's 4 or fewer significant bits times a scale's 11 are exact in a
// float. Rows have no end that is not a whole block.
struct E5M2Weights {
  static constexpr uint64_t kSpan = 32;
  static constexpr int kRows = 1;
  static constexpr int kTokens = kMaxTokens;
  static constexpr uint64_t kBlockBytes = 34;

  static constexpr size_t row_bytes(uint64_t columns) { return columns / kSpan * kBlockBytes; }
  static void get(const uint8_t *from, F32x16 (&to)[2]) {
    const F32x16 scale = splat_f16(from + kSpan);
    load_e5m2(from, to);
    for (F32x16 &weights : to) weights = mul(weights, scale);
  }
  static F32x16 get_partial(const uint8_t *, size_t) { return splat(0.0f); }
};

struct E4M3Weights : E5M2Weights {
  static constexpr float kUnit = 256.0f;  // of what load_e4m3 gives
  static void get(const uint8_t *from, F32x16 (&to)[2]) {
    const F32x16 scale = mul(splat_f16(from + kSpan), splat(kUnit));
    load_e4m3(from, to);
    for (F32x16 &weights : to) weights = mul(weights, scale);
  }
};

// With one vector, memory is what takes time: the same place in the rows that come next, for the second-level cache.
// Always inline: GCC drops calls of functions that do nothing else.
[[gnu::always_inline]] inline void prefetch_next_rows(const uint8_t *from, size_t distance) {
  __builtin_prefetch(from + distance, 0, 1);
}

// y for rows [row, row + R) and vectors [token, token + T).
template <class Weights, int R, int T>
void multiply_float_block(const MatmulArgs &args, uint64_t row, uint32_t token) {
  constexpr int kVectors = Weights::kSpan / 16;
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
    F32x16 weights[R][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const uint8_t *from = rows + r * row_bytes + Weights::row_bytes(column);
      Weights::get(from, weights[r]);
      if constexpr (T == 1) prefetch_next_rows(from, R * row_bytes);
    }
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) {
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) {
        const F32x16 value = load(x + t * args.x_stride + column + 16 * i);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sums[r][t] = fma(weights[r][i], value, sums[r][t]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) {
      if (column < columns) {
        const F32x16 weight = Weights::get_partial(rows + r * row_bytes + Weights::row_bytes(column), columns - column);
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

// kTokens vectors at a time, then half as many, then one by one.
template <class Weights>
void multiply_floats(const MatmulArgs &args) {
  constexpr int kTokens = Weights::kTokens;
  uint32_t token = 0;
  for (; token + kTokens <= args.n; token += kTokens)
    multiply_float_rows<Weights, Weights::kRows, kTokens>(args, token);
  if constexpr (kTokens > 2) {
    if (token + kTokens / 2 <= args.n) {
      multiply_float_rows<Weights, Weights::kRows, kTokens / 2>(args, token);
      token += kTokens / 2;
    }
  }
  for (; token < args.n; ++token) multiply_float_rows<Weights, 4, 1>(args, token);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
