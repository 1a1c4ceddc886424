// Matrices of floats (F32, F16, BF16) times float activations. A dot product is 16 lanes over the columns and the
// tree of reduce_add; a few rows and vectors are worked on together so that each load is used more than once, which
// changes no sum. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/float_panels.inl.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/prefetch.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How a row's weights become floats: a span of 16 columns, and what is left at the end of a row. Weights lie in the
// file's mapping, where nothing is aligned. Prompts multiply kTokens vectors at a time with a few rows. They take
// pieces of kPiece values of the vectors, a small one where loads are what takes time, which are copied, or lie in
// panels (kFromPanels). kFewestRows, at least, are multiplied with all vectors before the next ones; each may ask for
// the one behind it in the first-level cache (kAsksForNextRows).
struct F32Weights {
  static constexpr int kSums = 12;
  static constexpr int kRows = kMaxTokens > 1 ? kMaxTokens / 2 : 1;
  static constexpr int kTokens = kLaneParts > 1 ? 4 : kRows > 1 ? kRows : kMaxTokens;
  static constexpr uint64_t kPiece = kMaxTokens >= 8 ? 2048 : 4096;
  static constexpr uint64_t kFewestRows = kLaneParts > 1 ? 48 : 16;
  static constexpr bool kAsksForNextRows = false, kFromPanels = false;

  static constexpr size_t row_bytes(uint64_t columns) { return columns * 4; }
  static F32x16 get(const uint8_t *from) { return load(reinterpret_cast<const float *>(from)); }
  static F32x16 get_partial(const uint8_t *from, size_t n) {
    return load_partial(reinterpret_cast<const float *>(from), n);
  }
};

struct F16Weights {
  static constexpr int kSums = F32Weights::kSums;
  static constexpr int kRows = F32Weights::kRows;
  static constexpr int kTokens = F32Weights::kTokens;
  static constexpr uint64_t kPiece = F32Weights::kPiece;
  static constexpr uint64_t kFewestRows = F32Weights::kFewestRows;
  static constexpr bool kAsksForNextRows = false, kFromPanels = false;

  static constexpr size_t row_bytes(uint64_t columns) { return columns * 2; }
  static F32x16 get(const uint8_t *from) { return load_f16(reinterpret_cast<const uint16_t *>(from)); }
  static F32x16 get_partial(const uint8_t *from, size_t n) {
    return load_f16_partial(reinterpret_cast<const uint16_t *>(from), n);
  }
};

struct BF16Weights : F16Weights {
  static F32x16 get(const uint8_t *from) { return load_bf16(reinterpret_cast<const uint16_t *>(from)); }
  static F32x16 get_partial(const uint8_t *from, size_t n) {
    return load_bf16_partial(reinterpret_cast<const uint16_t *>(from), n);
  }
};

// Rows that are multiplied with T vectors at a time. Where lanes come in parts, kSums sums of a part: eight hide the
// time that a fma takes, and twelve are what 16 registers hold beside weights.
template <class Weights, int T>
constexpr int rows_at_once() {
  return kLaneParts == 1 ? Weights::kRows : std::min(Weights::kSums / T, 4);
}

template <class Weights, int R>
[[gnu::always_inline]] inline void get_rows(const uint8_t *from, size_t row_bytes, F32x16 (&to)[R]) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) to[r] = Weights::get(from + r * row_bytes);
}

// A span of R rows is asked for when the span `distance` bytes before is worked on.
template <class Weights, int R>
[[gnu::always_inline]] inline void prefetch_rows(const uint8_t *from, size_t row_bytes, size_t distance) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) prefetch_at<Weights>(reinterpret_cast<uintptr_t>(from) + distance + r * row_bytes, 1);
}

inline void store_result(const MatmulArgs &args, uint64_t row, uint32_t token, F32x16 y, size_t n) {
  store_partial(args.y + token * args.y_stride + (row - args.first_row), canonical_nan(y), n);
}

// -------- One vector, or a few: memory is what takes time

// R rows, `apart` bytes from each other, and what is read behind them: as many, apart in their own way.
struct RowsOfStreams {
  uint64_t row, rows_apart;
  uintptr_t behind;  // an address: there need not be anything
  size_t behind_apart;
};

// Into the first-level cache rows are asked for once. Into the second it is the span R rows on, and again a little
// ahead, as requests get lost (prefetch.inl.h).
template <class Weights, int R>
[[gnu::always_inline]] inline void prefetch_ahead(const uint8_t *from, size_t apart, size_t left_bytes,
                                                  const RowsOfStreams &rows) {
  if constexpr (kIntoFirstLevel<Weights>) {
    constexpr size_t kAhead = 2048;
    const bool is_here = left_bytes > kAhead;
    const uintptr_t at = is_here ? reinterpret_cast<uintptr_t>(from) + kAhead : rows.behind + (kAhead - left_bytes);
    const size_t stride = is_here ? apart : rows.behind_apart;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) prefetch_at<Weights>(at + r * stride, 1);
  } else {
    prefetch_rows<Weights, R>(from, apart, R * apart);
    prefetch_rows<Weights, R>(from, apart, 768);
  }
}

// y for R rows and T vectors.
template <class Weights, int R, int T>
void multiply_vectors_by_rows(const MatmulArgs &args, const RowsOfStreams &rows, uint32_t token) {
  const uint64_t columns = args.matrix->columns;
  const size_t row_bytes = Weights::row_bytes(columns), apart = rows.rows_apart * row_bytes;
  const auto *from = reinterpret_cast<const uint8_t *>(args.matrix->data) + rows.row * row_bytes;
  const float *x = args.x + token * args.x_stride;
  F32x16 sums[T][R];
  for (auto &of_vector : sums) {
    for (F32x16 &sum : of_vector) sum = splat(0.0f);
  }
  uint64_t left = columns;
  for (; left >= kSpan; left -= kSpan) {
    F32x16 weights[R];
    get_rows<Weights, R>(from, apart, weights);
    prefetch_ahead<Weights, R>(from, apart, Weights::row_bytes(left), rows);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const F32x16 value = load(x + t * args.x_stride);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sums[t][r] = fma(weights[r], value, sums[t][r]);
    }
    from += Weights::row_bytes(kSpan);
    x += kSpan;
  }
  for (int r = 0; r < R; ++r) {
    for (int t = 0; t < T; ++t) {
      if (left > 0) {
        const F32x16 value = load_partial(x + t * args.x_stride, left);
        sums[t][r] = fma(Weights::get_partial(from + r * apart, left), value, sums[t][r]);
      }
      store_result(args, rows.row + r * rows.rows_apart, token + t, splat(reduce_add(sums[t][r])), 1);
    }
  }
}

constexpr int kRowStreams = 4;

// Rows that follow each other in each of four streams of memory, which are read faster than one, before all streams go
// on behind the last one (docs/cpu-decoding.md, "Long streams"): at least so many bytes. Elsewhere rows that are read
// together follow each other.
template <class Weights>
uint64_t rows_of_stream(uint64_t rows_left, uint64_t columns) {
  constexpr size_t kBytes = 128 * 1024;
  const uint64_t most = kIntoFirstLevel<Weights> ? kBytes / Weights::row_bytes(columns) + 1 : 1;
  return std::min(most, rows_left / kRowStreams);
}

template <class Weights, int T>
void multiply_vectors_by_all_rows(const MatmulArgs &args, uint64_t row, uint64_t last_row, uint32_t token) {
  const size_t row_bytes = Weights::row_bytes(args.matrix->columns);
  const auto address_of = [&](uint64_t of) { return reinterpret_cast<uintptr_t>(args.matrix->data) + of * row_bytes; };
  while (const uint64_t n = rows_of_stream<Weights>(last_row - row, args.matrix->columns)) {
    const uint64_t end = row + kRowStreams * n, then = rows_of_stream<Weights>(last_row - end, args.matrix->columns);
    for (uint64_t i = 0; i < n; ++i, ++row) {
      const bool is_last = i + 1 == n;
      const RowsOfStreams rows = {row, n, address_of(is_last ? end : row + 1), (is_last ? then : n) * row_bytes};
      multiply_vectors_by_rows<Weights, kRowStreams, T>(args, rows, token);
    }
    row = end;
  }
  for (; row < last_row; ++row) multiply_vectors_by_rows<Weights, 1, T>(args, {row, 1, address_of(row + 1), 0}, token);
}

template <class Weights>
void multiply_vector(const MatmulArgs &args, uint64_t row, uint64_t last_row, uint32_t token) {
  with_requests_into_cache<Weights>(args.prefetch, [&](auto asking) {
    multiply_vectors_by_all_rows<decltype(asking), 1>(args, row, last_row, token);
  });
}

// -------- Several vectors: the arithmetic is

// What is worked on while some rows are multiplied with T vectors: a piece of these, which stays in the first-level
// cache, and the lanes of all sums so far, twice as many bytes.
template <class Weights, int T>
struct FloatPiece {
  static constexpr uint64_t kValues = Weights::kPiece;
  static constexpr uint64_t kColumns = kValues / T;
  static constexpr uint64_t kRows = kValues / 8 / T;

  uint64_t first_column, columns;
  size_t distance;                                       // to the row that is asked for meanwhile
  const float *x;                                        // (spans, T, kSpan), filled up with zeros
  alignas(kPackedAlignment) float sums[kRows * T * 16];  // (kRows, T, 16)
  alignas(kPackedAlignment) float copy[Weights::kFromPanels ? 1 : kColumns * T];

  void take(const MatmulArgs &args, uint32_t token, uint64_t column) {
    first_column = column;
    columns = std::min(kColumns, args.matrix->columns - column);
    if constexpr (Weights::kFromPanels) {
      x = float_panel(reinterpret_cast<const float *>(args.panels), args.matrix->columns, token) + column * T;
    } else {
      put_side_by_side<T>(args.x + token * args.x_stride + column, args.x_stride, columns, copy);
      x = copy;
    }
  }
};

// R rows of weights, from a piece's first column on.
template <class Weights, int R>
struct RowsOfPiece {
  const uint8_t *from;
  size_t row_bytes;

  template <int kPart>
  [[gnu::always_inline]] void get(Lanes (&to)[R]) const {
    F32x16 weights[R];
    get_rows<Weights, R>(from, row_bytes, weights);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) to[r] = part<kPart>(weights[r]);
  }

  // Of what is left at the end, fewer than 16 columns.
  template <int kPart>
  void get_partial(size_t columns, Lanes (&to)[R]) const {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) to[r] = part<kPart>(Weights::get_partial(from + r * row_bytes, columns));
  }
};

// Asks for what lies `ahead` of a span of R rows in the first-level cache, where there need not be anything.
template <int R>
[[gnu::always_inline]] inline void prefetch_into_first_level(const uint8_t *from, size_t row_bytes, size_t ahead) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(from) + ahead;
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) __builtin_prefetch(reinterpret_cast<const void *>(at + r * row_bytes), 0, 3);
}

// Adds the products of R rows in some of the lanes to `sums`, (R, T, 16).
template <class Weights, int kPart, int R, int T>
[[gnu::always_inline]] inline void multiply_part(RowsOfPiece<Weights, R> rows, FloatPiece<Weights, T> &piece,
                                                 float *sums) {
  constexpr int kFirst = kPart * 16 / kLaneParts;  // lane
  Lanes y[R][T];
  if (piece.first_column == 0) {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) y[r][t] = splat_lanes(0.0f);
    }
  } else {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int t = 0; t < T; ++t) y[r][t] = load_lanes(sums + (r * T + t) * 16 + kFirst);
    }
  }
  const float *x = piece.x + kFirst;
  uint64_t left = piece.columns;
#pragma GCC unroll 1
  for (; left >= kSpan; left -= kSpan) {
    Lanes weights[R];
    rows.template get<kPart>(weights);
    // The first of two passes over a piece's rows, beyond the piece's end too.
    if constexpr (kPart == 0 && kLaneParts > 1) prefetch_into_first_level<R>(rows.from, rows.row_bytes, 128);
    if constexpr (Weights::kAsksForNextRows)
      prefetch_into_first_level<R>(rows.from, rows.row_bytes, R * rows.row_bytes);
    if constexpr (kPart == kLaneParts - 1) prefetch_rows<Weights, R>(rows.from, rows.row_bytes, piece.distance);
#pragma GCC unroll 16
    for (int t = 0; t < T; ++t, x += 16) {
      Lanes value = load_lanes(x);
      hold_lanes(value);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) y[r][t] = fma(weights[r], value, y[r][t]);
    }
    rows.from += Weights::row_bytes(kSpan);
  }
  if (left > 0) {
    Lanes weights[R];
    rows.template get_partial<kPart>(left, weights);
#pragma GCC unroll 16
    for (int t = 0; t < T; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) y[r][t] = fma(weights[r], load_lanes(x + 16 * t), y[r][t]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
    for (int t = 0; t < T; ++t) store_lanes(sums + (r * T + t) * 16 + kFirst, y[r][t]);
  }
}

// Adds the products of rows [first, first + R) of the block that begins with `row`.
template <class Weights, int R, int T>
void multiply_float_piece(const MatmulArgs &args, uint64_t row, uint64_t first, FloatPiece<Weights, T> &piece) {
  const size_t row_bytes = Weights::row_bytes(args.matrix->columns);
  const RowsOfPiece<Weights, R> rows = {reinterpret_cast<const uint8_t *>(args.matrix->data) +
                                            (row + first) * row_bytes + Weights::row_bytes(piece.first_column),
                                        row_bytes};
  float *const sums = piece.sums + first * T * 16;
  multiply_part<Weights, 0, R, T>(rows, piece, sums);
  if constexpr (kLaneParts > 1) multiply_part<Weights, 1, R, T>(rows, piece, sums);
}

// Rows [row, last_row), as many as a piece has at most, times T vectors.
template <class Weights, int T>
void multiply_float_block(const MatmulArgs &args, uint64_t row, uint64_t last_row, uint32_t token, size_t distance) {
  const uint64_t rows = last_row - row;
  FloatPiece<Weights, T> piece;
  piece.distance = distance;
  // reduce_add_each takes 16 rows.
  for (uint64_t i = rows; i % 16 != 0; ++i) memset(piece.sums + i * T * 16, 0, T * 16 * sizeof *piece.sums);
  for (uint64_t column = 0; column < args.matrix->columns; column += piece.kColumns) {
    piece.take(args, token, column);
    constexpr int kRows = rows_at_once<Weights, T>();
    uint64_t i = 0;
    for (; i + kRows <= rows; i += kRows) multiply_float_piece<Weights, kRows, T>(args, row, i, piece);
    for (; i < rows; ++i) multiply_float_piece<Weights, 1, T>(args, row, i, piece);
  }
  for (uint64_t i = 0; i < rows; i += 16) {
    for (int t = 0; t < T; ++t) {
      const F32x16 y = reduce_add_each(piece.sums + (i * T + t) * 16, T * 16);
      store_result(args, row + i, token + t, y, std::min<uint64_t>(16, rows - i));
    }
  }
}

// Vectors from `token` on: T at a time, then half as many, and so on. With the last of them, the next block's rows are
// asked for.
template <class Weights, int T>
void multiply_float_tokens(const MatmulArgs &args, uint64_t row, uint64_t last_row, uint32_t token) {
  const size_t to_next_block = (last_row - row) * Weights::row_bytes(args.matrix->columns);
  for (; token + T <= args.n; token += T) {
    multiply_float_block<Weights, T>(args, row, last_row, token, token + T == args.n ? to_next_block : 0);
  }
  if (token == args.n) return;
  if constexpr (T > 2) {
    multiply_float_tokens<Weights, T / 2>(args, row, last_row, token);
  } else {
    multiply_vector<Weights>(args, row, last_row, token);
  }
}

// Rows that are multiplied with all vectors before the next ones: as many as stay in the second-level cache, but so
// many that the copies of pieces are worth their while, and no row is left over that would be multiplied by itself.
// From panels it is always as many as there is room for sums: weights may come from the third level.
template <class Weights>
uint64_t rows_of_block(uint64_t columns) {
  constexpr uint64_t kMost = FloatPiece<Weights, Weights::kTokens>::kRows;
  constexpr uint64_t kFewest = std::min(Weights::kFewestRows, kMost);
  constexpr uint64_t kGroup = kLaneParts > 1 ? rows_at_once<Weights, Weights::kTokens>() : 16;
  constexpr size_t kBytes = (kMaxTokens >= 8 ? 512 : 256) * 1024;
  return std::clamp(kBytes / Weights::row_bytes(columns), kFewest, kMost) / kGroup * kGroup;
}

// All rows, in streams, times the call's vectors from `token` on, which are T or fewer, and at least two: each row is
// read once.
template <class Weights, int T>
void multiply_in_streams(const MatmulArgs &args, uint32_t token) {
  using Streams = Asking<Weights, Prefetch::kFirstLevel>;
  if constexpr (T > 2) {
    if (args.n - token < T) return multiply_in_streams<Weights, T - 1>(args, token);
  }
  multiply_vectors_by_all_rows<Streams, T>(args, args.first_row, args.last_row, token);
}

// The same for the call's vectors, if they are few and rows go in streams; otherwise nothing, and false. Seven at once
// would leave the first-level cache, and their sums the registers.
template <class Weights>
bool multiply_few_vectors(const MatmulArgs &args) {
  if constexpr (kMaxTokens >= 8) {
    constexpr int kMost = 6;
    if (args.prefetch != Prefetch::kFirstLevel || args.n < 2 || args.n > kMost + 1) return false;
    if (args.n <= kMost) {
      multiply_in_streams<Weights, kMost>(args, 0);
    } else {
      multiply_vectors_by_all_rows<Asking<Weights, Prefetch::kFirstLevel>, 4>(args, args.first_row, args.last_row, 0);
      multiply_in_streams<Weights, 3>(args, 4);
    }
    return true;
  }
  return false;
}

template <class Weights>
void multiply_floats(const MatmulArgs &args) {
  if constexpr (Weights::kTokens > 1) {
    if (multiply_few_vectors<Weights>(args)) return;
    if (args.n > 1) {
      const uint64_t block = rows_of_block<Weights>(args.matrix->columns);
      for (uint64_t row = args.first_row; row < args.last_row; row += block) {
        multiply_float_tokens<Weights, Weights::kTokens>(args, row, std::min(row + block, args.last_row), 0);
      }
      return;
    }
  }
  for (uint32_t token = 0; token < args.n; ++token) {
    multiply_vector<Weights>(args, args.first_row, args.last_row, token);
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
