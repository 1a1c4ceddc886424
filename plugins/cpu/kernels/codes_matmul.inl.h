// Matrices of integer codes times int8 activations: y = W x for 16 rows and up to kMaxTokens vectors at a time. Lane =
// row, so the sum over blocks stays in order. A tile's bytes (1 to 8 bits a weight) are read once for each block of
// tokens; the tokens' codes stay in the cache. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/codes_block.inl.h"
#include "plugins/cpu/kernels/codes_side_by_side.inl.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

template <class Format, int T>
void multiply_tile(const TileView &tile, const TokenView<T> &tokens, F32x16 (&y)[T]) {
  for (uint64_t block = 0; block < tile.blocks; ++block) {
    const uint8_t *begin = tile.scales + block * Format::kScalesStride;
    if constexpr (kAsksForBlocks<Format>) prefetch_for<Format, T>(begin, Format::kBlockStride, tile.stream);
    const GroupView view = {.bytes = tile.block_bytes + block * Format::kBlockStride,
                            .odd = tile.odd,
                            .asked = reinterpret_cast<uintptr_t>(begin)};
    multiply_block<Format>(tile, block, view, tokens, tile.first_block + block, y);
  }
}

// A matmul with its sizes worked out.
struct CodesWork {
  const MatmulArgs &args;
  uint64_t columns;
  uint64_t blocks;
  ActivationLayout activations;
  size_t token_bytes;

  TileView tile(CodeLayout layout, uint64_t index) const {
    const TilePlace place = TilePlace::find(layout, blocks, index);
    const auto *data = reinterpret_cast<const uint8_t *>(args.matrix->data);
    return {.scales = data + place.scales,
            .block_bytes = data + place.codes,
            .first_block = 0,
            .blocks = blocks,
            .odd = index % 2 != 0,
            .stream = WeightStream(args, layout)};
  }

  template <int T>
  TokenView<T> tokens(uint32_t first) const {
    TokenView<T> view;
    for (int t = 0; t < T; ++t) {
      const ConstQuantizedRow row(args.quantized_rows + (first + t) * token_bytes, columns, activations);
      view.codes[t] = row.codes;
      view.scales[t] = row.scales;
      view.multipliers[t] = row.multipliers;
      view.sums[t] = row.sums;
      view.wide_sums[t] = row.wide_sums;
    }
    return view;
  }
};

// With few tokens memory is what takes time.
template <class Format, int T>
void multiply_tile_as_asked(const CodesWork &work, const TileView &tile, const TokenView<T> &tokens, F32x16 (&y)[T]) {
  if constexpr (T <= 2 && !Format::kInCache) {
    with_requests<Format>(work.args.prefetch, [&](auto asking) { multiply_tile<decltype(asking)>(tile, tokens, y); });
  } else {
    multiply_tile<Format>(tile, tokens, y);
  }
}

// A tile from some block on, times some tokens.
struct TileTask {
  uint64_t index;
  TileView view;
  uint32_t first_token;
  uint32_t last_token;
  float *sums;  // (tokens, 16): what the blocks so far gave each token. nullptr: the view is the whole tile

  bool begins() const { return view.first_block == 0; }
  bool ends(uint64_t blocks) const { return view.first_block + view.blocks == blocks; }
  float *sums_of(uint32_t token) const { return sums + size_t{token - first_token} * kTileRows; }
};

// Tokens from `token` on: T at a time, then what is left with fewer.
template <class Format, int T>
void multiply_tokens(const CodesWork &work, const TileTask &task, uint32_t token) {
  for (; token + T <= task.last_token; token += T) {
    F32x16 y[T];
    for (int t = 0; t < T; ++t) y[t] = task.begins() ? splat(0.0f) : load(task.sums_of(token + t));
    multiply_tile_as_asked<Format>(work, task.view, work.tokens<T>(token), y);
    for (int t = 0; t < T; ++t) {
      if (task.ends(work.blocks)) {
        store_tile(work.args, token + t, task.index, canonical_nan(y[t]));
      } else {
        store(task.sums_of(token + t), y[t]);
      }
    }
  }
  if constexpr (T > 1) {
    if (token < task.last_token) multiply_tokens<Format, (T > 4 ? 4 : T / Format::kTokenStep)>(work, task, token);
  }
}

// Tokens whose codes fit in half of a usual second-level cache; the other half is for the tile.
constexpr size_t kTokenBlockBytes = 192 * 1024;

// -------- A tile of a strip, for many tokens

// In its strip a tile takes every fourth pair of lines and half of each, whose words have to be joined whenever they
// are read. For many tokens it is copied out, some blocks at a time: with AVX2 that made prompts 1.7 times as fast when
// it multiplied.
constexpr uint64_t kCopiedBlocks = 48;

// As the format would be if its tiles stood alone.
constexpr CodeLayout standing_alone(CodeLayout layout) {
  layout.strip_tiles = 1;
  return layout;
}

template <class Strips>
struct CopiedTile : Codes<standing_alone(Strips::kLayout)> {
  static constexpr size_t kScalesStride = kTileRows * Strips::kLayout.scale_bytes();  // scales lie by themselves here
  static constexpr size_t kBlockStride = kTileRows * Strips::kLayout.code_bytes();
  static constexpr bool kInCache = true;
};

template <class Strips>
struct TileCopy {
  using Format = CopiedTile<Strips>;
  alignas(kPackedAlignment) uint8_t scales[kCopiedBlocks * Format::kScalesStride];
  alignas(kPackedAlignment) uint8_t words[kCopiedBlocks * Format::kBlockStride];

  // `view` has kCopiedBlocks at most.
  void fill(const TileView &view) {
    for (uint64_t block = 0; block < view.blocks; ++block) {
      memcpy(scales + block * Format::kScalesStride, view.scales + block * Strips::kScalesStride,
             Format::kScalesStride);
      const uint8_t *from = view.block_bytes + block * Strips::kBlockStride;
      uint8_t *to = words + block * Format::kBlockStride;
#pragma GCC unroll 4
      for (int i = 0; i < Strips::kGroups; ++i, from += Strips::kGroupStride, to += Format::kGroupStride) {
        prefetch_twice<Strips>(from, 128, view.stream);
        store_bytes(to, load_words<Strips>({.bytes = from, .odd = view.odd}, 0));
      }
    }
  }
};

template <class Strips>
void multiply_copies(const CodesWork &work, const TileTask &task) {
  constexpr uint64_t kMostTokens = kTokenBlockBytes / (kCopiedBlocks * Strips::kLayout.columns());
  using Format = CopiedTile<Strips>;
  TileCopy<Strips> copy;
  float sums[kMostTokens * kTileRows];
  TileTask piece = task;
  piece.sums = sums;
  for (uint64_t block = 0; block < work.blocks; block += kCopiedBlocks) {
    TileView from = task.view;
    from.scales += block * Strips::kScalesStride;
    from.block_bytes += block * Strips::kBlockStride;
    from.blocks = std::min(kCopiedBlocks, work.blocks - block);
    copy.fill(from);
    piece.view = {copy.scales, copy.words, block, from.blocks, false, from.stream};
    multiply_tokens<Format, Format::kTokens>(work, piece, task.first_token);
  }
}

// Tiles from `tile` on times all T vectors, as many side by side as there are. What is left begins where it returns.
template <class Format, int T>
uint64_t multiply_side_by_side(const CodesWork &work, uint64_t tile) {
  constexpr int kTiles = kTilesSideBySide<Format, T>;
  const uint64_t end = tile_count(work.args.last_row);
  const size_t tile_bytes = TilePlace::strip_bytes(Format::kLayout, work.blocks);
  const TokenView<T> tokens = work.tokens<T>(0);
  const StreamedTiles all = {work.tile(Format::kLayout, tile).scales, end - tile, tile_bytes, work.blocks};
  StreamsAhead<SideBySide<Format>, kTiles> ahead(all, work.args.then);
  return each_streamed_tile<kTiles>(
      tile, end, [&](uint64_t first, uint64_t apart) __attribute__((always_inline)) {
        F32x16 y[kTiles][T];
        multiply_tiles(work.tile(Format::kLayout, first), apart * tile_bytes, tokens, ahead, y);
        for (int i = 0; i < kTiles; ++i) {
          for (int t = 0; t < T; ++t) store_tile(work.args, t, first + i * apart, canonical_nan(y[i][t]));
        }
      });
}

// The same of the call's vectors, if they are few.
template <class Format>
uint64_t multiply_few_side_by_side(const CodesWork &work, uint64_t tile) {
  switch (work.args.n) {
    case 1:
      return multiply_side_by_side<Format, 1>(work, tile);
    case 2:
      return multiply_side_by_side<Format, 2>(work, tile);
    case 3:
      return multiply_side_by_side<Format, 3>(work, tile);
    case 4:
      if constexpr (kTakesFourSideBySide<Format>) return multiply_side_by_side<Format, 4>(work, tile);
      return tile;
    default:
      return tile;
  }
}

template <CodeLayout kLayout>
void multiply_codes(const MatmulArgs &args) {
  using Format = Codes<kLayout>;
  const uint64_t columns = args.matrix->columns;
  if constexpr (SignLookup::kExists && kLayout == kSignsLayout) {
    if (args.tables) return multiply_by_lookup<kLayout, SignLookup>(args);
  }
  const CodesWork work = {.args = args,
                          .columns = columns,
                          .blocks = columns / kLayout.columns(),
                          .activations = kLayout.activations,
                          .token_bytes = quantized_row_bytes(kLayout.activations, columns)};
  uint64_t first_tile = args.first_row / kTileRows;
  if constexpr (kGoesSideBySide<Format>) {
    if (args.prefetch == Prefetch::kFirstLevel) first_tile = multiply_few_side_by_side<Format>(work, first_tile);
  }
  const uint32_t fitting = static_cast<uint32_t>(kTokenBlockBytes / work.token_bytes) / kMaxTokens * kMaxTokens;
  const uint32_t block = fitting > 0 ? fitting : kMaxTokens;
  for (uint32_t first = 0; first < args.n; first += block) {
    const uint32_t last = args.n - first < block ? args.n : first + block;
    for (uint64_t tile = first_tile; tile * kTileRows < args.last_row; ++tile) {
      const TileTask task = {tile, work.tile(kLayout, tile), first, last, nullptr};
      if constexpr (Format::kStrips) {
        if (last - first > Format::kTokens) {
          multiply_copies<Format>(work, task);
          continue;
        }
      }
      multiply_tokens<Format, Format::kTokens>(work, task, first);
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
