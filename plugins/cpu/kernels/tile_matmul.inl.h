// Matrices of integer codes times int8 activations in tile registers: y = W x for pairs of tiles of 16 rows and up to
// 16 vectors at a time. The registers multiply and sum up a group of 32 columns; what groups and blocks are scaled with
// is done to the sums of one step while the next one's are multiplied. The integers are those that codes_matmul.inl.h
// gets, and so are the bytes. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <utility>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"
#include "plugins/cpu/kernels/tile_tokens.inl.h"
#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kPairRows = kPairTiles * kTileRows;

// Groups whose weights are unpacked at a time, into half of a usual first-level cache.
constexpr uint32_t kChunkGroups = 16;

template <CodeLayout kLayout>
class TileProduct {
 public:
  explicit TileProduct(const TileWork &work) : work_(work) {}

  void multiply() {
    const TileRegisters registers(work_.tokens.size(), kActivationGroup);
    constexpr uint64_t kFrom = kLayout.strip_tiles > 1 ? kPairTiles : 1;
    const uint64_t first_tile = work_.args.first_row / kTileRows / kFrom * kFrom;
    for (uint64_t tile = first_tile; tile * kTileRows < work_.args.last_row; tile += kPairTiles) multiply_pair(tile);
  }

 private:
  static constexpr uint32_t kBlockGroups = kLayout.activations.groups();
  static constexpr uint32_t kStepGroups = std::max(4u, kBlockGroups);
  static constexpr uint32_t kStepBlocks = kStepGroups / kBlockGroups;
  static constexpr uint32_t kChunkBlocks = kChunkGroups / kBlockGroups;
  static constexpr bool kMinima = kLayout.minimum != Minimum::kNone;

  // Weights that are multiplied with all vectors before the next.
  struct Chunk {
    alignas(64) GroupCodes codes[kChunkGroups];
    alignas(64) float scales[kChunkBlocks][kLayout.scales()][kPairTiles][kTileRows];
  };

  // Some blocks times a tile of vectors, of which the pointers are the first one's.
  struct Step {
    const GroupCodes *weights;
    const float (*weight_scales)[kLayout.scales()][kPairTiles][kTileRows];
    const int8_t *codes;
    const std::byte *scales, *multipliers, *sums;  // TileWork::row_bytes apart
    float *y;                                      // (vectors, kPairRows)
    const int32_t *products;                       // of the first group and tile
  };

  // What the registers gave for each group, tile and vector.
  using Products = int32_t[kStepGroups][kPairTiles][kTileTokens][kTileRows];

  // Adds a step's blocks to one vector's results after the other.
  template <uint32_t kGroups>
  class Finishing {
   public:
    [[gnu::always_inline]] Finishing(const Step &step, size_t row_bytes)
        : row_bytes_(row_bytes),
          scales_(step.scales),
          multipliers_(step.multipliers),
          sums_(step.sums),
          y_(step.y),
          products_(step.products) {
      if (!y_) return;  // there is no step before the first
      for (uint32_t block = 0; block < kBlocks; ++block) {
        for (uint32_t i = 0; i < kLayout.scales(); ++i) {
          for (int half = 0; half < kPairTiles; ++half) {
            weight_scales_[block][i][half] = load(step.weight_scales[block][i][half]);
          }
        }
      }
    }

    [[gnu::always_inline]] void finish_next() {
      F32x16 y[kPairTiles] = {load(y_), load(y_ + kTileRows)};
#pragma GCC unroll 8
      for (uint32_t block = 0; block < kBlocks; ++block) {
        const F32x16 scale = splat(reinterpret_cast<const float *>(scales_)[block]);
        F32x16 sum = splat(0.0f);
        if constexpr (kMinima) sum = splat(static_cast<float>(reinterpret_cast<const int16_t *>(sums_)[block]));
#pragma GCC unroll 2
        for (int half = 0; half < kPairTiles; ++half) {
          const F32x16 dot = to_f32(sum_block(block, half));
          y[half] = fma(dot, mul(weight_scales_[block][0][half], scale), y[half]);
          if constexpr (kMinima) y[half] = fma(sum, mul(weight_scales_[block][1][half], scale), y[half]);
        }
      }
      store(y_, y[0]);
      store(y_ + kTileRows, y[1]);
      scales_ += row_bytes_;
      if constexpr (kBlockGroups > 1) multipliers_ += row_bytes_;
      if constexpr (kMinima) sums_ += row_bytes_;
      y_ += kPairRows;
      products_ += kTileRows;
    }

   private:
    static constexpr uint32_t kBlocks = kGroups / kBlockGroups;

    [[gnu::always_inline]] const int32_t *products_of(uint32_t group, int half) const {
      return products_ + (group * kPairTiles + half) * kTileTokens * kTileRows;
    }

    // Sums of groups, which 16 bits hold if there are several, times their integers.
    [[gnu::always_inline]] I32x16 sum_block(uint32_t block, int half) const {
      if constexpr (kBlockGroups == 1) {
        return load_i32(products_of(block, half));
      } else {
        const auto *multipliers = reinterpret_cast<const GroupMultiplier *>(multipliers_) + block * kBlockGroups;
        I32x16 sum = splat_i32(0);
#pragma GCC unroll 8
        for (uint32_t i = 0; i < kBlockGroups; ++i) {
          sum = dot2(sum, load_i16(products_of(block * kBlockGroups + i, half)), splat_pair(multipliers[i].even()));
        }
        return sum;
      }
    }

    size_t row_bytes_;
    const std::byte *scales_, *multipliers_, *sums_;
    float *y_;
    const int32_t *products_;
    F32x16 weight_scales_[kBlocks][kLayout.scales()][kPairTiles];
  };

  void multiply_pair(uint64_t tile) {
    const WeightPair<kLayout, UnpackedBytes::kSigned> pair(*work_.args.matrix, tile);
    memset(y_, 0, size_t{work_.tokens.count()} * work_.tokens.size() * kPairRows * sizeof(float));
    for (uint64_t block = 0; block < work_.blocks; block += kChunkBlocks) {
      const auto blocks = static_cast<uint32_t>(std::min<uint64_t>(kChunkBlocks, work_.blocks - block));
      for (uint32_t i = 0; i < blocks; ++i) {
        prefetch_share(tile, block + i);
        pair.unpack_scales(block + i, chunk_.scales[i]);
        pair.unpack_block(block + i, chunk_.codes + i * kBlockGroups);
      }
      const uint32_t whole = blocks / kStepBlocks * kStepBlocks;
      multiply_blocks<kStepGroups>(block, 0, whole);
      if constexpr (kStepBlocks > 1) multiply_blocks<kBlockGroups>(block, whole, blocks);
    }
    store_results<kPairTiles>(work_, y_, tile);
  }

  // Asks for a block's share of the pair's bytes, or of what the strip's pairs have of it, one strip ahead.
  void prefetch_share(uint64_t tile, uint64_t block) const {
    constexpr uint64_t kTiles = kLayout.strip_tiles > 1 ? kLayout.strip_tiles : kPairTiles;
    const size_t all = kTiles / kLayout.strip_tiles * TilePlace::strip_bytes(kLayout, work_.blocks),
                 share = all / (kTiles / kPairTiles * work_.blocks);
    const uint64_t first = tile / kTiles * kTiles;
    const auto *begin = reinterpret_cast<const uint8_t *>(tile_begin(*work_.args.matrix, first));
    const uint8_t *from = begin + ((tile - first) / kPairTiles * work_.blocks + block) * share;
    prefetch_at<TileProduct>(work_.stream.ahead(from, all), share);
  }

  // Blocks [first, last) of the chunk, which begins with the row's block `at`, with steps of kGroups groups.
  template <uint32_t kGroups>
  void multiply_blocks(uint64_t at, uint32_t first, uint32_t last) {
    Step previous = {};
    uint32_t unfinished = 0, parity = 0;
    for (uint32_t tile = 0; tile < work_.tokens.count(); ++tile) {
      for (uint32_t block = first; block < last; block += kGroups / kBlockGroups, parity ^= 1) {
        const Step step = find_step(tile, at, block, products_[parity]);
        multiply_step<kGroups>(step, products_[parity], previous, products_[parity ^ 1], unfinished);
        previous = step;
        unfinished = work_.tokens.size();
      }
    }
    if (unfinished == 0) return;
    store_products<kGroups - 1>(products_[parity ^ 1]);
    finish<kGroups>(previous, unfinished);
  }

  Step find_step(uint32_t tile, uint64_t at, uint32_t block, const Products &products) {
    const ConstQuantizedRow row = work_.row(kLayout.activations, tile, 0, at + block);
    return {.weights = chunk_.codes + block * kBlockGroups,
            .weight_scales = chunk_.scales + block,
            .codes = row.codes,
            .scales = reinterpret_cast<const std::byte *>(row.scales),
            .multipliers = reinterpret_cast<const std::byte *>(row.multipliers),
            .sums = reinterpret_cast<const std::byte *>(row.sums),
            .y = y_ + size_t{tile} * work_.tokens.size() * kPairRows,
            .products = products[0][0][0]};
  }

  // The products of a step, and between those of its groups, shares of what the one before has left: `unfinished`
  // vectors, and its last group's products, which are in the registers if there are any.
  template <uint32_t kGroups>
  [[gnu::noinline]] void multiply_step(const Step &step, Products &products, const Step &previous,
                                       Products &products_before, uint32_t unfinished) const {
    if (unfinished > 0) store_products<kGroups - 1>(products_before);
    Finishing<kGroups> rest(previous, work_.row_bytes);
    multiply_groups<kGroups, 0>(step.codes, work_.row_bytes, step.weights, products, rest, unfinished);
  }

  template <uint32_t kGroups, uint32_t kGroup>
  [[gnu::always_inline]] static void multiply_groups(const int8_t *codes, size_t row_bytes, const GroupCodes *weights,
                                                     Products &products, Finishing<kGroups> &rest,
                                                     uint32_t unfinished) {
    if constexpr (kGroup < kGroups) {
      constexpr uint32_t kSums = kGroup % 2 * kPairTiles;
      TileRegisters::load_left<kGroup % 2>(codes + kGroup * kActivationGroup, row_bytes);
      if constexpr (kGroup > 0) store_products<kGroup - 1>(products);
      TileRegisters::load_right<0>(weights[kGroup][0]);
      multiply<kSums, kGroup % 2, 0>();
      TileRegisters::load_right<1>(weights[kGroup][1]);
      multiply<kSums + 1, kGroup % 2, 1>();
      const uint32_t n = unfinished / (kGroups - kGroup);
      for (uint32_t i = 0; i < n; ++i) rest.finish_next();
      multiply_groups<kGroups, kGroup + 1>(codes, row_bytes, weights, products, rest, unfinished - n);
    }
  }

  template <int kSums, int kLeft, int kRight>
  [[gnu::always_inline]] static void multiply() {
    TileRegisters::clear<kSums>();
    TileRegisters::add_product<kSums, kLeft, kRight>();
  }

  // They stay in the registers until the next group's are on their way.
  template <uint32_t kGroup>
  [[gnu::always_inline]] static void store_products(Products &products) {
    constexpr uint32_t kSums = kGroup % 2 * kPairTiles;
    TileRegisters::store<kSums>(products[kGroup][0][0]);
    TileRegisters::store<kSums + 1>(products[kGroup][1][0]);
  }

  template <uint32_t kGroups>
  void finish(const Step &step, uint32_t n) const {
    Finishing<kGroups> all(step, work_.row_bytes);
    for (uint32_t i = 0; i < n; ++i) all.finish_next();
  }

  const TileWork &work_;
  Chunk chunk_;
  alignas(64) Products products_[2];  // of this step, and of the one before
  alignas(64) float y_[(kMostTokens + kTileTokens) * kPairRows];
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
