// The vectors of a product in tile registers, and what becomes of their results. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kTileTokens = 16;   // rows of a register
constexpr uint32_t kMostTokens = 128;  // whose results so far lie in the cache

// Vectors in tiles of equal size, as many as a register has rows at most. The last tile may begin among those before.
class TokenTiles {
 public:
  explicit TokenTiles(uint32_t n)
      : n_(n), count_((n + kTileTokens - 1) / kTileTokens), size_((n + count_ - 1) / count_) {}
  uint32_t count() const { return count_; }
  uint32_t size() const { return size_; }
  uint32_t first(uint32_t tile) const { return std::min(tile * size_, n_ - size_); }

 private:
  uint32_t n_, count_, size_;
};

// A product of n vectors from `first` on, with its sizes worked out.
struct TileWork {
  const MatmulArgs &args;
  uint32_t first;
  TokenTiles tokens;
  size_t row_bytes;  // of a quantised vector
  uint64_t blocks;
  WeightStream stream;

  TileWork(const MatmulArgs &args, CodeLayout layout, uint32_t first, uint32_t n)
      : args(args),
        first(first),
        tokens(n),
        row_bytes(quantized_row_bytes(layout.activations, args.matrix->columns)),
        blocks(args.matrix->columns / layout.columns()),
        stream(args, layout) {}

  // The part of a quantised vector that a block is multiplied with, of the first one of a tile and those behind it.
  ConstQuantizedRow row(ActivationLayout layout, uint32_t tile, uint32_t t, uint64_t block) const {
    const std::byte *bytes = args.quantized_rows + (first + tokens.first(tile) + t) * row_bytes;
    return ConstQuantizedRow(bytes, args.matrix->columns, layout).from(block, layout);
  }
};

// Results (tiles of vectors, vectors, kTiles, 16 rows) of tiles from `tile` on, as far as they are asked for.
template <int kTiles>
void store_results(const TileWork &work, const float *y, uint64_t tile) {
  const MatmulArgs &args = work.args;
  for (uint32_t i = 0; i < work.tokens.count(); ++i) {
    for (uint32_t t = 0; t < work.tokens.size(); ++t) {
      for (int of_rows = 0; of_rows < kTiles; ++of_rows, y += kTileRows) {
        const uint64_t first_row = (tile + of_rows) * kTileRows;
        if (first_row + kTileRows <= args.first_row || first_row >= args.last_row) continue;
        store_tile(args, work.first + work.tokens.first(i) + t, tile + of_rows, canonical_nan(load(y)));
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
