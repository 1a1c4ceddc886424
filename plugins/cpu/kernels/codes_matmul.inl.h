// Matrices of integer codes times int8 activations: y = W x for 16 rows and up to kMaxTokens vectors at a time. Lane =
// row, so the sum over groups stays in order. A tile's bytes (1 to 8 bits a weight) are read once for each block of
// tokens; the tokens' codes stay in the cache. Part of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A format: weight = (kMultiplier * code - kOffset) * scale, codes unsigned but for 8 bits.
template <int kBitsValue, int kGroupValue, int kMultiplierShiftValue, int kOffsetValue>
struct Codes {
  static constexpr int kBits = kBitsValue;
  static constexpr int kGroup = kGroupValue;
  static constexpr int kMultiplierShift = kMultiplierShiftValue;
  static constexpr int kOffset = kOffsetValue;
  static constexpr int kSteps = 8 / kBits;              // runs of 4 columns in a vector of codes
  static constexpr int kVectors = kGroup * kBits / 32;  // vectors of codes in a group
};
using Q8_0Codes = Codes<8, 32, 0, kSignedDotBias>;
using Q4_0Codes = Codes<4, 32, 0, 8>;
using Q1_0G128Codes = Codes<1, 128, 1, 1>;
using TQ2_0G128Codes = Codes<2, 128, 0, 1>;
using Q2_0G64Codes = Codes<2, 64, 0, 1>;

// One part of the work: a tile, and T consecutive rows of quantised activations.
struct TileView {
  const uint16_t *scales;  // (groups, 16)
  const uint8_t *codes;    // (groups, vectors, 64)
  uint64_t groups;
};

template <int T>
struct TokenView {
  const int8_t *codes[T];
  const float *scales[T];
  const int32_t *sums[T];
};

// Several tokens: each step's codes are shifted into place once and used T times.
template <class Format, int T>
void dot_group(const uint8_t *codes, const TokenView<T> &tokens, size_t column, I32x16 (&dots)[T]) {
  const Bytes64 mask = splat_byte((1 << Format::kBits) - 1);
  DotSum sums[T];
  for (int t = 0; t < T; ++t) sums[t] = zero_dot_sum();
#pragma GCC unroll 8
  for (int v = 0; v < Format::kVectors; ++v) {
    Bytes64 bytes = load_bytes(codes + 64 * v);
#pragma GCC unroll 8
    for (int step = 0; step < Format::kSteps; ++step) {
      const Bytes64 step_codes = bit_and(bytes, mask);
      bytes = shift_right_bytes<Format::kBits>(bytes);
      const size_t at = column + 4 * (v * Format::kSteps + step);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) sums[t] = dot4(sums[t], step_codes, splat_4_bytes(tokens.codes[t] + at));
    }
  }
  for (int t = 0; t < T; ++t) dots[t] = add_dot_sum<0>(splat_i32(0), sums[t]);
}

// Codes of 8 bits are the step.
template <class Format, int T>
requires(Format::kBits == 8) void dot_group(const uint8_t *codes, const TokenView<T> &tokens, size_t column,
                                            I32x16 (&dots)[T]) {
  for (int t = 0; t < T; ++t) dots[t] = splat_i32(0);
#pragma GCC unroll 8
  for (int v = 0; v < Format::kVectors; ++v) {
    const Bytes64 weights = load_bytes(codes + 64 * v);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      dots[t] = dot4_signed(dots[t], weights, splat_4_bytes(tokens.codes[t] + column + 4 * v));
    }
  }
}

// One token and codes of 1 or 2 bits: every second step's codes stay where they are and their sum is scaled at the end,
// which saves half of the shifts. Four vectors are what the sums can hold (see dot4).
template <class Format>
requires(Format::kBits <= 2) void dot_group(const uint8_t *codes, const TokenView<1> &token, size_t column,
                                            I32x16 (&dots)[1]) {
  constexpr int kVectorsAtOnce = 4;
  static_assert(Format::kVectors % kVectorsAtOnce == 0);
  const Bytes64 even = splat_byte((1 << Format::kBits) - 1);
  const Bytes64 odd = splat_byte(((1 << Format::kBits) - 1) << Format::kBits);
  const int8_t *x = token.codes[0] + column;
  I32x16 scaled = splat_i32(0);
  for (int first = 0; first < Format::kVectors; first += kVectorsAtOnce) {
    DotSum even_sum = zero_dot_sum();
    DotSum odd_sum = zero_dot_sum();
#pragma GCC unroll 4
    for (int v = first; v < first + kVectorsAtOnce; ++v) {
      Bytes64 bytes = load_bytes(codes + 64 * v);
#pragma GCC unroll 4
      for (int step = 0; step < Format::kSteps; step += 2, x += 8) {
        even_sum = dot4(even_sum, bit_and(bytes, even), splat_4_bytes(x));
        odd_sum = dot4(odd_sum, bit_and(bytes, odd), splat_4_bytes(x + 4));
        bytes = shift_right_bytes<2 * Format::kBits>(bytes);
      }
    }
    scaled = add_dot_sum<Format::kBits>(scaled, even_sum);
    scaled = add_dot_sum<0>(scaled, odd_sum);
  }
  dots[0] = shift_right<Format::kBits>(scaled);
}

// How far ahead codes are asked for; behind the end of a tile lies the next one. Left to the hardware, one-bit weights
// in memory come at 0.7 times the speed (Zen 3).
constexpr size_t kPrefetchBytes = 3072;

template <class Format, int T>
void multiply_tile(const TileView &tile, const TokenView<T> &tokens, F32x16 (&y)[T]) {
  for (int t = 0; t < T; ++t) y[t] = splat(0.0f);
  for (uint64_t group = 0; group < tile.groups; ++group) {
    const uint8_t *codes = tile.codes + group * Format::kVectors * 64;
    for (int v = 0; v < Format::kVectors; ++v) __builtin_prefetch(codes + 64 * v + kPrefetchBytes);
    I32x16 dots[T];
    dot_group<Format>(codes, tokens, group * Format::kGroup, dots);
    const F32x16 weight_scale = load_f16(tile.scales + group * kTileRows);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      const I32x16 offset = splat_i32(Format::kOffset * tokens.sums[t][group]);
      const F32x16 isum = to_f32(sub(shift_left<Format::kMultiplierShift>(dots[t]), offset));
      y[t] = fma(isum, mul(weight_scale, splat(tokens.scales[t][group])), y[t]);
    }
  }
  for (int t = 0; t < T; ++t) y[t] = canonical_nan(y[t]);
}

// The lanes [first, last) of a tile, to consecutive elements.
inline void store_lanes(float *to, F32x16 y, uint64_t first, uint64_t last) {
  if (first == 0) return store_partial(to, y, last);
  float lanes[16];
  store(lanes, y);
  memcpy(to, lanes + first, (last - first) * sizeof(float));
}

// A matmul with its sizes worked out.
struct CodesWork {
  const MatmulArgs &args;
  uint64_t columns;
  uint64_t groups;
  size_t scales_bytes;
  size_t tile_bytes;
  size_t token_bytes;

  TileView tile(uint64_t index) const {
    const std::byte *data = args.matrix->data + index * tile_bytes;
    return {reinterpret_cast<const uint16_t *>(data), reinterpret_cast<const uint8_t *>(data) + scales_bytes, groups};
  }

  template <int T>
  TokenView<T> tokens(uint32_t first) const {
    TokenView<T> view;
    for (int t = 0; t < T; ++t) {
      const std::byte *row = args.quantized_rows + (first + t) * token_bytes;
      view.codes[t] = reinterpret_cast<const int8_t *>(row);
      view.scales[t] = reinterpret_cast<const float *>(row + columns);
      view.sums[t] = reinterpret_cast<const int32_t *>(row + columns) + groups;
    }
    return view;
  }
};

// Tokens [token, last) of one tile: T at a time, then what is left with fewer.
template <class Format, int T>
void multiply_tokens(const CodesWork &work, uint64_t tile, uint32_t token, uint32_t last) {
  const MatmulArgs &args = work.args;
  const uint64_t tile_row = tile * kTileRows;
  const uint64_t first_lane = args.first_row > tile_row ? args.first_row - tile_row : 0;
  const uint64_t last_lane = args.last_row < tile_row + kTileRows ? args.last_row - tile_row : kTileRows;
  const uint64_t column = tile_row + first_lane - args.first_row;  // of y
  for (; token + T <= last; token += T) {
    F32x16 y[T];
    multiply_tile<Format>(work.tile(tile), work.tokens<T>(token), y);
    for (int t = 0; t < T; ++t) {
      store_lanes(args.y + (token + t) * args.y_stride + column, y[t], first_lane, last_lane);
    }
  }
  if constexpr (T > 1) {
    if (token < last) multiply_tokens<Format, T / 2>(work, tile, token, last);
  }
}

// Tokens whose codes fit in half of a usual second-level cache; the other half is for the tile.
constexpr size_t kTokenBlockBytes = 192 * 1024;

template <class Format>
void multiply_codes(const MatmulArgs &args) {
  const uint64_t columns = args.matrix->columns;
  const uint64_t groups = columns / Format::kGroup;
  const size_t scales_bytes = (groups * kTileRows * sizeof(uint16_t) + 63) / 64 * 64;
  const CodesWork work = {.args = args,
                          .columns = columns,
                          .groups = groups,
                          .scales_bytes = scales_bytes,
                          .tile_bytes = scales_bytes + groups * Format::kVectors * 64,
                          .token_bytes = quantized_row_bytes({Format::kGroup, Format::kBits}, columns)};
  const uint32_t fitting = static_cast<uint32_t>(kTokenBlockBytes / work.token_bytes) / kMaxTokens * kMaxTokens;
  const uint32_t block = fitting > 0 ? fitting : kMaxTokens;
  for (uint32_t first = 0; first < args.n; first += block) {
    const uint32_t last = args.n - first < block ? args.n : first + block;
    for (uint64_t tile = args.first_row / kTileRows; tile * kTileRows < args.last_row; ++tile) {
      multiply_tokens<Format, kMaxTokens>(work, tile, first, last);
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
