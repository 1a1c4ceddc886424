// Matrices of signs times int8 activations by table lookup (T-MAC, arXiv:2407.00088): the sums of 5 or 6 activations
// under every combination of signs lie in tables, and one instruction looks up 32 rows' sums at once. The integers are
// those that codes_matmul.inl.h gets by multiplying. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/prefetch.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A group of 32 columns: of each row's word the lower 16 bits and the upper ones, in fields of 6, 5 and 5 bits. Entry i
// of a field's table is the sum of its activations a, +a where i has a 1 and -a where it has a 0: at most 6 * 127, and
// 32 * 127 for the group, which 16 bits hold.
constexpr int kFieldShifts[] = {0, 6, 11};
constexpr size_t kFieldTables[] = {0, 64, 96};  // where they begin
constexpr size_t kHalfTables = 128;             // elements for 16 columns
static_assert(kLookupElements == 2 * kHalfTables);

// The lanes that belong to rows [args.first_row, args.last_row) of a tile's results, to their place in y.
inline void store_tile(const MatmulArgs &args, uint32_t token, uint64_t tile, F32x16 y) {
  const uint64_t tile_row = tile * kTileRows;
  const uint64_t first = args.first_row > tile_row ? args.first_row - tile_row : 0;
  const uint64_t last = args.last_row < tile_row + kTileRows ? args.last_row - tile_row : kTileRows;
  float *to = args.y + token * args.y_stride + (tile_row + first - args.first_row);
  if (first == 0) return store_partial(to, y, last);
  float lanes[16];
  store(lanes, y);
  memcpy(to, lanes + first, (last - first) * sizeof(float));
}

// Some pairs of tiles in a strip, and one token.
struct SignWork {
  const uint8_t *scales;  // of the first block's first tile
  const uint8_t *words;   // of its first pair
  uint64_t blocks;
  const int16_t *tables;      // (groups, kLookupElements)
  const float *token_scales;  // (groups)
  WeightStream stream;
};

// The sum of a group's 32 activations for two rows in each lane: the first tile's rows in the even places.
template <class Lookup>
[[gnu::always_inline]] inline I16x32 sum_group(const uint8_t *words, const int16_t *tables) {
  const auto sum_half = [](I16x32 half, const int16_t *of_half) {
    const I16x32 first = Lookup::lookup64(of_half, half);
    const I16x32 second =
        Lookup::lookup32(of_half + kFieldTables[1], Lookup::template shift_right<kFieldShifts[1]>(half));
    const I16x32 third =
        Lookup::lookup32(of_half + kFieldTables[2], Lookup::template shift_right<kFieldShifts[2]>(half));
    return Lookup::add(Lookup::add(first, second), third);
  };
  return Lookup::add(sum_half(Lookup::load(words), tables), sum_half(Lookup::load(words + 64), tables + kHalfTables));
}

// kPairs pairs of tiles that lie side by side. `asks`: weights are asked for in time, as the first token's have to be.
template <CodeLayout kLayout, class Lookup, int kPairs, bool asks>
[[gnu::always_inline]] inline void multiply_pairs(const SignWork &work, F32x16 (&y)[2 * kPairs]) {
  constexpr TilePlace kPlace = TilePlace::find(kLayout, 1, 0);
  constexpr size_t kGroupStride = size_t{64} * kLayout.strip_tiles;
  constexpr size_t kScaleBytes = kTileRows * kLayout.scale_bytes();
  constexpr size_t kPrefetched = kPlace.codes_stride / kLayout.groups;  // of whole strips, whatever is the part
  const uint8_t *scales = work.scales, *words = work.words;
  const int16_t *tables = work.tables;
  const float *token_scale = work.token_scales;
  for (int i = 0; i < 2 * kPairs; ++i) y[i] = splat(0.0f);
  for (uint64_t block = 0; block < work.blocks; ++block) {
    F32x16 d[2 * kPairs];
    for (int i = 0; i < 2 * kPairs; ++i) {
      d[i] = load_f16(reinterpret_cast<const uint16_t *>(scales + i * kScaleBytes));
    }
#pragma GCC unroll 1
    for (uint32_t group = 0; group < kLayout.groups; ++group) {
      if constexpr (asks) prefetch_twice(scales + group * kPrefetched, kPrefetched, work.stream);
      I16x32 sums[kPairs];
      for (int i = 0; i < kPairs; ++i) {
        sums[i] = sum_group<Lookup>(words + group * kGroupStride + i * 2 * kPackedAlignment, tables);
      }
      const F32x16 scale = splat(*token_scale);
      for (int i = 0; i < kPairs; ++i) {
        y[2 * i] = fma(to_f32(Lookup::even_lanes(sums[i])), mul(d[2 * i], scale), y[2 * i]);
        y[2 * i + 1] = fma(to_f32(Lookup::odd_lanes(sums[i])), mul(d[2 * i + 1], scale), y[2 * i + 1]);
      }
      tables += kLookupElements;
      ++token_scale;
    }
    scales += kPlace.scales_stride;
    words += kPlace.codes_stride;
  }
  for (int i = 0; i < 2 * kPairs; ++i) y[i] = canonical_nan(y[i]);
}

// Pairs of tiles from `tile` on, which is even and in the same strip as the last of them.
template <CodeLayout kLayout, class Lookup, int kPairs, bool asks>
void multiply_token(const MatmulArgs &args, uint64_t tile, uint32_t token) {
  const uint64_t columns = args.matrix->columns, blocks = columns / kLayout.columns();
  const uint64_t groups = blocks * kLayout.groups;
  const TilePlace place = TilePlace::find(kLayout, blocks, tile);
  const auto *data = reinterpret_cast<const uint8_t *>(args.matrix->data);
  const std::byte *row = args.quantized_rows + token * quantized_row_bytes(kLayout.activations, columns);
  F32x16 y[2 * kPairs];
  multiply_pairs<kLayout, Lookup, kPairs, asks>({.scales = data + place.scales,
                                                 .words = data + place.codes,
                                                 .blocks = blocks,
                                                 .tables = args.tables + token * groups * kLookupElements,
                                                 .token_scales = reinterpret_cast<const float *>(row + columns),
                                                 .stream = WeightStream(args, kLayout)},
                                                y);
  for (int i = 0; i < 2 * kPairs; ++i) {
    const uint64_t first_row = (tile + i) * kTileRows;
    if (first_row + kTileRows > args.first_row && first_row < args.last_row) store_tile(args, token, tile + i, y[i]);
  }
}

// All tokens: those behind the first find the weights in the cache.
template <CodeLayout kLayout, class Lookup, int kPairs>
void multiply_part_of_strip(const MatmulArgs &args, uint64_t tile) {
  if (args.n > 0) multiply_token<kLayout, Lookup, kPairs, true>(args, tile, 0);
  for (uint32_t token = 1; token < args.n; ++token) multiply_token<kLayout, Lookup, kPairs, false>(args, tile, token);
}

template <CodeLayout kLayout, class Lookup>
void multiply_by_lookup(const MatmulArgs &args) {
  uint64_t tile = args.first_row / kTileRows / 2 * 2;
  while (tile * kTileRows < args.last_row) {
    const uint64_t rows_left = args.last_row - tile * kTileRows;
    const uint64_t left = std::min(kLayout.strip_tiles - tile % kLayout.strip_tiles, tile_count(rows_left));
    const int pairs = left > 6 ? 4 : left > 2 ? 2 : 1;
    if (pairs == 4) {
      multiply_part_of_strip<kLayout, Lookup, 4>(args, tile);
    } else if (pairs == 2) {
      multiply_part_of_strip<kLayout, Lookup, 2>(args, tile);
    } else {
      multiply_part_of_strip<kLayout, Lookup, 1>(args, tile);
    }
    tile += 2 * pairs;
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
