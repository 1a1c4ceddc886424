// How activations are packed for a product, by whichever kernel does it: read plain, normed or gated, then brought to
// the forms that the weights take (activation_arguments.h). A warp packs 128 columns at a time, four in each lane. The
// results do not depend on how many warps a block has.
#pragma once

#include "activation_arguments.h"
#include "matrix_layout.h"
#include "simt.cuh"

namespace bonsai::cuda {

constexpr uint32_t kInfinityBits = 0x7F800000;
constexpr uint32_t kNaNBits = 0x7FC00000;
constexpr uint32_t kSmallestAmaxBits = 0x04800000;  // 2^-118
constexpr uint32_t kLaneColumns = 4;
constexpr uint32_t kWarpColumns = kWarp * kLaneColumns;
static_assert(kWarpColumns == 128);

struct alignas(16) FourFloats {
  float of[kLaneColumns];
};

// Four of a row's n floats from `column` on, zeros behind its end.
__device__ inline FourFloats load_four(const float *row, uint32_t column, uint32_t n) {
  const float *from = row + column;
  if (column + kLaneColumns <= n && reinterpret_cast<size_t>(from) % sizeof(FourFloats) == 0) {
    return *reinterpret_cast<const FourFloats *>(from);
  }
  FourFloats four;
#pragma unroll
  for (uint32_t i = 0; i < kLaneColumns; ++i) four.of[i] = column + i < n ? from[i] : 0.0f;
  return four;
}

__device__ inline uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

// The bits of the largest magnitude. As integers, magnitudes are ordered: finite, infinite, NaN.
__device__ inline uint32_t amax_bits(const FourFloats &x) {
  uint32_t largest = 0;
#pragma unroll
  for (uint32_t i = 0; i < kLaneColumns; ++i) largest = larger(largest, float_to_bits(x.of[i]) & 0x7FFFFFFF);
  return largest;
}

// silu(gate) * up
__device__ inline float gated(float gate, float up) {
  constexpr float kLog2E = 1.44269504f;
  return divide(gate, 1.0f + exp2_fast(-gate * kLog2E)) * up;
}

// -------- What is packed. A source has `columns`, and four numbers from a column on.

struct Plain {
  const float *x;  // (columns)
  uint32_t columns;

  __device__ FourFloats at(uint32_t column) const { return load_four(x, column, columns); }
};

struct Normed {
  const float *x, *weight;  // (columns)
  uint32_t columns;
  float scale;  // 1 / sqrt(mean(x^2) + eps)

  __device__ FourFloats at(uint32_t column) const {
    return of(load_four(x, column, columns), load_four(weight, column, columns));
  }
  __device__ FourFloats of(const FourFloats &numbers, const FourFloats &weights) const {
    FourFloats y;
#pragma unroll
    for (uint32_t i = 0; i < kLaneColumns; ++i) y.of[i] = numbers.of[i] * scale * weights.of[i];
    return y;
  }
};

// Of which a lane has a column's four already.
struct HeldNormed {
  Normed row;
  uint32_t held_column;
  FourFloats numbers, weights;

  __device__ FourFloats at(uint32_t column) const {
    return column == held_column ? row.of(numbers, weights) : row.at(column);
  }
};

struct Gated {
  const float *gate, *up;  // (columns)
  uint32_t columns;

  __device__ FourFloats at(uint32_t column) const {
    const FourFloats gates = load_four(gate, column, columns), ups = load_four(up, column, columns);
    FourFloats y;
#pragma unroll
    for (uint32_t i = 0; i < kLaneColumns; ++i) y.of[i] = gated(gates.of[i], ups.of[i]);
    return y;
  }
};

// -------- Over the whole block

// Sums over a row are made by this many warps' worth of lanes, however many warps there are: the order is pinned.
constexpr uint32_t kSumWarps = 8;

__device__ inline uint32_t block_warps() { return block_threads() / kWarp; }

__device__ inline float sum_of_warp(float value) {
#pragma unroll
  for (uint32_t distance = kWarp / 2; distance > 0; distance /= 2) value += shuffle_xor(value, distance);
  return value;
}

// 1 / sqrt(mean(x^2) + eps) over x (n), for all threads of the block.
__device__ inline float norm_scale(const float *x, uint32_t n, float eps) {
  BONSAI_SHARED float sums[kSumWarps];
  constexpr uint32_t kAtOnce = 4, kStride = kSumWarps * kWarpColumns;  // loads that are on their way together
  for (uint32_t part = warp(); part < kSumWarps; part += block_warps()) {
    float squares = 0;
    for (uint32_t first = part * kWarpColumns + lane() * kLaneColumns; first < n; first += kAtOnce * kStride) {
      FourFloats fours[kAtOnce] = {};
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce; ++i) {
        if (first + i * kStride < n) fours[i] = load_four(x, first + i * kStride, n);
      }
#pragma unroll
      for (uint32_t i = 0; i < kAtOnce * kLaneColumns; ++i) {
        const float value = fours[i / kLaneColumns].of[i % kLaneColumns];
        squares = fmaf(value, value, squares);
      }
    }
    squares = sum_of_warp(squares);
    if (lane() == 0) sums[part] = squares;
  }
  sync_block();
  float sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < kSumWarps; ++i) sum += sums[i];
  return divide(1.0f, square_root(divide(sum, static_cast<float>(n)) + eps));
}

// The largest of all threads' values, for all of them.
__device__ inline uint32_t largest_of_block(uint32_t value) {
  BONSAI_SHARED uint32_t largest[kWarp];
  value = largest_of_warp(value);
  if (lane() == 0) largest[warp()] = value;
  sync_block();
  uint32_t of_all = 0;
  for (uint32_t i = 0; i < block_warps(); ++i) of_all = larger(of_all, largest[i]);
  return of_all;
}

// -------- Codes

// Four codes of a group that kLanes lanes share, a byte each, and the group's record for its first lane.
struct Codes4 {
  int of[kLaneColumns];
  GroupRecord record;
  __device__ uint32_t bytes() const {
    return (of[0] & 0xFF) | (of[1] & 0xFF) << 8 | (of[2] & 0xFF) << 16 | static_cast<uint32_t>(of[3]) << 24;
  }
};

// Of kLanes lanes' values, for all of them.
template <uint32_t kLanes>
__device__ inline uint32_t largest_of_lanes(uint32_t value) {
  if constexpr (kLanes == kWarp) {
    return largest_of_warp(value);
  } else {
#pragma unroll
    for (uint32_t distance = 1; distance < kLanes; distance *= 2) value = larger(value, shuffle_xor(value, distance));
    return value;
  }
}

template <uint32_t kLanes>
__device__ inline Codes4 codes_of_group(const FourFloats &x) {
  const uint32_t bits = largest_of_lanes<kLanes>(amax_bits(x));
  const bool is_zero = bits < kSmallestAmaxBits, is_finite = bits < kInfinityBits;
  const float amax = bits_to_float(bits);
  const float inverse = is_zero || !is_finite ? 0.0f : divide(127.0f, amax);
  Codes4 codes;
  int sum = 0;
#pragma unroll
  for (uint32_t i = 0; i < kLaneColumns; ++i) {
    codes.of[i] = is_finite ? float_to_int(x.of[i] * inverse) : 0;
    sum += codes.of[i];
  }
  int latter_half;
  if constexpr (kLanes == kWarp) {
    latter_half = sum_of_warp(lane() < kWarp / 2 ? 0 : sum);
    sum = sum_of_warp(sum);
  } else {
#pragma unroll
    for (uint32_t distance = 1; distance < kLanes / 2; distance *= 2) sum += shuffle_xor(sum, distance);
    latter_half = shuffle_xor(sum, kLanes / 2);
    sum += latter_half;
  }
  codes.record.scale = is_zero ? 0.0f : is_finite ? divide(amax, 127.0f) : bits_to_float(kNaNBits);
  codes.record.sum = static_cast<int16_t>(sum);
  codes.record.second_half_sum = static_cast<int16_t>(latter_half);
  return codes;
}

// Exchanges a bit of the lane's number, which counts kDistance, with one of the bit's number in the words, which counts
// kShift: what lies at places with either but not both changes places. kPlaces has the places without kShift.
template <uint32_t kDistance, uint32_t kShift, uint32_t kPlaces>
__device__ inline uint32_t exchange_bits(uint32_t word) {
  const uint32_t other = shuffle_xor(word, kDistance);
  return (lane() & kDistance) != 0 ? (word & ~kPlaces) | (other >> kShift & kPlaces)
                                   : (word & kPlaces) | (other & kPlaces) << kShift;
}

// This lane's word of the bit planes of 128 columns. Lane 8 j + 2 t + s has columns 32 j + 8 t + 4 s + i, whose bit b
// goes to bit 8 i + 2 j + s of lane 4 b + t: the bits of j and s change places with those of b, and then lanes do.
__device__ inline uint32_t bit_plane(const Codes4 &codes) {
  uint32_t word = exchange_bits<1, 1, 0x55555555>(codes.bytes());
  word = exchange_bits<8, 2, 0x33333333>(word);
  word = exchange_bits<16, 4, 0x0F0F0F0F>(word);
  return shuffle(word, (lane() & 0x18) | (lane() & 3) << 1 | (lane() >> 2 & 1));
}

// -------- A token

// Where a token's columns go.
struct Destination {
  const PackedActivations &packed;
  float *y;  // (n, columns) or null
  uint32_t token, columns, padded;

  // Of four columns that begin with a multiple of four.
  __device__ uint64_t place(uint32_t column) const { return packed_place(packed.together_log2, padded, token, column); }
  __device__ void store_floats(uint32_t column, const FourFloats &x) const {
    float *to = y + uint64_t{token} * columns;
#pragma unroll
    for (uint32_t i = 0; i < kLaneColumns; ++i) {
      if (column + i < columns) to[column + i] = x.of[i];
    }
  }
  __device__ void store_by_128(uint32_t column, const FourFloats &x) const {
    const Codes4 codes = codes_of_group<32>(x);
    if (packed.codes_by_128) {
      *reinterpret_cast<uint32_t *>(packed.codes_by_128 + place(column)) = codes.bytes();
    }
    if (lane() == 0) packed.groups_128[uint64_t{column / 128} * packed.stride + token] = codes.record;
    if (packed.bit_planes) {
      const uint32_t word = bit_plane(codes);
      const uint64_t segment = (uint64_t{token} * padded + column) / kSegmentColumns;
      packed.bit_planes[(segment * kWarp + lane()) * 4 + column % kSegmentColumns / 128] = word;
    }
  }
  __device__ void store_codes(uint32_t column, const FourFloats &x) const {
    if (packed.groups_128) store_by_128(column, x);
    if (packed.codes_by_32) store_by_32(column, x);
  }
  __device__ void store_by_32(uint32_t column, const FourFloats &x) const {
    const Codes4 codes = codes_of_group<8>(x);
    *reinterpret_cast<uint32_t *>(packed.codes_by_32 + place(column)) = codes.bytes();
    if (lane() % 8 == 0) packed.groups_32[uint64_t{column / 32} * packed.stride + token] = codes.record;
  }
  // `inverse` is 1 / scale; 0: the row is not finite.
  __device__ void store_halves(uint32_t column, const FourFloats &x, float inverse) const {
    const uint64_t at = place(column);
#pragma unroll
    for (uint32_t i = 0; i < kLaneColumns; ++i) {
      const float value = inverse == 0 ? 0.0f : x.of[i] * inverse;
      const uint16_t high = float_to_half(value);
      packed.high[at + i] = high;
      packed.low[at + i] = float_to_half(value - half_to_float(high));
    }
  }
};

// A power of two that brings numbers up to the amax of these bits to 2^15 or less, and its inverse.
struct RowScale {
  float scale, inverse;
  __device__ explicit RowScale(uint32_t bits) {
    const int exponent = static_cast<int>(bits >> 23) - 14;
    const uint32_t field = exponent < 1 ? 1 : exponent;
    const bool is_finite = bits < kInfinityBits;
    scale = bits_to_float(is_finite ? field << 23 : kNaNBits);
    inverse = is_finite ? bits_to_float((254 - field) << 23) : 0.0f;
  }
};

// Packs columns [begin, end) of a token, multiples of 128, in all forms that are asked for.
template <class Source>
__device__ inline void pack(const Source &source, const Destination &to, uint32_t begin, uint32_t end) {
  RowScale row(0);
  if (to.packed.high) {
    uint32_t bits = 0;
    for (uint32_t column = thread() * kLaneColumns; column < to.columns; column += block_threads() * kLaneColumns) {
      bits = larger(bits, amax_bits(source.at(column)));
    }
    row = RowScale(largest_of_block(bits));
    if (thread() == 0 && begin == 0) to.packed.row_scales[to.token] = row.scale;
  }
  const uint32_t stride = block_warps() * kWarpColumns;
  for (uint32_t first = begin + warp() * kWarpColumns; first < end; first += stride) {
    const uint32_t column = first + lane() * kLaneColumns;
    const FourFloats x = source.at(column);
    if (to.y) to.store_floats(column, x);
    to.store_codes(column, x);
    if (to.packed.high) to.store_halves(column, x, row.inverse);
  }
}

}  // namespace bonsai::cuda
