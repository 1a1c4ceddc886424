// Matrices of integer codes times many vectors of int8 activations, from panels: y = W x for pairs of tiles of 16 rows
// and some vectors at a time. Weights are unpacked once for all vectors, to unsigned bytes; what is left to do for each
// of 64 weights and a vector is one product, whose other factor a load repeats for the tiles that are multiplied
// together. The integers are those that codes_matmul.inl.h gets, and so are the bytes. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/pair_work.inl.h"
#include "plugins/cpu/kernels/panels.inl.h"
#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kPieceGroups = kPieceColumns / kActivationGroup;

// Tiles of a pair that are multiplied together: both where there are registers for it.
constexpr uint32_t kTilesAtOnce = kLaneParts == 1 ? kPairTiles : 1;

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

  // What sub-blocks' sums of activations are multiplied with, for pairs of them and for their rests.
  struct ForSums {
    alignas(64) int16_t pairs[Format::kSumPairs][2 * kTileRows];
    alignas(64) int8_t rests[Format::kRestWords][4 * kTileRows];

    // Some integers of sub-blocks, times what pairs are multiplied with: integers_of(pair) is I16x32.
    template <class IntegersOf>
    [[gnu::always_inline]] void fill(int16_t factor, const IntegersOf &integers_of) {
      const int16_t factors[2] = {factor, factor};
      for (uint32_t i = 0; i < Format::kSumPairs; ++i) {
        store_i16(pairs[i], mul_words(integers_of(i), splat_pair(factors)));
      }
      for (uint32_t i = 0; i < Format::kRestWords; ++i) {
        store_bytes(rests[i], join_bytes(integers_of(2 * i), integers_of(2 * i + 1)));
      }
    }
  };
  ForSums minima[Format::kSumPairs > 0 ? kBlocks : 0][kPairTiles];
  ForSums centres[Format::kCentred ? kBlocks : 0][kPairTiles];

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
      const auto integers = pair_scales<Packed>(bytes, static_cast<int>(pair));
      auto &of_pair = factors[block][half];
      if constexpr (Format::kWide) {
        store_i32(of_pair[2 * pair], even_words(integers));
        store_i32(of_pair[2 * pair + 1], odd_words(integers));
      } else {
        store_i32(of_pair[2 * pair], even_lanes_only(integers));
        store_i32(of_pair[2 * pair + 1], odd_lanes_only(integers));
      }
#pragma GCC unroll 4
      for (int run = 0; run < Packed::kRunsOfPair; ++run, from += 64 * Packed::kRunVectors) {
        const Bytes64 high_bits = high_bits_of_run<Packed>(highs + run / 2 * 64, run % 2 != 0);
        each_code_of_run<Packed, UnpackedBytes::kUnsigned>({from, false}, high_bits, [&](Bytes64 bytes_of_run) {
          store_bytes(codes[step / 8][half] + step % 8 * 64, bytes_of_run);
          ++step;
        });
      }
    }
    unpack_for_sums(bytes, block, half);
  }

  // Minima are taken away, what was taken from codes is added.
  void unpack_for_sums(const uint8_t *bytes, uint32_t block, int half) {
    using Packed = Codes<kLayout>;
    constexpr int kOfSum = Format::kHalved ? 2 : 1;
    if constexpr (Format::kSumPairs > 0) {
      minima[block][half].fill(-kOfSum, [=](uint32_t i) { return pair_minima<Packed>(bytes, static_cast<int>(i)); });
    }
    if constexpr (Format::kCentred) {
      centres[block][half].fill(kOfSum * Format::kCentre,
                                [=](uint32_t i) { return pair_scales<Packed>(bytes, static_cast<int>(i)); });
    }
  }
};

template <CodeLayout kLayout>
class PanelProduct {
 public:
  // n vectors of args, at most kMostInPanels, from `first` on, with which a panel begins.
  PanelProduct(const MatmulArgs &args, uint32_t first, uint32_t n)
      : args_(args), first_(first), panels_(n), places_(args.matrix->columns), calls_(0), sums_(args, first, n) {
    for (uint32_t panel = 0; panel < panels_.count(); ++panel) {
      panels_.with_width(panel, [this]<uint32_t T>(std::integral_constant<uint32_t, T>) {
        calls_ += T / at_once<T>() * (kPairTiles / kTilesAtOnce);
      });
    }
  }

  void multiply() {
    for (uint64_t block = 0; block < all_blocks(); block += kPassBlocks) {
      const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(kPassBlocks, all_blocks() - block));
      for (uint64_t tile = sums_.first_pair(); tile < sums_.end_tile(); tile += kPairTiles) {
        multiply_pair(tile, block, blocks);
      }
    }
    sums_.store_edges();
  }

 private:
  using Format = PanelFormat<kLayout>;
  using Weights = PanelWeights<kLayout>;
  using Pair = typename Weights::Pair;
  static constexpr uint32_t kBlocks = Weights::kBlocks;
  static constexpr uint32_t kPassBlocks = kPassColumns / Format::kColumns;
  using Ahead = PieceAhead<kLayout, kBlocks>;
  template <uint32_t T>
  using Block = PanelBlock<kLayout, T>;

  // Vectors of a panel of T that are multiplied with some tiles at a time: as many as registers hold two sums of for
  // each tile, or three: where runs share a factor the sums of two runs, or of one, and the factor; where a group's
  // sub-blocks are added up the sums of both. With half of the registers, those of whole blocks do not count: their
  // results wait in the first-level cache.
  template <uint32_t T>
  static constexpr uint32_t at_once() {
    const bool shares = !Format::kOneGroup && Format::kRunsOfFactor > 1, adds = Format::kWide && Format::kFactors > 1;
    if (kTilesAtOnce == 1 && !Format::kOneGroup) return 2;
    return T % 6 == 0 && !shares && !adds ? 6 : 4;
  }
  static constexpr uint32_t kRunsAtOnce = Format::kRunsOfFactor <= 2 ? Format::kRunsOfFactor : 1;

  uint64_t all_blocks() const { return args_.matrix->columns / Format::kColumns; }

  template <uint32_t T>
  const Block<T> *blocks_of(uint32_t panel) const {
    return places_.template blocks<T>(args_.panels, first_ / kPanelVectors + panel);
  }

  // Blocks of a pair of tiles, from `first` on, times all panels, piece by piece.
  void multiply_pair(uint64_t tile, uint64_t first, uint32_t blocks) {
    const Pair pair(*args_.matrix, tile), then(*args_.matrix, std::min(tile + kPairTiles, sums_.end_tile() - 1));
    for (uint32_t piece = 0; piece < blocks; piece += kBlocks) {
      const uint32_t n = std::min(kBlocks, blocks - piece), next = piece + kBlocks;
      weights_.unpack(pair, first + piece, n);
      Ahead ahead = next < blocks                          ? Ahead(pair, first + next, calls_)
                    : tile + kPairTiles < sums_.end_tile() ? Ahead(then, first, calls_)
                                                           : Ahead();
      for (uint32_t panel = 0; panel < panels_.count(); ++panel) {
        const VectorRange of_panel = {panels_.first(panel), panels_.first(panel) + kPanelVectors};
        if (first > 0 && piece == 0) sums_.load_pair(tile, of_panel);
        panels_.with_width(panel, [&]<uint32_t T>(std::integral_constant<uint32_t, T>) {
          constexpr uint32_t kAtOnce = at_once<T>();
          for (uint32_t t = 0; t < T; t += kAtOnce) {
            for (uint32_t half = 0; half < kPairTiles; half += kTilesAtOnce) {
              ahead.ask();
              multiply_piece<T, kAtOnce>(blocks_of<T>(panel) + first + piece, t, half, n, first + piece == 0,
                                         panels_.first(panel) + t);
            }
          }
        });
        if (next >= blocks) {
          sums_.store_pair(tile, of_panel, [](uint32_t, F32x16 sum) { return canonical_nan(sum); });
        }
      }
    }
  }

  // The blocks in weights_, of tiles from `first` on, times S vectors of a panel, from its t-th on: begins their sums,
  // or adds to them.
  template <uint32_t T, uint32_t S>
  [[gnu::noinline]] void multiply_piece(const Block<T> *panel, uint32_t t, uint32_t first, uint32_t blocks, bool begins,
                                        uint32_t vector) {
    if constexpr (Format::kOneGroup) {
      multiply_groups<T, S>(panel, t, first, blocks, begins, vector);
    } else {
      if (begins) {
        for (uint32_t i = 0; i < kTilesAtOnce * S; ++i) store(sums_.of(first + i / S, vector + i % S), splat(0.0f));
      }
      for (uint32_t i = 0; i < blocks; ++i) multiply_block<T, S>(panel[i], t, first, i, vector);
    }
  }

  // Sums of S vectors with each of kTilesAtOnce tiles.
  template <uint32_t S>
  using DotSums = DotSum[kTilesAtOnce][S];

  // Adds a run's products: weights are the first tile's, codes those of the first vector.
  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] static void dot_run(const int8_t *weights, const int32_t *codes, DotSums<S> &sums) {
#pragma GCC unroll 8
    for (uint32_t step = 0; step < Format::kRun / 4; ++step) {
      Bytes64 of_tiles[kTilesAtOnce];
      for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
        of_tiles[half] = load_bytes(weights + half * kGroupCodes + 64 * step);
      }
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) {
        const Bytes64 of_vector = splat_4_bytes(codes + step * T + s);
        for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
          sums[half][s] = dot4(sums[half][s], of_tiles[half], of_vector);
        }
      }
    }
  }

  static I16x32 splat_word(const int32_t &word) { return splat_pair(reinterpret_cast<const int16_t *>(&word)); }

  // Blocks of one group. Results stay in registers.
  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] void multiply_groups(const Block<T> *panel, uint32_t t, uint32_t first, uint32_t blocks,
                                              bool begins, uint32_t vector) {
    F32x16 y[kTilesAtOnce][S];
    for (uint32_t i = 0; i < kTilesAtOnce * S; ++i) {
      y[i / S][i % S] = begins ? splat(0.0f) : load(sums_.of(first + i / S, vector + i % S));
    }
#pragma GCC unroll 1
    for (uint32_t i = 0; i < blocks; ++i, ++panel) {
      DotSums<S> dots;
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) {
        for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
          dots[half][s] = begin_dot_sum(splat_i32(Format::kMinima ? 0 : panel->starts[0][t + s]));
        }
      }
      dot_run<T, S>(weights_.codes[i][first], &panel->codes[0][t], dots);
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) {
        const F32x16 scale = splat(panel->scales[t + s]);
#pragma GCC unroll 2
        for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
          const F32x16 d = load(weights_.scales[i][0][first + half]);
          F32x16 &result = y[half][s];
          result = fma(to_f32(end_dot_sum(splat_i32(0), dots[half][s])), mul(d, scale), result);
          if constexpr (Format::kMinima) {
            float sum;
            memcpy(&sum, &panel->starts[0][t + s], sizeof sum);
            result = fma(splat(sum), mul(load(weights_.scales[i][1][first + half]), scale), result);
          }
        }
      }
    }
    for (uint32_t i = 0; i < kTilesAtOnce * S; ++i) store(sums_.of(first + i / S, vector + i % S), y[i / S][i % S]);
  }

  // A block of several groups. What registers hold are the sums of runs and of the block.
  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] void multiply_block(const Block<T> &panel, uint32_t t, uint32_t first, uint32_t block,
                                             uint32_t vector) {
    I32x16 totals[kTilesAtOnce][S];
#pragma GCC unroll 6
    for (uint32_t s = 0; s < S; ++s) {
      for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
        totals[half][s] = splat_i32(Format::kBlocksStart ? panel.starts[0][t + s] : 0);
      }
    }
#pragma GCC unroll 1
    for (uint32_t group = 0; group < Format::kGroups; ++group) {
      if constexpr (Format::kWide) {
        add_group<T, S>(panel, t, first, block, group, totals);
      } else {
#pragma GCC unroll 2
        for (uint32_t j = 0; j < Format::kFactors; ++j) add_runs<T, S>(panel, t, first, block, group, j, totals);
      }
    }
    add_block<T, S>(panel, t, first, block, totals, vector);
  }

  // The runs of a group, or of its sub-block j, times its integer and the sub-block's.
  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] void add_runs(const Block<T> &panel, uint32_t t, uint32_t first, uint32_t block,
                                       uint32_t group, uint32_t j, I32x16 (&totals)[kTilesAtOnce][S]) const {
    const int8_t *weights =
        weights_.codes[block * Format::kGroups + group][first] + j * Format::kFactorColumns * kTileRows;
    const uint32_t first_run = (group * Format::kFactors + j) * Format::kRunsOfFactor;
    I16x32 factors[kTilesAtOnce][S];
#pragma GCC unroll 4
    for (uint32_t run = 0; run < Format::kRunsOfFactor; run += kRunsAtOnce) {
      DotSums<S> sums[kRunsAtOnce];
#pragma GCC unroll 2
      for (uint32_t i = 0; i < kRunsAtOnce; ++i, weights += Format::kRun * kTileRows) {
        begin_run<T, S>(panel, t, first_run + run + i, sums[i]);
        dot_run<T, S>(weights, &panel.codes[(first_run + run + i) * Format::kRun / 4][t], sums[i]);
      }
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) {
#pragma GCC unroll 2
        for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
          I16x32 &factor = factors[half][s];
          if (run == 0) factor = factor_of(splat_word(panel.multipliers[group][t + s]), block, first + half, group, j);
#pragma GCC unroll 2
          for (uint32_t i = 0; i < kRunsAtOnce; ++i) {
            totals[half][s] = dot2(totals[half][s], words_of(sums[i][half][s]), factor);
          }
        }
      }
    }
  }

  // The same of all sub-blocks of a group, in 32 bits: each one's sum times its integer, and the group's times that.
  // Only wide vocabularies have these products, so that their arguments' types have to depend on the template's.
  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] void add_group(const Block<T> &panel, uint32_t t, uint32_t first, uint32_t block,
                                        uint32_t group, I32x16 (&totals)[kTilesAtOnce][S]) const {
    const int8_t *weights = weights_.codes[block * Format::kGroups + group][first];
    const uint32_t first_run = group * Format::kFactors;
    DotSums<S> sums[Format::kFactors];
#pragma GCC unroll 2
    for (uint32_t j = 0; j < Format::kFactors; ++j, weights += Format::kRun * kTileRows) {
      begin_run<T, S>(panel, t, first_run + j, sums[j]);
      dot_run<T, S>(weights, &panel.codes[(first_run + j) * Format::kRun / 4][t], sums[j]);
    }
#pragma GCC unroll 6
    for (uint32_t s = 0; s < S; ++s) {
      const I32x16 multiplier = splat_i32(panel.multipliers[group][t + s]);
#pragma GCC unroll 2
      for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
        const auto &factors = weights_.factors[block][first + half];
        auto of_group = mul(end_dot_sum(splat_i32(0), sums[0][half][s]), load_i32(factors[first_run]));
#pragma GCC unroll 2
        for (uint32_t j = 1; j < Format::kFactors; ++j) {
          of_group = add(of_group, mul(end_dot_sum(splat_i32(0), sums[j][half][s]), load_i32(factors[first_run + j])));
        }
        totals[half][s] = add(totals[half][s], mul(of_group, multiplier));
      }
    }
  }

  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] static void begin_run(const Block<T> &panel, uint32_t t, uint32_t run, DotSums<S> &sums) {
#pragma GCC unroll 6
    for (uint32_t s = 0; s < S; ++s) {
      for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
        sums[half][s] = begin_dot_sum(splat_i32(Format::kRunsStart ? panel.starts[run][t + s] : 0));
      }
    }
  }

  [[gnu::always_inline]] I16x32 factor_of(I16x32 multiplier, uint32_t block, uint32_t half, uint32_t group,
                                          uint32_t j) const {
    if constexpr (!Format::kSubBlocks) return multiplier;
    return mul_words(load_i16(weights_.factors[block][half][group * Format::kFactors + j]), multiplier);
  }

  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] void add_block(const Block<T> &panel, uint32_t t, uint32_t first, uint32_t block,
                                        I32x16 (&totals)[kTilesAtOnce][S], uint32_t vector) {
    if constexpr (Format::kCentred) {
      add_sums<T, S>(panel, panel.centre_rests, t, &weights_.centres[block][first], totals);
    }
    I32x16 minima[kTilesAtOnce][S];
    if constexpr (Format::kSumPairs > 0) {
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) {
        for (uint32_t half = 0; half < kTilesAtOnce; ++half) minima[half][s] = splat_i32(0);
      }
      add_sums<T, S>(panel, panel.rests, t, &weights_.minima[block][first], minima);
    }
#pragma GCC unroll 6
    for (uint32_t s = 0; s < S; ++s) {
      const F32x16 scale = splat(panel.scales[t + s]);
#pragma GCC unroll 2
      for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
        float *y = sums_.of(first + half, vector + s);
        F32x16 result =
            fma(to_f32(totals[half][s]), mul(load(weights_.scales[block][0][first + half]), scale), load(y));
        if constexpr (Format::kSumPairs > 0) {
          const F32x16 minimum = load(weights_.scales[block][1][first + half]);
          result = fma(to_f32(minima[half][s]), mul(minimum, scale), result);
        }
        store(y, result);
      }
    }
  }

  // Adds sub-blocks' integers times their sums of activations: all at the same time, as each product waits for the one
  // before.
  template <uint32_t T, uint32_t S>
  [[gnu::always_inline]] static void add_sums(const Block<T> &panel, const int32_t (*rests)[T], uint32_t t,
                                              const typename Weights::ForSums *of_tiles,
                                              I32x16 (&totals)[kTilesAtOnce][S]) {
#pragma GCC unroll 8
    for (uint32_t i = 0; i < Format::kSumPairs; ++i) {
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) {
        const I16x32 of_vector = splat_word(panel.sums[i][t + s]);
        for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
          totals[half][s] = dot2(totals[half][s], load_i16(of_tiles[half].pairs[i]), of_vector);
        }
      }
    }
#pragma GCC unroll 2
    for (uint32_t i = 0; i < Format::kRestWords; ++i) {
#pragma GCC unroll 6
      for (uint32_t s = 0; s < S; ++s) {
        const Bytes64 of_vector = splat_4_bytes(&rests[i][t + s]);
        for (uint32_t half = 0; half < kTilesAtOnce; ++half) {
          const DotSum sum = dot4(begin_dot_sum(totals[half][s]), load_bytes(of_tiles[half].rests[i]), of_vector);
          totals[half][s] = end_dot_sum(totals[half][s], sum);
        }
      }
    }
  }

  const MatmulArgs &args_;
  const uint32_t first_;
  const PanelDivision panels_;
  const PanelPlaces<kLayout> places_;
  uint32_t calls_;  // of multiply_piece, for a piece and all panels
  Weights weights_;
  PairSums sums_;
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
