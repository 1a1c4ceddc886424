// What products of pairs of tiles with many vectors share: their sums, and asking for weights in time. Part of a tier:
// see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/panels.inl.h"
#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Asks the second-level cache for some blocks of a pair, one of `parts` parts of them at a time: many requests at once
// wait for each other. All always inline: see prefetch_at.
template <CodeLayout kLayout, uint32_t kBlocks>
class PieceAhead {
 public:
  using Pair = WeightPair<kLayout, UnpackedBytes::kUnsigned>;

  // Of nothing.
  PieceAhead() = default;

  [[gnu::always_inline]] PieceAhead(const Pair &pair, uint64_t block, uint32_t parts) {
    for (int half = 0; half < kPairTiles; ++half) {
      lines_[half] = Lines(pair.scales(half, block), kBlocks * TilePlace::block_stride(kLayout), parts);
    }
  }

  // The next part.
  [[gnu::always_inline]] void ask() {
    for (Lines &of_tile : lines_) of_tile.ask();
  }

 private:
  // Whole lines, so many of them for each part.
  class Lines {
   public:
    Lines() = default;
    [[gnu::always_inline]] Lines(const uint8_t *from, size_t bytes, uint32_t parts) : next_(from) {
      left_ = static_cast<uint32_t>((bytes + kPackedAlignment - 1) / kPackedAlignment);
      of_part_ = (left_ + parts - 1) / parts;
    }

    [[gnu::always_inline]] void ask() {
      for (uint32_t i = std::min(left_, of_part_); i > 0; --i, --left_, next_ += kPackedAlignment) {
        __builtin_prefetch(next_, 0, 2);
      }
    }

   private:
    const uint8_t *next_ = nullptr;
    uint32_t left_ = 0, of_part_ = 0;
  };

  Lines lines_[kPairTiles];
};

// In a strip, a pair's lines lie between those of others, block by block.
template <CodeLayout kLayout, uint32_t kBlocks>
requires(kLayout.base_three) class PieceAhead<kLayout, kBlocks> {
 public:
  using Pair = WeightPair<kLayout, UnpackedBytes::kUnsigned>;

  PieceAhead() = default;
  [[gnu::always_inline]] PieceAhead(const Pair &pair, uint64_t block, uint32_t parts)
      : pair_(&pair), next_(block), left_(kRequests), of_part_((kRequests + parts - 1) / parts) {}

  [[gnu::always_inline]] void ask() {
    for (uint32_t i = std::min(left_, of_part_); i > 0; --i, --left_) ask_next();
  }

 private:
  // A block's scales; then of each unit its words, and its rests.
  static constexpr uint32_t kOfUnit = kTritUnitWords + 1, kOfBlock = 1 + kLayout.trit_units() * kOfUnit;
  static constexpr uint32_t kRequests = kBlocks * kOfBlock;

  [[gnu::always_inline]] void ask_next() {
    const uint32_t place = in_block_;
    if (++in_block_ == kOfBlock) in_block_ = 0;
    const uint64_t block = next_;
    if (in_block_ == 0) ++next_;
    if (place == 0) return __builtin_prefetch(pair_->scales(0, block), 0, 2);
    const PairOfUnits unit = pair_->unit_of(block, (place - 1) / kOfUnit);
    const uint32_t word = (place - 1) % kOfUnit;
    __builtin_prefetch(word < kTritUnitWords ? unit.words + word * kTritWordStride : unit.rests, 0, 2);
  }

  const Pair *pair_ = nullptr;
  uint64_t next_ = 0;
  uint32_t left_ = 0, of_part_ = 0, in_block_ = 0;
};

struct VectorRange {
  uint32_t first, last;
};

// Sums of a pair of tiles, of 16 rows each, with vectors [first, first + n) of args, at most kMostInPanels. Between
// passes over some of the columns they lie where the results belong.
class PairSums {
 public:
  PairSums(const MatmulArgs &args, uint32_t first, uint32_t n) : args_(args), first_(first), n_(n) {}

  uint64_t first_pair() const { return first_tile() / kPairTiles * kPairTiles; }
  uint64_t end_tile() const { return (args_.last_row + kTileRows - 1) / kTileRows; }

  float *of(uint32_t half, uint32_t vector) { return sums_[half][vector]; }

  // Those of some vectors: with all of them stored at once, the lines that they go to are waited for.
  void load_pair(uint64_t pair, VectorRange of) {
    each(pair, of, [](uint32_t, float *sum, const float *result) { store(sum, load(result)); });
  }

  // finish(vector, sum) makes them results.
  template <class Finish>
  void store_pair(uint64_t pair, VectorRange of, const Finish &finish) {
    each(pair, of, [&](uint32_t t, const float *sum, float *result) { store(result, finish(t, load(sum))); });
  }

  // Once all pairs are done.
  void store_edges() {
    for (const uint64_t tile : {first_tile(), end_tile() - 1}) {
      if (is_whole(tile)) continue;
      const Results results = results_of(tile);
      for (uint32_t t = 0; t < n_; ++t) store_tile(args_, first_ + t, tile, load(results.y + t * results.stride));
    }
  }

 private:
  using OfTile = float[kMostInPanels][kTileRows];

  // Where a tile's results lie, the first row's of the first vector.
  struct Results {
    float *y;
    size_t stride;  // from vector to vector
  };

  uint64_t first_tile() const { return args_.first_row / kTileRows; }
  bool is_whole(uint64_t tile) const {
    return tile * kTileRows >= args_.first_row && (tile + 1) * kTileRows <= args_.last_row;
  }

  // Tiles of which not all rows are asked for, the first and the last one, have a place of their own.
  Results results_of(uint64_t tile) {
    if (!is_whole(tile)) return {edges_[tile == first_tile() ? 0 : 1][0], kTileRows};
    return {args_.y + first_ * args_.y_stride + (tile * kTileRows - args_.first_row), args_.y_stride};
  }

  // Calls body(vector, sum, place of its result) for those of a pair that are asked for. Results of different vectors
  // lie as far apart as a row is long, often in the same set of the first-level cache: so that is done once a pass.
  template <class Body>
  void each(uint64_t pair, VectorRange of, const Body &body) {
    for (uint64_t tile = std::max(pair, first_tile()); tile < std::min(pair + kPairTiles, end_tile()); ++tile) {
      const Results results = results_of(tile);
      for (uint32_t t = of.first; t < std::min(of.last, n_); ++t) {
        body(t, sums_[tile - pair][t], results.y + t * results.stride);
      }
    }
  }

  const MatmulArgs &args_;
  const uint32_t first_, n_;
  alignas(kPackedAlignment) OfTile sums_[kPairTiles];
  alignas(kPackedAlignment) OfTile edges_[2];
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
