// A block of a tile's integer codes times T vectors of int8 activations: its products, its scales, and what is asked
// for at its turn. Part of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/codes_dot.inl.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/prefetch.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// One part of the work: some blocks of a tile, and T consecutive rows of quantised activations.
struct TileView {
  const uint8_t *scales;       // of its blocks, kScalesStride apart
  const uint8_t *block_bytes;  // integers and codes, kBlockStride apart
  uint64_t first_block;        // of the row
  uint64_t blocks;
  bool odd;  // in a strip: the second tile of its pair
  WeightStream stream;
};

template <class Format>
[[gnu::always_inline]] inline F32x16 load_scale(const uint8_t *scales, uint64_t block, uint64_t scale) {
  constexpr CodeLayout kLayout = Format::kLayout;
  const uint8_t *from = scales + block * Format::kScalesStride + scale * kTileRows * kLayout.scale_bytes();
  if constexpr (kLayout.float_scale) {
    return load(reinterpret_cast<const float *>(from));
  } else {
    return load_f16(reinterpret_cast<const uint16_t *>(from));
  }
}

constexpr int log2_of(int power) { return __builtin_ctz(static_cast<unsigned>(power)); }

// The integers beside a block's dot products: what the offset takes from them or, of formats with minima, which have no
// offset, what the minimum's scale multiplies.
template <class Format, int T>
[[gnu::always_inline]] inline void block_corrections(const uint8_t *bytes, const TokenView<T> &tokens, uint64_t index,
                                                     I32x16 (&corrections)[T]) {
  if constexpr (Format::kSubBlocks == 0) {
    constexpr int kFactor = Format::kMinima ? 1 : Format::kOffset;
    for (int t = 0; t < T; ++t) {
      constexpr bool kWide = Format::kLayout.activations.has_wide_sums();
      corrections[t] = splat_i32(kFactor * (kWide ? tokens.wide_sums[t][index] : tokens.sums[t][index]));
    }
  } else if constexpr (!Format::kMinima && Format::kOffset == 0) {
    for (int t = 0; t < T; ++t) corrections[t] = splat_i32(0);
  } else {
    constexpr int kSums = kSuperBlockActivations.block / kSuperBlockActivations.sum_columns;
    dot_sub_block_sums<Format>(bytes, tokens, index * kSums, corrections);
    for (int t = 0; t < T; ++t) {
      if constexpr (Format::kMinima) {
        corrections[t] = sub(splat_i32(0), corrections[t]);
      } else {
        corrections[t] = shift_left<log2_of(Format::kOffset)>(corrections[t]);
      }
    }
  }
}

template <class Format, int T>
[[gnu::always_inline]] inline void prefetch_for(const uint8_t *from, size_t bytes, const WeightStream &stream) {
  if constexpr (T <= 2) {
    prefetch_twice<Format>(from, bytes, stream);
  } else {
    prefetch_far<Format>(from, bytes, stream);
  }
}

// Whether requests go with blocks: in strips and super-blocks they go with parts of these, and from the cache with
// none.
template <class Format>
constexpr bool kAsksForBlocks = Format::kSubBlocks == 0 && !Format::kStrips && !Format::kInCache;

// The dot products of a block's codes as they are, to dots, which begin with a start.
template <class Format, int T>
[[gnu::always_inline]] inline void dot_block(const TileView &tile, const GroupView &first, const TokenView<T> &tokens,
                                             uint64_t index, I32x16 (&dots)[T]) {
  if constexpr (Format::kSubBlocks > 0) {
    dot_sub_blocks<Format>(first, tokens, index, dots);
  } else if constexpr (Format::kGroups == 1) {
    dot_group<Format>(first, tokens, index * Format::kGroup, dots);
  } else {
    constexpr int kShift = kDotsShift<Format, T>;
    for (int t = 0; t < T; ++t) dots[t] = shift_left<kShift>(dots[t]);
#pragma GCC unroll 4
    for (int i = 0; i < Format::kGroups; ++i) {
      GroupView group = first;
      group.bytes += i * Format::kGroupStride;
      if constexpr (Format::kStrips) prefetch_for<Format, T>(group.bytes, 128, tile.stream);
      dot_one_group<Format>(group, tokens, index * Format::kGroups + i, dots);
    }
    for (int t = 0; t < T; ++t) dots[t] = shift_right<kShift>(dots[t]);
  }
}

// Adds a block's products to y. `index`: of the block in the row.
template <class Format, int T>
[[gnu::always_inline]] inline void multiply_block(const TileView &tile, uint64_t block, const GroupView &view,
                                                  const TokenView<T> &tokens, uint64_t index, F32x16 (&y)[T]) {
  I32x16 dots[T], corrections[T];
  block_corrections<Format>(view.bytes, tokens, index, corrections);
  for (int t = 0; t < T; ++t) {
    dots[t] = Format::kStartsCorrected ? sub(splat_i32(0), corrections[t]) : splat_i32(0);
  }
  dot_block<Format>(tile, view, tokens, index, dots);
  const F32x16 weight_scale = load_scale<Format>(tile.scales, block, 0);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    const F32x16 activation_scale = splat(tokens.scales[t][index]);
    I32x16 isum = shift_left<Format::kLayout.multiplier_shift>(dots[t]);
    if constexpr (!Format::kMinima && !Format::kStartsCorrected) isum = sub(isum, corrections[t]);
    y[t] = fma(to_f32(isum), mul(weight_scale, activation_scale), y[t]);
    if constexpr (Format::kMinima) {
      const F32x16 minimum_scale = load_scale<Format>(tile.scales, block, 1);
      y[t] = fma(to_f32(corrections[t]), mul(minimum_scale, activation_scale), y[t]);
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
