// Tiles of integer codes side by side times a few vectors, block by block: weights come from several places of the
// memory at a time, which a processor may read faster than one after the other (docs/cpu-decoding.md, "Tiles side by
// side", "Long streams"). Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/codes_block.inl.h"
#include "plugins/cpu/kernels/streams_ahead.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Tiles at a time, of T vectors, which is also the number of streams. Of larger blocks, as much as that of four would
// be more than what a core keeps asking for; of more vectors, sums of more than two would have no registers.
template <class Format>
constexpr int most_side_by_side(int vectors) {
  constexpr int kOfBytes = Format::kBlockStride < 2048 ? 4 : Format::kBlockStride < 4096 ? 2 : 1;
  if (vectors <= 2) return kOfBytes;
  constexpr bool kHasSumsOfGroups = Format::kGroups > 1 && Format::kSubBlocks == 0;
  return kHasSumsOfGroups ? 1 : std::min(kOfBytes, 2);
}
template <class Format, int T>
constexpr int kTilesSideBySide = most_side_by_side<Format>(T);

// With fewer registers nobody has measured it.
template <class Format>
constexpr bool kGoesSideBySide = kMaxTokens >= 8 && !Format::kStrips && 1 < kTilesSideBySide<Format, 1>;

// Whether tiles go side by side with four vectors, too: where what is to be done for each byte is little.
template <class Format>
constexpr bool kTakesFourSideBySide = Format::kBits + Format::kHighBits >= 6;

// `first` and the tiles that lie `apart` bytes from each other times T vectors.
template <class Format, int kTiles, int T>
[[gnu::always_inline]] inline void multiply_tiles(const TileView &first, size_t apart, const TokenView<T> &tokens,
                                                  StreamsAhead<Format, kTiles> &ahead, F32x16 (&y)[kTiles][T]) {
  for (auto &of_tile : y) {
    for (F32x16 &sum : of_tile) sum = splat(0.0f);
  }
#pragma GCC unroll 1
  for (uint64_t block = 0; block < first.blocks; ++block) {
    if constexpr (Format::kSubBlocks == 0) ahead.ask();  // super-blocks: part by part
#pragma GCC unroll 4
    for (int i = 0; i < kTiles; ++i) {
      TileView tile = first;
      tile.scales += i * apart;
      tile.block_bytes += i * apart;
      const GroupView view = {
          .bytes = tile.block_bytes + block * Format::kBlockStride, .odd = false, .asked = ahead.block(i)};
      multiply_block<Format>(tile, block, view, tokens, block, y[i]);
    }
    ahead.go_on();
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
