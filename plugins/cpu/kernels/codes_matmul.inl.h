// Matrices of integer codes times int8 activations: y = W x for 16 rows and up to kMaxTokens vectors at a time. Lane =
// row, so the sum over blocks stays in order. A tile's bytes (1 to 8 bits a weight) are read once for each block of
// tokens; the tokens' codes stay in the cache. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/codes_dot.inl.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// One part of the work: some blocks of a tile, and T consecutive rows of quantised activations.
struct TileView {
  const uint8_t *scales;       // (blocks, scales, 16), kScalesStride apart
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

// What lies some blocks ahead in tiles that stand alone, each its scales and then its codes.
template <class Format>
class BlocksAhead {
 public:
  BlocksAhead(const TileView &tile, size_t bytes_ahead) : blocks_(tile.blocks), stream_(tile.stream) {
    const uint64_t ahead = bytes_ahead / Format::kShareBytes, tiles = ahead / blocks_, rest = ahead % blocks_;
    const uint64_t tile_bytes = blocks_ * Format::kShareBytes;
    scales_ = reinterpret_cast<uintptr_t>(tile.scales) + tiles * tile_bytes + rest * Format::kScalesStride;
    codes_ = reinterpret_cast<uintptr_t>(tile.block_bytes) + tiles * tile_bytes + rest * Format::kBlockStride;
    left_ = blocks_ - rest;
  }

  // Asks for one, and goes on to the next.
  [[gnu::always_inline]] void ask() {
    prefetch_at<Format>(stream_.place(codes_), Format::kBlockStride);
    prefetch_at<Format>(stream_.place(scales_), Format::kScalesStride);
    scales_ += Format::kScalesStride;
    codes_ += Format::kBlockStride;
    if (--left_ > 0) return;
    scales_ += blocks_ * Format::kBlockStride;
    codes_ += blocks_ * Format::kScalesStride;
    left_ = blocks_;
  }

 private:
  uint64_t blocks_, left_;    // of a tile, and of the one that is asked for
  uintptr_t scales_, codes_;  // addresses, as there need not be anything
  const WeightStream &stream_;
};

// What is asked for at a block's turn, while a tile is multiplied with T tokens: as much as a block has, counted from
// where the codes begin. Counted from the scales, the codes of a long row would be asked for when they are past.
template <class Format, int T>
struct BlockRequests {
  const TileView &tile;

  explicit BlockRequests(const TileView &tile) : tile(tile) {}

  [[gnu::always_inline]] void ask(uint64_t block) const {
    if constexpr (kAsksForBlocks<Format>) {
      prefetch_for<Format, T>(tile.block_bytes + block * Format::kShareBytes, Format::kShareBytes, tile.stream);
    }
  }
};

// Where scales are many, as every 32 columns have one or two: exactly what is read then. More tokens or 8 bits a weight
// are slower with that (docs/cpu-kernels.md).
template <class Format, int T>
requires(T <= 2 && Format::kGroups == 1 && Format::kBits < 8 &&
         kAsksForBlocks<Format>) struct BlockRequests<Format, T> {
  BlocksAhead<Format> far, near;

  explicit BlockRequests(const TileView &tile) : far(tile, kFarAhead<Format>), near(tile, kNearAhead<Format>) {}

  [[gnu::always_inline]] void ask(uint64_t) {
    ask_for_both<Format>(
        [&]() __attribute__((always_inline)) { far.ask(); }, [&]() __attribute__((always_inline)) { near.ask(); });
  }
};

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

template <class Format, int T>
void multiply_tile(const TileView &tile, const TokenView<T> &tokens, F32x16 (&y)[T]) {
  BlockRequests<Format, T> requests(tile);
  for (uint64_t block = 0; block < tile.blocks; ++block) {
    const uint8_t *bytes = tile.block_bytes + block * Format::kBlockStride;
    const uint8_t *share = tile.scales + block * Format::kShareBytes;
    requests.ask(block);
    multiply_block<Format>(tile, block, {.bytes = bytes, .odd = tile.odd, .share = share}, tokens,
                           tile.first_block + block, y);
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
        store_bytes(to, load_words<Strips>({.bytes = from, .odd = view.odd, .share = nullptr}, 0));
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
  const uint32_t fitting = static_cast<uint32_t>(kTokenBlockBytes / work.token_bytes) / kMaxTokens * kMaxTokens;
  const uint32_t block = fitting > 0 ? fitting : kMaxTokens;
  for (uint32_t first = 0; first < args.n; first += block) {
    const uint32_t last = args.n - first < block ? args.n : first + block;
    for (uint64_t tile = args.first_row / kTileRows; tile * kTileRows < args.last_row; ++tile) {
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
