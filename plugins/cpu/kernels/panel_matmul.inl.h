// Matrices of integer codes times many vectors of int8 activations, from panels: y = W x for tiles of 16 rows and 12
// vectors at a time. Weights are unpacked once for all vectors, to unsigned bytes; what is left to do for each of 64
// weights and a vector is one product, whose other factor a load repeats. The integers are those that
// codes_matmul.inl.h gets, and so are the bytes. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/panels.inl.h"
#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kPieceGroups = kPieceColumns / kActivationGroup;

// A piece of a pair of tiles.
template <CodeLayout kLayout>
struct PanelWeights {
  using Format = PanelFormat<kLayout>;
  using Pair = WeightPair<kLayout, UnpackedBytes::kUnsigned>;
  static constexpr uint32_t kBlocks = kPieceColumns / Format::kColumns;
  static constexpr uint32_t kSubBlocks = Format::kSubBlocks ? kLayout.sub_blocks : 0;

  alignas(64) GroupCodes codes[kPieceGroups];
  alignas(64) float scales[kBlocks][kLayout.scales()][kPairTiles][kTileRows];
  alignas(64) int32_t factors[kSubBlocks > 0 ? kBlocks : 0][kPairTiles][kSubBlocks][kTileRows];
  alignas(64) int16_t minima[kBlocks][kPairTiles][Format::kSums / 2][2 * kTileRows];  // for pairs of sums

  void unpack(const Pair &pair, uint64_t block, uint32_t blocks) {
    for (uint32_t i = 0; i < blocks; ++i) {
      pair.unpack_scales(block + i, scales[i]);
      if constexpr (Format::kSubBlocks) {
        for (int half = 0; half < kPairTiles; ++half) unpack_super_block(pair.block(half, block + i), i, half);
      } else {
        pair.unpack_block(block + i, codes + i * Format::kGroups);
      }
    }
  }

 private:
  // As dot_sub_blocks walks through it.
  void unpack_super_block(const uint8_t *bytes, uint32_t block, int half) {
    using Packed = Codes<kLayout>;
    const uint8_t *from = bytes + Packed::kIntegersBytes;
    const uint8_t *highs = from + 64 * Packed::kVectors * Packed::kGroups;
    uint32_t step = block * Format::kColumns / 4;
    for (uint32_t pair = 0; pair < kSubBlocks / 2; ++pair, highs += 32 * Packed::kRunsOfPair) {
      const I16x32 integers = pair_scales<Packed>(bytes, static_cast<int>(pair));
      store_i32(factors[block][half][2 * pair], even_lanes_only(integers));
      store_i32(factors[block][half][2 * pair + 1], odd_lanes_only(integers));
      if constexpr (Format::kSums > 0) unpack_minima(bytes, pair, minima[block][half]);
#pragma GCC unroll 4
      for (int run = 0; run < Packed::kRunsOfPair; ++run, from += 64 * Packed::kRunVectors) {
        const Bytes64 high_bits = high_bits_of_run<Packed>(highs + run / 2 * 64, run % 2 != 0);
        each_code_of_run<Packed, UnpackedBytes::kUnsigned>(
            {from, false, nullptr}, high_bits, [&](Bytes64 bytes_of_run) {
              store_bytes(codes[step / 8][half] + step % 8 * 64, bytes_of_run);
              ++step;
            });
      }
    }
  }

  static void unpack_minima(const uint8_t *bytes, uint32_t pair, int16_t (&to)[Format::kSums / 2][2 * kTileRows]) {
    const I16x32 integers = pair_minima<Codes<kLayout>>(bytes, static_cast<int>(pair));
    if constexpr (Format::kSums == kSubBlocks) {
      store_i16(to[pair], integers);
    } else {
      store_i16(to[2 * pair], repeat_even(integers));
      store_i16(to[2 * pair + 1], repeat_odd(integers));
    }
  }
};

template <CodeLayout kLayout>
class PanelProduct {
 public:
  // n vectors of args, at most kMostInPanels, from `first` on.
  PanelProduct(const MatmulArgs &args, uint32_t first, uint32_t n)
      : args_(args),
        first_(first),
        panels_(n),
        row_bytes_(quantized_row_bytes(kLayout.activations, args.matrix->columns)) {}

  void multiply() {
    for (uint64_t block = 0; block < all_blocks(); block += kBlocks) {
      const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(kBlocks, all_blocks() - block));
      fill_panels(block, blocks);
      for (uint64_t tile = first_pair(); tile < end_tile(); tile += kPairTiles) {
        weights_.unpack(Pair(*args_.matrix, tile), block, blocks);
        multiply_pair(tile, block, blocks);
      }
    }
    store_edges();
  }

 private:
  using Format = PanelFormat<kLayout>;
  using Weights = PanelWeights<kLayout>;
  using Pair = typename Weights::Pair;
  static constexpr uint32_t kBlocks = Weights::kBlocks;
  template <uint32_t T>
  using Block = PanelBlock<kLayout, T>;

  // Where a tile's results lie, the first row's of the first vector.
  struct TileResults {
    float *y;
    size_t stride;  // from vector to vector
  };

  uint64_t first_tile() const { return args_.first_row / kTileRows; }
  uint64_t first_pair() const { return first_tile() / kPairTiles * kPairTiles; }
  uint64_t all_blocks() const { return args_.matrix->columns / Format::kColumns; }
  uint64_t end_tile() const { return (args_.last_row + kTileRows - 1) / kTileRows; }
  bool is_whole(uint64_t tile) const {
    return tile * kTileRows >= args_.first_row && (tile + 1) * kTileRows <= args_.last_row;
  }

  // Tiles of which not all rows are asked for, the first and the last one, have a place of their own.
  TileResults results_of(uint64_t tile) {
    if (!is_whole(tile)) return {edges_[tile == first_tile() ? 0 : 1][0], kTileRows};
    return {args_.y + first_ * args_.y_stride + (tile * kTileRows - args_.first_row), args_.y_stride};
  }

  template <uint32_t T>
  Block<T> *blocks_of(uint32_t panel) {
    return reinterpret_cast<Block<T> *>(bytes_[panel]);
  }

  void fill_panels(uint64_t block, uint32_t blocks) {
    for (uint32_t panel = 0; panel < panels_.count(); ++panel) {
      const std::byte *first = args_.quantized_rows + (first_ + panels_.first(panel)) * row_bytes_;
      const auto row = [&](uint32_t t) {
        return ConstQuantizedRow(first + t * row_bytes_, args_.matrix->columns, kLayout.activations);
      };
      panels_.with_width(panel, [&]<uint32_t T>(std::integral_constant<uint32_t, T>) {
        for (uint32_t i = 0; i < blocks; ++i) blocks_of<T>(panel)[i].fill(row, block + i, panels_.vectors(panel));
      });
    }
  }

  // The piece of the pair that is in weights_, times all panels.
  void multiply_pair(uint64_t tile, uint64_t block, uint32_t blocks) {
    const uint64_t begin = std::max(tile, first_tile()), end = std::min(tile + kPairTiles, end_tile());
    for (uint32_t panel = 0; panel < panels_.count(); ++panel) {
      panels_.with_width(panel, [&]<uint32_t T>(std::integral_constant<uint32_t, T>) {
        for (uint64_t i = begin; i < end; ++i) {
          TileResults results = results_of(i);
          results.y += panels_.first(panel) * results.stride;
          multiply_tile(blocks_of<T>(panel), static_cast<int>(i - tile), blocks, block == 0, results,
                        panels_.vectors(panel));
        }
      });
    }
  }

  // Adds a tile's blocks times a panel to its results, or begins them.
  template <uint32_t T>
  [[gnu::noinline]] void multiply_tile(const Block<T> *panel, int half, uint32_t blocks, bool begins,
                                       TileResults results, uint32_t n) const {
    F32x16 y[T];
    const auto place = [&](uint32_t t) { return results.y + std::min(t, n - 1) * results.stride; };
    for (uint32_t t = 0; t < T; ++t) y[t] = begins ? splat(0.0f) : load(place(t));
    if constexpr (Format::kOneGroup) {
      multiply_groups(panel, half, blocks, y);
    } else {
      multiply_blocks(panel, half, blocks, y);
    }
    // The last of equal places has what belongs there.
    for (uint32_t t = T; t-- > 0;) store(place(t), canonical_nan(y[t]));
  }

  // Adds a run's products, from a step of four columns on.
  template <uint32_t T>
  [[gnu::always_inline]] static void dot_run(const int8_t *weights, const int32_t (*codes)[T], DotSum (&sums)[T]) {
#pragma GCC unroll 8
    for (uint32_t step = 0; step < Format::kRun / 4; ++step) {
      const Bytes64 of_rows = load_bytes(weights + 64 * step);
#pragma GCC unroll 12
      for (uint32_t t = 0; t < T; ++t) sums[t] = dot4(sums[t], of_rows, splat_4_bytes(&codes[step][t]));
    }
  }

  static I16x32 splat_word(const int32_t &word) { return splat_pair(reinterpret_cast<const int16_t *>(&word)); }

  // Blocks of one group. Results stay in registers.
  template <uint32_t T>
  [[gnu::always_inline]] void multiply_groups(const Block<T> *panel, int half, uint32_t blocks, F32x16 (&y)[T]) const {
#pragma GCC unroll 1
    for (uint32_t i = 0; i < blocks; ++i, ++panel) {
      DotSum dots[T];
#pragma GCC unroll 12
      for (uint32_t t = 0; t < T; ++t) {
        dots[t] = Format::kMinima ? zero_dot_sum() : begin_dot_sum(splat_i32(panel->starts[0][t]));
      }
      dot_run(weights_.codes[i][half], panel->codes, dots);
      const F32x16 d = load(weights_.scales[i][0][half]);
#pragma GCC unroll 12
      for (uint32_t t = 0; t < T; ++t) {
        const F32x16 scale = splat(panel->scales[t]);
        y[t] = fma(to_f32(end_dot_sum(splat_i32(0), dots[t])), mul(d, scale), y[t]);
        if constexpr (Format::kMinima) {
          float sum;
          memcpy(&sum, &panel->starts[0][t], sizeof sum);
          y[t] = fma(splat(sum), mul(load(weights_.scales[i][1][half]), scale), y[t]);
        }
      }
    }
  }

  // Blocks of several groups. What registers hold are the sums of runs and of blocks.
  template <uint32_t T>
  [[gnu::always_inline]] void multiply_blocks(const Block<T> *panel, int half, uint32_t blocks, F32x16 (&y)[T]) const {
#pragma GCC unroll 1
    for (uint32_t i = 0; i < blocks; ++i, ++panel) {
      I32x16 totals[T];
#pragma GCC unroll 12
      for (uint32_t t = 0; t < T; ++t) totals[t] = splat_i32(Format::kBlocksStart ? panel->starts[0][t] : 0);
#pragma GCC unroll 1
      for (uint32_t group = 0; group < Format::kGroups; ++group) {
#pragma GCC unroll 2
        for (uint32_t j = 0; j < Format::kFactors; ++j) add_runs(*panel, i, half, group, j, totals);
      }
      asm volatile("" : : "r"(y) : "memory");  // their place: GCC would copy all of them to the stack and back
      add_block(*panel, i, half, totals, y);
    }
  }

  // The runs of a group, or of its sub-block j, times its integer and the sub-block's.
  template <uint32_t T>
  [[gnu::always_inline]] void add_runs(const Block<T> &panel, uint32_t block, int half, uint32_t group, uint32_t j,
                                       I32x16 (&totals)[T]) const {
    const int8_t *weights =
        weights_.codes[block * Format::kGroups + group][half] + j * Format::kFactorColumns * kTileRows;
    const uint32_t first_run = (group * Format::kFactors + j) * Format::kRunsOfFactor;
    I16x32 factors[T];
#pragma GCC unroll 4
    for (uint32_t run = 0; run < Format::kRunsOfFactor; ++run, weights += Format::kRun * kTileRows) {
      DotSum sums[T];
#pragma GCC unroll 12
      for (uint32_t t = 0; t < T; ++t) {
        sums[t] = Format::kRunsStart ? begin_dot_sum(splat_i32(panel.starts[first_run + run][t])) : zero_dot_sum();
      }
      dot_run(weights, panel.codes + (first_run + run) * Format::kRun / 4, sums);
#pragma GCC unroll 12
      for (uint32_t t = 0; t < T; ++t) {
        if (run == 0) factors[t] = factor_of(panel, t, block, half, group, j);
        totals[t] = dot2(totals[t], words_of(sums[t]), factors[t]);
      }
    }
  }

  template <uint32_t T>
  [[gnu::always_inline]] I16x32 factor_of(const Block<T> &panel, uint32_t t, uint32_t block, int half, uint32_t group,
                                          uint32_t j) const {
    const I16x32 multiplier = splat_word(panel.multipliers[group][t]);
    if constexpr (!Format::kSubBlocks) return multiplier;
    return mul_words(load_i16(weights_.factors[block][half][group * Format::kFactors + j]), multiplier);
  }

  template <uint32_t T>
  [[gnu::always_inline]] void add_block(const Block<T> &panel, uint32_t block, int half, const I32x16 (&totals)[T],
                                        F32x16 (&y)[T]) const {
    const F32x16 d = load(weights_.scales[block][0][half]);
#pragma GCC unroll 12
    for (uint32_t t = 0; t < T; ++t) {
      const F32x16 scale = splat(panel.scales[t]);
      F32x16 result = fma(to_f32(totals[t]), mul(d, scale), y[t]);
      if constexpr (Format::kSums > 0) {
        I32x16 sum = splat_i32(0);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < Format::kSums / 2; ++i) {
          sum = dot2(sum, load_i16(weights_.minima[block][half][i]), splat_word(panel.sums[i][t]));
        }
        const F32x16 minimum = load(weights_.scales[block][1][half]);
        result = fma(to_f32(sub(splat_i32(0), sum)), mul(minimum, scale), result);
      }
      y[t] = result;
    }
  }

  void store_edges() {
    for (const uint64_t tile : {first_tile(), end_tile() - 1}) {
      if (is_whole(tile)) continue;
      const TileResults results = results_of(tile);
      for (uint32_t panel = 0; panel < panels_.count(); ++panel) {
        for (uint32_t t = 0; t < panels_.vectors(panel); ++t) {
          const uint32_t vector = panels_.first(panel) + t;
          store_tile(args_, first_ + vector, tile, load(results.y + vector * results.stride));
        }
      }
    }
  }

  const MatmulArgs &args_;
  const uint32_t first_;
  const PanelDivision panels_;
  const size_t row_bytes_;
  Weights weights_;
  alignas(64) std::byte bytes_[kMostPanels][kBlocks * sizeof(Block<kPanelVectors>)];
  alignas(64) float edges_[2][kMostInPanels][kTileRows];
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
