// Matrices of signs times int8 activations by table lookup (T-MAC, arXiv:2407.00088): the sums of 4 to 6 activations
// under every combination of signs lie in tables, and one instruction looks up 32 rows' sums at once. The integers are
// those that codes_matmul.inl.h gets by multiplying. trits_matmul.inl.h does the same for ternary weights. Part of a
// tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"
#include "plugins/cpu/kernels/strip_places.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How matrices of signs lie, and a pair of tiles' words of a group.
inline constexpr CodeLayout kSignsLayout = SignLookup::kSignBytes ? kSignBytesG128Layout : kQ1_0G128Layout;
inline constexpr size_t kPairBytes = 2 * kPackedAlignment;

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

// Some pairs of tiles in a strip, or whole strips from one on.
struct PairsOfStrip {
  const uint8_t *scales;  // of the first block's first tile
  const uint8_t *words;   // of its first pair
  const uint8_t *rests;   // codes in base 3: behind these
  uint64_t blocks;
  WeightStream stream;

  // From `tile` on, which is even and in the same strip as the last of them.
  template <CodeLayout kLayout>
  static PairsOfStrip find(const MatmulArgs &args, uint64_t tile) {
    const uint64_t blocks = args.matrix->columns / kLayout.columns();
    const TilePlace place = TilePlace::find(kLayout, blocks, tile);
    const auto *data = reinterpret_cast<const uint8_t *>(args.matrix->data);
    return {data + place.scales, data + place.codes, data + place.rests, blocks, WeightStream(args, kLayout)};
  }
};

// These, and T consecutive tokens.
template <int T>
struct LookupWork : PairsOfStrip {
  const int16_t *tables[T];  // (groups, Lookup::kElements)
};

// What is asked for while a block is multiplied, a part at a time: a block's bytes, counted from `share` and far ahead.
template <class Lookup>
struct RequestsAhead {
  const uint8_t *share;
  const WeightStream &stream;

  [[gnu::always_inline]] void ask(size_t at, size_t bytes) const { prefetch_twice<Lookup>(share + at, bytes, stream); }
};

// The same for bytes whose places are known.
template <class Lookup>
struct RequestsAt {
  uintptr_t far, near;

  [[gnu::always_inline]] void ask(size_t at, size_t bytes) const {
    ask_for_both<Lookup>(
        [&]() __attribute__((always_inline)) { prefetch_at<Lookup>(far + at, bytes); },
        [&]() __attribute__((always_inline)) { prefetch_at<Lookup>(near + at, bytes); });
  }
};

// A block of a strip.
template <class Requests>
struct BlockOfStrip {
  size_t at;     // from where the work's first one is, in bytes
  size_t group;  // of the row: its first
  Requests requests;
};

// The results of some pairs of tiles: each group's sums, times their integers; each block's sum of these, times its
// scales.
template <class Lookup, int kPairs, int T>
struct ExactRows {
  static constexpr int kParts = 1;  // that a group's sums come in

  // Of a block so far, for one pair and token.
  struct Sums {
    I32x16 first, second;
  };

  F32x16 y[T][2 * kPairs];
  const float *token_scales[T];                 // (blocks): of those to come
  const GroupMultiplier *token_multipliers[T];  // (groups)

  [[gnu::always_inline]] void clear() {
    for (int t = 0; t < T; ++t) {
      for (int i = 0; i < 2 * kPairs; ++i) y[t][i] = splat(0.0f);
    }
  }

  template <int N>
  [[gnu::always_inline]] static void sum_group(const uint8_t *words, const int16_t *const (&tables)[T], size_t group,
                                               I16x32 (&sums)[N][1][T]) {
    Lookup::sum_group(words, tables, group, sums);
  }

  [[gnu::always_inline]] Sums begin_block(int) const { return {splat_i32(0), splat_i32(0)}; }

  // Adds a part of a group's sums.
  [[gnu::always_inline]] void add_group(int t, size_t group, I16x32 sums, Sums &of_block) const {
    const GroupMultiplier &multiplier = token_multipliers[t][group];
    of_block.first = dot2(of_block.first, sums, splat_pair(multiplier.even()));
    of_block.second = dot2(of_block.second, sums, splat_pair(multiplier.odd()));
  }

  // Of pair i, with the scales d of the weights.
  [[gnu::always_inline]] void end_block(int t, int i, const Sums &of_block, const F32x16 (&d)[2]) {
    const F32x16 scale = splat(*token_scales[t]);
    F32x16 *y_pair = y[t] + 2 * i;
    y_pair[0] = fma(to_f32(of_block.first), mul(d[0], scale), y_pair[0]);
    y_pair[1] = fma(to_f32(of_block.second), mul(d[1], scale), y_pair[1]);
  }

  [[gnu::always_inline]] void next_block() {
    for (int t = 0; t < T; ++t) ++token_scales[t];
  }
};

// The block that ends, of some pairs from `first` on: `scales` are those of the weights of the part's first tile.
template <int kAtOnce, int T, class Rows>
[[gnu::always_inline]] inline void end_block(Rows &rows, int first, const uint8_t *scales,
                                             const typename Rows::Sums (&of_block)[kAtOnce][T]) {
  const auto *halves = reinterpret_cast<const uint16_t *>(scales);
#pragma GCC unroll 4
  for (int i = 0; i < kAtOnce; ++i) {
    const uint16_t *of_pair = halves + 2 * kTileRows * (first + i);
    const F32x16 d[2] = {load_f16(of_pair), load_f16(of_pair + kTileRows)};
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) rows.end_block(t, first + i, of_block[i][t], d);
  }
}

// Results lie in memory from here on. GCC would copy those of several tokens or strips to the stack and back for each
// block.
template <class Rows>
[[gnu::always_inline]] inline void keep_in_memory(const Rows &rows) {
  asm volatile("" : : "r"(&rows) : "memory");
}

// A place in a strip, and where its group's tables are.
struct GroupOfStrip {
  const uint8_t *words;
  size_t group, tables;  // of the row
};

// Adds a group to the sums of kPairs pairs, kAtOnce at a time.
template <class Lookup, int kAtOnce, int kPairs, int T, class Rows>
[[gnu::always_inline]] inline void add_group(const LookupWork<T> &work, const Rows &rows, const GroupOfStrip &from,
                                             typename Rows::Sums (&of_block)[kPairs][T]) {
  for (int first = 0; first < kPairs; first += kAtOnce) {
    I16x32 sums[kAtOnce][Rows::kParts][T];
    Rows::sum_group(from.words + first * kPairBytes, work.tables, from.tables, sums);
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) {
#pragma GCC unroll 4
      for (int part = 0; part < Rows::kParts; ++part) {
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) rows.add_group(t, from.group, sums[i][part][t], of_block[first + i][t]);
      }
    }
  }
}

// A block of kPairs pairs of tiles that lie side by side. `asks`: weights are asked for in time, as for the first
// tokens they have to be. One group of all pairs comes after the other, where a tier likes its tables in registers; or
// of one token, a block of some pairs after the other, where it likes their sums there.
template <CodeLayout kLayout, class Lookup, int kPairs, bool asks, int T, class Requests, class Rows>
requires(!kLayout.base_three)
    [[gnu::always_inline]] inline void multiply_block(const LookupWork<T> &work, const BlockOfStrip<Requests> &block,
                                                      Rows &rows) {
  constexpr uint32_t kGroups = kLayout.activations.groups();
  static_assert(kGroups == kBoundGroups);
  constexpr size_t kGroupStride = kPairBytes / 2 * kLayout.strip_tiles;
  constexpr int kAtOnce = std::min(kPairs, Lookup::kPairsAtOnce[std::countr_zero(unsigned{T})]);
  constexpr int kOfBlock = T == 1 && Lookup::kSumsInRegisters ? kAtOnce : kPairs;
  constexpr size_t kPrefetched = TilePlace::block_stride(kLayout) / (kPairs / kOfBlock * kGroups);  // of whole strips
  const uint8_t *words = work.words + block.at;
  size_t share = 0;
#pragma GCC unroll 4
  for (int first = 0; first < kPairs; first += kOfBlock) {
    typename Rows::Sums of_block[kOfBlock][T];
    for (int i = 0; i < kOfBlock; ++i) {
      for (int t = 0; t < T; ++t) of_block[i][t] = rows.begin_block(t);
    }
#pragma GCC unroll 1
    for (uint32_t i = 0; i < kGroups; ++i, share += kPrefetched) {
      if constexpr (asks) block.requests.ask(share, kPrefetched);
      const size_t group = block.group + i;
      const GroupOfStrip from = {words + i * kGroupStride + first * kPairBytes, group, group * Lookup::kElements};
      add_group<Lookup, kAtOnce>(work, rows, from, of_block);
    }
    if constexpr (T > 1 && Lookup::kResultsInMemory) keep_in_memory(rows);
    end_block(rows, first, work.scales + block.at, of_block);
  }
}

// Pairs of tiles that lie side by side, a block after the other.
template <CodeLayout kLayout, class Lookup, int kPairs, bool asks, int T, class Rows>
[[gnu::always_inline]] inline void multiply_pairs(const LookupWork<T> &work, Rows &rows) {
  using Requests = RequestsAhead<Lookup>;
  constexpr size_t kStride = TilePlace::block_stride(kLayout);
  size_t at = 0, group = 0;
  rows.clear();
  for (uint64_t block = 0; block < work.blocks; ++block, at += kStride, group += kLayout.activations.groups()) {
    const BlockOfStrip<Requests> of_pairs = {at, group, {work.scales + at, work.stream}};
    multiply_block<kLayout, Lookup, kPairs, asks>(work, of_pairs, rows);
    rows.next_block();
  }
}

// How far ahead weights of each of kStripsAtOnce strips are asked for.
template <CodeLayout kLayout, class Lookup>
constexpr size_t kStripFarAhead = round_to_blocks(kFarAhead<Lookup> / kStripsAtOnce, TilePlace::block_stride(kLayout));
template <CodeLayout kLayout, class Lookup>
constexpr size_t kStripNearAhead = round_to_blocks(kNearAhead<Lookup> / kStripsAtOnce,
                                                   TilePlace::block_stride(kLayout));

// Strips that follow each other, side by side: a block of each, and then the next ones. They come in as many streams,
// and what one has fetched of a block's tables, the next one finds in the first-level cache.
template <CodeLayout kLayout, class Lookup, bool asks, int T, class Rows>
[[gnu::always_inline]] inline void multiply_strips(const LookupWork<T> &work, const StripPlaces &next,
                                                   Rows (&rows)[kStripsAtOnce]) {
  using Requests = RequestsAt<Lookup>;
  constexpr int kPairs = kLayout.strip_tiles / 2;
  constexpr size_t kStride = TilePlace::block_stride(kLayout);
  const size_t strip_bytes = TilePlace::strip_bytes(kLayout, work.blocks);
  for (Rows &of_strip : rows) of_strip.clear();
  size_t group = 0;
  for (size_t at = 0; at < strip_bytes; at += kStride, group += kLayout.activations.groups()) {
#pragma GCC unroll 1
    for (int i = 0; i < kStripsAtOnce; ++i) {
      const auto ahead = [&](size_t bytes) {
        const auto here = reinterpret_cast<uintptr_t>(work.scales) + i * strip_bytes;
        return at + bytes < strip_bytes ? here + at + bytes : next.begins[i] + (at + bytes - strip_bytes);
      };
      const Requests requests = {ahead(kStripFarAhead<kLayout, Lookup>), ahead(kStripNearAhead<kLayout, Lookup>)};
      const BlockOfStrip<Requests> block = {at + i * strip_bytes, group, requests};
      multiply_block<kLayout, Lookup, kPairs, asks>(work, block, rows[i]);
      rows[i].next_block();
      keep_in_memory(rows[i]);
    }
  }
}

// The results of pairs of tiles from `tile` on for one token, as far as they are asked for.
template <int kPairs>
[[gnu::always_inline]] inline void store_pairs(const MatmulArgs &args, uint64_t tile, uint32_t token,
                                               const F32x16 (&y)[2 * kPairs]) {
  for (int i = 0; i < 2 * kPairs; ++i) {
    const uint64_t first_row = (tile + i) * kTileRows;
    if (first_row + kTileRows <= args.first_row || first_row >= args.last_row) continue;
    store_tile(args, token, tile + i, y[i]);
  }
}

// Rows for T tokens from `token` on, and the work that makes them.
template <CodeLayout kLayout, class Lookup, int kPairs, int T>
void find_tokens(const MatmulArgs &args, uint32_t token, LookupWork<T> &work, ExactRows<Lookup, kPairs, T> &rows) {
  const uint64_t columns = args.matrix->columns;
  for (int t = 0; t < T; ++t) {
    const size_t row_bytes = quantized_row_bytes(kLayout.activations, columns);
    const ConstQuantizedRow row(args.quantized_rows + (token + t) * row_bytes, columns, kLayout.activations);
    work.tables[t] = args.tables + (token + t) * (columns / kActivationGroup * Lookup::kElements);
    rows.token_scales[t] = row.scales;
    rows.token_multipliers[t] = row.multipliers;
  }
}

template <class Lookup, int kPairs, int T>
void store_tokens(const MatmulArgs &args, uint64_t tile, uint32_t token, ExactRows<Lookup, kPairs, T> &rows) {
  for (int t = 0; t < T; ++t) {
    for (F32x16 &y : rows.y[t]) y = canonical_nan(y);
    store_pairs<kPairs>(args, tile, token + t, rows.y[t]);
  }
}

// Pairs of tiles from `tile` on times T tokens.
template <CodeLayout kLayout, class Lookup, int kPairs, bool asks, int T>
void multiply_tokens_of_pairs(const MatmulArgs &args, const PairsOfStrip &pairs, uint64_t tile, uint32_t token) {
  LookupWork<T> work = {pairs, {}};
  ExactRows<Lookup, kPairs, T> rows;
  find_tokens<kLayout>(args, token, work, rows);
  multiply_pairs<kLayout, Lookup, kPairs, asks>(work, rows);
  store_tokens(args, tile, token, rows);
}

// Calls body(T, token) for n tokens from `token` on: for kMost at a time, then for what is left with fewer.
template <int kMost, class Body>
void each_tokens(uint32_t n, const Body &body, uint32_t token = 0) {
  for (; token + kMost <= n; token += kMost) body(std::integral_constant<int, kMost>(), token);
  if constexpr (kMost > 1) {
    if (token < n) each_tokens<kMost / 2>(n, body, token);
  }
}

// All tokens. Those behind the first ones find the weights in the cache.
template <CodeLayout kLayout, class Lookup, int kPairs>
void multiply_part_of_strip(const MatmulArgs &args, uint64_t tile) {
  const PairsOfStrip pairs = PairsOfStrip::find<kLayout>(args, tile);
  each_tokens<Lookup::kTokens>(args.n, [&](auto T, uint32_t token) {
    if (token > 0) return multiply_tokens_of_pairs<kLayout, Lookup, kPairs, false, T>(args, pairs, tile, token);
    with_requests<Lookup>(args.prefetch, [&](auto asking) {
      multiply_tokens_of_pairs<kLayout, decltype(asking), kPairs, true, T>(args, pairs, tile, token);
    });
  });
}

// kStripsAtOnce strips from `tile` on times T tokens.
template <CodeLayout kLayout, class Lookup, bool asks, int T>
void multiply_tokens_of_strips(const MatmulArgs &args, const PairsOfStrip &strips, uint64_t tile, uint32_t token) {
  constexpr uint64_t kTiles = kLayout.strip_tiles;
  const uint64_t strips_left = (tile_count(args.last_row) - tile + kTiles - 1) / kTiles;
  const size_t strip_bytes = TilePlace::strip_bytes(kLayout, strips.blocks);
  const auto begin = reinterpret_cast<uintptr_t>(strips.scales);
  LookupWork<T> work = {strips, {}};
  ExactRows<Lookup, kTiles / 2, T> rows[kStripsAtOnce];
  for (auto &of_strip : rows) find_tokens<kLayout>(args, token, work, of_strip);
  multiply_strips<kLayout, Lookup, asks>(
      work, StripPlaces::behind(begin, strip_bytes, strips_left, kStripFarAhead<kLayout, Lookup>, args.then), rows);
  for (int i = 0; i < kStripsAtOnce; ++i) store_tokens(args, tile + i * kTiles, token, rows[i]);
}

// Strips from `tile` on, kStripsAtOnce at a time, of which the last may lack a tile; the tile behind them.
template <CodeLayout kLayout, class Lookup>
uint64_t multiply_strips_at_once(const MatmulArgs &args, uint64_t tile) {
  constexpr uint64_t kTiles = kStripsAtOnce * kLayout.strip_tiles;
  for (const uint64_t end = tile_count(args.last_row); tile + kTiles <= end + 1; tile += kTiles) {
    const PairsOfStrip strips = PairsOfStrip::find<kLayout>(args, tile);
    each_tokens<Lookup::kTokens>(args.n, [&](auto T, uint32_t token) {
      if constexpr (T < Lookup::kTokensOfStrips) {
        if (token > 0) return multiply_tokens_of_strips<kLayout, Lookup, false, T>(args, strips, tile, token);
      }
      multiply_tokens_of_strips<kLayout, Lookup, true, T>(args, strips, tile, token);
    });
  }
  return tile;
}

// Calls part(pairs, tile) for tiles [tile, end), of which the first is even: for 4, 2 or 1 pairs that lie in one strip,
// the first of them with `tile`.
template <CodeLayout kLayout, class Part>
void each_part_of_strip(uint64_t tile, uint64_t end, const Part &part) {
  while (tile < end) {
    const uint64_t left = std::min(kLayout.strip_tiles - tile % kLayout.strip_tiles, end - tile);
    const int pairs = left > 6 ? 4 : left > 2 ? 2 : 1;
    if (pairs == 4) {
      part(std::integral_constant<int, 4>(), tile);
    } else if (pairs == 2) {
      part(std::integral_constant<int, 2>(), tile);
    } else {
      part(std::integral_constant<int, 1>(), tile);
    }
    tile += 2 * pairs;
  }
}

// A call's first tile, or the one before it, as they come in pairs.
inline uint64_t first_tile(const MatmulArgs &args) { return args.first_row / kTileRows / 2 * 2; }

template <CodeLayout kLayout, class Lookup>
void multiply_by_lookup(const MatmulArgs &args) {
  constexpr uint64_t kTiles = kLayout.strip_tiles;
  const auto multiply_parts = [&](uint64_t first, uint64_t last) {
    each_part_of_strip<kLayout>(
        first, last, [&](auto pairs, uint64_t tile) { multiply_part_of_strip<kLayout, Lookup, pairs>(args, tile); });
  };
  uint64_t tile = first_tile(args);
  const uint64_t end = tile_count(args.last_row);
  if (args.prefetch == Prefetch::kSecondLevelTwoStreams && args.n <= Lookup::kTokensOfStrips) {
    const uint64_t strip = std::min(end, (tile + kTiles - 1) / kTiles * kTiles);
    multiply_parts(tile, strip);
    tile = multiply_strips_at_once<kLayout, Lookup>(args, strip);
  }
  multiply_parts(tile, end);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
