// Some tiles of integer codes side by side times one or two vectors, block by block: weights come from several places
// of the memory at a time, which a processor may read faster than one after the other (docs/cpu-kernels.md, "Tiles side
// by side"). Part of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/codes_block.inl.h"
#include "plugins/cpu/kernels/packed_matrix.h"
#include "plugins/cpu/kernels/prefetch.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How far ahead of each tile's weights they are asked for: a whole number of blocks, at least so many bytes.
constexpr size_t kAheadSideBySide = 2048;

// Tiles at a time. Of larger blocks, as much as that of four would be more than what a core keeps asking for.
template <class Format>
constexpr int kTilesSideBySide = Format::kBlockStride < 2048   ? 4
                                 : Format::kBlockStride < 4096 ? 2
                                                               : 1;

// With fewer registers nobody has measured it.
template <class Format>
constexpr bool kGoesSideBySide = kMaxTokens >= 8 && !Format::kStrips && 1 < kTilesSideBySide<Format>;

// What lies some blocks ahead in tiles that follow each other: behind their ends, that is in the next ones.
template <class Format>
class TilesAhead {
 public:
  static constexpr int kTiles = kTilesSideBySide<Format>;

  explicit TilesAhead(const TileView &first)
      : blocks_(first.blocks),
        tile_bytes_(TilePlace::strip_bytes(Format::kLayout, first.blocks)),
        stream_(first.stream) {
    constexpr uint64_t kBlocks = (kAheadSideBySide + Format::kBlockStride - 1) / Format::kBlockStride;
    const uint64_t tiles = kBlocks / blocks_ * kTiles, rest = kBlocks % blocks_;
    next_ = reinterpret_cast<uintptr_t>(first.scales) + tiles * tile_bytes_ + rest * Format::kBlockStride;
    left_ = blocks_ - rest;
  }

  size_t tile_bytes() const { return tile_bytes_; }

  // A block's address, as there need not be anything.
  uintptr_t block(int tile) const { return stream_.place(next_ + tile * tile_bytes_); }

  // Asks for a block of each, but for super-blocks, which are asked for part by part.
  [[gnu::always_inline]] void ask() const {
    if constexpr (Format::kSubBlocks > 0) return;
    asm volatile("" ::: "memory");  // all of it together: see ask_for_both
#pragma GCC unroll 4
    for (int i = 0; i < kTiles; ++i) prefetch_at<Format>(block(i), Format::kBlockStride);
    asm volatile("" ::: "memory");
  }

  [[gnu::always_inline]] void go_on() {
    next_ += Format::kBlockStride;
    if (--left_ > 0) return;
    next_ += kTiles * tile_bytes_ - blocks_ * Format::kBlockStride;
    left_ = blocks_;
  }

 private:
  uint64_t blocks_, left_;  // of a tile, and of those that are asked for
  size_t tile_bytes_;
  uintptr_t next_;  // of the first of them
  const WeightStream &stream_;
};

// As many tiles from `first` on times T vectors.
template <class Format, int T>
void multiply_tiles(const TileView &first, const TokenView<T> &tokens, F32x16 (&y)[kTilesSideBySide<Format>][T]) {
  TilesAhead<Format> ahead(first);
  for (auto &of_tile : y) {
    for (F32x16 &sum : of_tile) sum = splat(0.0f);
  }
#pragma GCC unroll 1
  for (uint64_t block = 0; block < first.blocks; ++block) {
    ahead.ask();
#pragma GCC unroll 4
    for (int i = 0; i < kTilesSideBySide<Format>; ++i) {
      TileView tile = first;
      tile.scales += i * ahead.tile_bytes();
      tile.block_bytes += i * ahead.tile_bytes();
      const GroupView view = {
          .bytes = tile.block_bytes + block * Format::kBlockStride, .odd = false, .asked = ahead.block(i)};
      multiply_block<Format>(tile, block, view, tokens, block, y[i]);
    }
    ahead.go_on();
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
