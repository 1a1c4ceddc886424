// Matrices of FP8 times many vectors, from panels: y = W x for pairs of tiles of 16 rows and some vectors at a time.
// Codes become floats once for all vectors, and what is left to do for 16 weights and a vector is one fma, whose other
// factor a load repeats for both tiles. The sums are those of f8_matmul.inl.h, and so are the bytes. Part of a tier:
// see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/f8_matmul.inl.h"
#include "plugins/cpu/kernels/f8_panels.inl.h"
#include "plugins/cpu/kernels/pair_work.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// A pair's weights that are floats at a time, in a third of the first-level cache, and the columns of all panels.
constexpr uint32_t kF8PieceColumns = 128;
constexpr uint32_t kF8PassColumns = 768;

static_assert(kMostInPanels % kF8PanelVectors == 0);  // what is multiplied in one go begins with a panel

template <int kMantissaBits>
class F8PanelProduct {
 public:
  // Whether all of args' vectors may be multiplied here.
  static bool takes(const MatmulArgs &args) {
    for (uint32_t first = 0; first < args.n; first += kF8PanelVectors) {
      if (!panel_of(args, first).head().takes_lifted) return false;
    }
    return true;
  }

  // n vectors of args, at most kMostInPanels, from `first` on, with which a panel begins.
  F8PanelProduct(const MatmulArgs &args, uint32_t first, uint32_t n)
      : args_(args), first_(first), n_(n), sums_(args, first, n) {}

  void multiply() {
    for (uint64_t column = 0; column < columns(); column += kF8PassColumns) {
      const auto n = static_cast<uint32_t>(std::min<uint64_t>(kF8PassColumns, columns() - column));
      for (uint64_t tile = sums_.first_pair(); tile < sums_.end_tile(); tile += kPairTiles) {
        multiply_pair(tile, column, n);
      }
    }
    sums_.store_edges();
  }

 private:
  using Work = F8Codes<kMantissaBits>;
  using Pair = WeightPair<kF8Layout, UnpackedBytes::kUnsigned>;
  using Panel = F8Panel<const std::byte>;
  static constexpr uint32_t kBlocks = kF8PieceColumns / kF8Columns;

  uint64_t columns() const { return args_.matrix->columns; }
  uint32_t panels() const { return (n_ + kF8PanelVectors - 1) / kF8PanelVectors; }

  // That of a vector.
  static Panel panel_of(const MatmulArgs &args, uint32_t vector) {
    return {args.panels, args.matrix->columns, vector / kF8PanelVectors};
  }

  void multiply_pair(uint64_t tile, uint64_t column, uint32_t n) {
    using Ahead = PieceAhead<kF8Layout, kBlocks>;
    const Pair pair(*args_.matrix, tile), then(*args_.matrix, std::min(tile + kPairTiles, sums_.end_tile() - 1));
    const bool ends = column + n == columns();
    for (uint32_t piece = 0; piece < n; piece += kF8PieceColumns) {
      const uint64_t block = (column + piece) / kF8Columns;
      const uint32_t blocks = std::min(kF8PieceColumns, n - piece) / kF8Columns;
      unpack(pair, block, blocks);
      const bool is_last = piece + kF8PieceColumns >= n;
      Ahead ahead = !is_last                               ? Ahead(pair, block + kBlocks, panels())
                    : tile + kPairTiles < sums_.end_tile() ? Ahead(then, column / kF8Columns, panels())
                                                           : Ahead();
      for (uint32_t panel = 0; panel < panels(); ++panel) {
        ahead.ask();
        const VectorRange of_panel = {panel * kF8PanelVectors, (panel + 1) * kF8PanelVectors};
        const Panel vectors = panel_of(args_, first_ + of_panel.first);
        const auto finish = [&](uint32_t t, F32x16 sum) {
          const int exponent = vectors.head().exponents[t - of_panel.first];
          return ends ? canonical_nan(times_power_of_two(sum, Work::kTooSmall - exponent)) : sum;
        };
        if (column > 0 && piece == 0) sums_.load_pair(tile, of_panel);
        with_width(n_ - panel * kF8PanelVectors, [&]<uint32_t S>(std::integral_constant<uint32_t, S>) {
          multiply_piece<S>(vectors.columns() + column + piece, blocks, block == 0, of_panel.first);
        });
        if (is_last) sums_.store_pair(tile, of_panel, finish);
      }
    }
  }

  void unpack(const Pair &pair, uint64_t block, uint32_t blocks) {
    for (uint32_t i = 0; i < blocks; ++i) {
      pair.unpack_scales(block + i, scales_[i]);
      for (int half = 0; half < kPairTiles; ++half) {
        const uint8_t *codes = pair.block(half, block + i);
        for (size_t word = 0; word < Work::kWords; ++word) {
          Lanes values[4];
          load_f8<kMantissaBits>(codes + word * kTileRows * 4, values);
          for (uint32_t j = 0; j < 4; ++j)
            store(weights_[i][4 * word + j][half], mul(values[j], power_of_two(kF8Lift)));
        }
      }
    }
  }

  // Calls body(how many vectors of a panel are multiplied), of which n are left.
  template <class Body>
  static void with_width(uint32_t n, const Body &body) {
    if (n > 4) return body(std::integral_constant<uint32_t, kF8PanelVectors>());
    if (n > 2) return body(std::integral_constant<uint32_t, 4>());
    body(std::integral_constant<uint32_t, 2>());
  }

  // The blocks in weights_ times S vectors of a panel: begins their sums, or adds to them.
  template <uint32_t S>
  [[gnu::noinline]] void multiply_piece(const float (*x)[kF8PanelVectors], uint32_t blocks, bool begins,
                                        uint32_t vector) {
    F32x16 y[kPairTiles][S];
#pragma GCC unroll 2
    for (uint32_t half = 0; half < kPairTiles; ++half) {
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) y[half][s] = begins ? splat(0.0f) : load(sums_.of(half, vector + s));
    }
#pragma GCC unroll 1
    for (uint32_t block = 0; block < blocks; ++block) {
      F32x16 of_block[kPairTiles][S];
#pragma GCC unroll 2
      for (auto &of_tile : of_block) {
#pragma GCC unroll 6
        for (F32x16 &sum : of_tile) sum = splat(0.0f);
      }
#pragma GCC unroll 4
      for (uint32_t i = 0; i < kF8Columns; ++i, ++x) {
        const F32x16 first = load(weights_[block][i][0]), second = load(weights_[block][i][1]);
#pragma GCC unroll 6
        for (uint32_t s = 0; s < S; ++s) {
          const F32x16 value = splat((*x)[s]);
          of_block[0][s] = fma(first, value, of_block[0][s]);
          of_block[1][s] = fma(second, value, of_block[1][s]);
        }
      }
#pragma GCC unroll 2
      for (uint32_t half = 0; half < kPairTiles; ++half) {
        const F32x16 scale = load(scales_[block][0][half]);
#pragma GCC unroll 6
        for (uint32_t s = 0; s < S; ++s) y[half][s] = fma(of_block[half][s], scale, y[half][s]);
      }
    }
#pragma GCC unroll 2
    for (uint32_t half = 0; half < kPairTiles; ++half) {
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) store(sums_.of(half, vector + s), y[half][s]);
    }
  }

  const MatmulArgs &args_;
  const uint32_t first_, n_;
  alignas(kPackedAlignment) float weights_[kBlocks][kF8Columns][kPairTiles][kTileRows];
  alignas(kPackedAlignment) float scales_[kBlocks][1][kPairTiles][kTileRows];
  PairSums sums_;
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
