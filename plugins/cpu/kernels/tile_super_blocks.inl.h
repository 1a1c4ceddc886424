// K-quants times int8 activations in tile registers, of which tile_matmul.inl.h has the rest. A super-block's sum is
// one integer, of weights times the integer scales of their sub-blocks (14 bits) and activations times those of their
// groups (12 bits). Both become two digits of 8 bits: four products, each summed up over all of the super-block's
// columns. The integers are those that codes_dot.inl.h gets, and so are the bytes. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"
#include "plugins/cpu/kernels/tile_tokens.inl.h"
#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kSuperBlock = kSuperBlockActivations.block;
constexpr uint32_t kRegisterColumns = 64;
constexpr uint32_t kRegisterSteps = kSuperBlock / kRegisterColumns;  // of a super-block
constexpr int kTilesTogether = 4;                                    // that share the activations' digits

// What a code's lower and upper four bits, the latter signed, are times each integer of a group.
struct DigitTables {
  alignas(64) int8_t low[kMostSuperBlockMultiplier + 1][16];
  alignas(64) int8_t high[kMostSuperBlockMultiplier + 1][16];
  constexpr DigitTables() : low(), high() {
    for (int m = 0; m <= static_cast<int>(kMostSuperBlockMultiplier); ++m) {
      for (int nibble = 0; nibble < 16; ++nibble) {
        low[m][nibble] = static_cast<int8_t>(nibble * m);  // unsigned, 240 at most
        high[m][nibble] = static_cast<int8_t>((nibble < 8 ? nibble : nibble - 16) * m);
      }
    }
  }
};
inline constexpr DigitTables kDigitTables;

// A tile of vectors: code * m = 16 high + low.
struct ActivationDigits {
  alignas(64) uint8_t low[kTileTokens][kSuperBlock];
  alignas(64) int8_t high[kTileTokens][kSuperBlock];

  void fill(uint32_t t, const int8_t *codes, const GroupMultiplier *multipliers) {
    for (uint32_t column = 0; column < kSuperBlock; column += 64, multipliers += 2) {
      const int first = *multipliers[0].even(), second = *multipliers[1].even();
      const Bytes64 bytes = load_bytes(codes + column), upper = shift_right_bytes<4>(bytes);
      store_bytes(low[t] + column, look_up_16(kDigitTables.low[first], kDigitTables.low[second], bytes));
      store_bytes(high[t] + column, look_up_16(kDigitTables.high[first], kDigitTables.high[second], upper));
    }
  }
};

// A super-block of a tile, as the right factors of its steps: code * scale = 64 high + low.
template <CodeLayout kLayout>
struct WeightDigits {
  using Format = Codes<kLayout>;
  static constexpr int kPairs = Format::kSubBlocks / 2;
  static constexpr bool kMinima = kLayout.minimum != Minimum::kNone;
  static constexpr size_t kFactorBytes = kTileRows * kRegisterColumns;
  static constexpr uint32_t kSums = kSuperBlock / kSuperBlockActivations.sum_columns;

  alignas(64) uint8_t low[kRegisterSteps * kFactorBytes];
  alignas(64) int8_t high[kRegisterSteps * kFactorBytes];
  alignas(64) float scales[kLayout.scales()][kTileRows];
  alignas(64) int16_t minima[kMinima ? kSums / 2 : 1][2 * kTileRows];  // for pairs of the activations' sums

  void unpack(const PackedMatrix &matrix, uint64_t tile, uint64_t block) {
    const TilePlace place = TilePlace::find(kLayout, matrix.columns / kSuperBlock, tile);
    const auto *data = reinterpret_cast<const uint8_t *>(matrix.data);
    const auto *halves = reinterpret_cast<const uint16_t *>(data + place.scales + block * place.stride);
    for (uint32_t i = 0; i < kLayout.scales(); ++i) store(scales[i], load_f16(halves + i * kTileRows));
    const uint8_t *bytes = data + place.codes + block * place.stride;
    if constexpr (kMinima) unpack_minima(bytes);
    unpack_codes(bytes);
  }

 private:
  void unpack_minima(const uint8_t *bytes) {
    for (int pair = 0; pair < kPairs; ++pair) {
      const I16x32 integers = pair_minima<Format>(bytes, pair);
      if constexpr (kSums == Format::kSubBlocks) {
        store_i16(minima[pair], integers);
      } else {
        store_i16(minima[2 * pair], repeat_even(integers));
        store_i16(minima[2 * pair + 1], repeat_odd(integers));
      }
    }
  }

  // As dot_sub_blocks walks through them.
  void unpack_codes(const uint8_t *bytes) {
    const uint8_t *from = bytes + Format::kIntegersBytes;
    const uint8_t *highs = from + 64 * Format::kVectors * Format::kGroups;
    uint8_t *to_low = low;
    int8_t *to_high = high;
    for (int pair = 0; pair < kPairs; ++pair, highs += 32 * Format::kRunsOfPair) {
      const I16x32 factors = pair_scales<Format>(bytes, pair);
#pragma GCC unroll 4
      for (int run = 0; run < Format::kRunsOfPair; ++run) {
        const I16x32 factor = run < Format::kRunsOfPair / 2 ? repeat_even(factors) : repeat_odd(factors);
        const Bytes64 high_bits = high_bits_of_run<Format>(highs + run / 2 * 64, run % 2 != 0);
        each_code_of_run<Format, UnpackedBytes::kSigned>({from, false}, high_bits, [&](Bytes64 codes) {
          const TwoDigits digits = multiply_to_digits(codes, factor);
          store_bytes(to_low, digits.low);
          store_bytes(to_high, digits.high);
          to_low += 64;
          to_high += 64;
        });
        from += 64 * Format::kRunVectors;
      }
    }
  }
};

template <CodeLayout kLayout>
class SuperBlockProduct {
 public:
  explicit SuperBlockProduct(const TileWork &work) : work_(work) {}

  void multiply() {
    const TileRegisters registers(work_.tokens.size(), kRegisterColumns);
    for (uint64_t tile = work_.args.first_row / kTileRows; tile * kTileRows < work_.args.last_row;
         tile += kTilesTogether) {
      memset(y_, 0, size_t{work_.tokens.count()} * work_.tokens.size() * kRows * sizeof(float));
      for (uint64_t block = 0; block < work_.blocks; ++block) multiply_block(tile, block);
      store_results<kTilesTogether>(work_, y_, tile);
    }
  }

 private:
  using Weights = WeightDigits<kLayout>;
  static constexpr uint32_t kRows = kTilesTogether * kTileRows;
  static constexpr int kProducts = 4;  // of low and high digits: low low, low high, high low, high high

  using Products = int32_t[kProducts][kTileTokens][kTileRows];

  // A tile's super-block times a tile of vectors, of which the pointers are the first one's.
  struct Step {
    const Weights *weights;
    const std::byte *scales, *sums;  // TileWork::row_bytes apart
    float *y;                        // kRows apart
    Products *products;
  };

  void multiply_block(uint64_t tile, uint64_t block) {
    const uint64_t last = tile_count(work_.args.matrix->rows) - 1;
    prefetch_share(tile, block);
    for (int i = 0; i < kTilesTogether; ++i) weights_[i].unpack(*work_.args.matrix, std::min(tile + i, last), block);
    Step previous = {};
    uint32_t unfinished = 0, parity = 0;
    for (uint32_t i = 0; i < work_.tokens.count(); ++i) {
      Step step = find_vectors(i, block);
      for (const Weights &weights : weights_) {
        step.weights = &weights;
        step.products = &products_[parity];
        multiply_step(step, previous, unfinished);
        previous = step;
        step.y += kTileRows;
        unfinished = work_.tokens.size();
        parity ^= 1;
      }
    }
    store_products(previous);
    finish(previous, 0, unfinished);
  }

  // Asks for a block's share of the tiles after these.
  void prefetch_share(uint64_t tile, uint64_t block) const {
    const size_t all = kTilesTogether * TilePlace::strip_bytes(kLayout, work_.blocks), share = all / work_.blocks;
    const auto *begin = reinterpret_cast<const uint8_t *>(tile_begin(*work_.args.matrix, tile));
    prefetch_at<SuperBlockProduct>(work_.stream.ahead(begin + block * share, all), share);
  }

  // Makes the digits of a tile of vectors.
  Step find_vectors(uint32_t tile, uint64_t block) {
    Step step = {};
    for (uint32_t t = 0; t < work_.tokens.size(); ++t) {
      const ConstQuantizedRow row = work_.row(kLayout.activations, tile, t, block);
      vectors_.fill(t, row.codes, row.multipliers);
      if (t > 0) continue;
      step.scales = reinterpret_cast<const std::byte *>(row.scales);
      step.sums = reinterpret_cast<const std::byte *>(row.sums);
    }
    step.y = y_ + size_t{tile} * work_.tokens.size() * kRows;
    return step;
  }

  // The products of a step, and meanwhile what the one before has left: its products in the registers, and
  // `unfinished` vectors.
  void multiply_step(const Step &step, const Step &previous, uint32_t unfinished) {
    multiply_columns<0>(step, previous, unfinished > 0);
    uint32_t finished = 0;
    multiply_columns<1>(step, previous, false);
    finish(previous, finished, finished + unfinished / 3);
    finished += unfinished / 3;
    multiply_columns<2>(step, previous, false);
    finish(previous, finished, finished + unfinished / 3);
    finished += unfinished / 3;
    multiply_columns<3>(step, previous, false);
    finish(previous, finished, unfinished);
  }

  template <uint32_t kStep>
  [[gnu::always_inline]] void multiply_columns(const Step &step, const Step &previous, bool stores) const {
    constexpr uint32_t kColumn = kStep * kRegisterColumns;
    TileRegisters::load_left<0>(vectors_.low[0] + kColumn, kSuperBlock);
    TileRegisters::load_right<0>(step.weights->low + kStep * Weights::kFactorBytes);
    add_product<kStep, 0, 0, 0>(previous, stores);
    TileRegisters::load_right<1>(step.weights->high + kStep * Weights::kFactorBytes);
    add_product<kStep, 1, 0, 1>(previous, stores);
    TileRegisters::load_left<1>(vectors_.high[0] + kColumn, kSuperBlock);
    add_product<kStep, 2, 1, 0>(previous, stores);
    add_product<kStep, 3, 1, 1>(previous, stores);
  }

  // The first one takes the place of what the step before has in the register.
  template <uint32_t kStep, int kProduct, int kLeft, int kRight>
  [[gnu::always_inline]] static void add_product(const Step &previous, bool stores) {
    if constexpr (kStep == 0) {
      if (stores) TileRegisters::store<kProduct>((*previous.products)[kProduct][0]);
      TileRegisters::clear<kProduct>();
    }
    TileRegisters::add_product<kProduct, kLeft, kRight, kLeft == 0 ? LeftBytes::kUnsigned : LeftBytes::kSigned>();
  }

  static void store_products(const Step &step) {
    TileRegisters::store<0>((*step.products)[0][0]);
    TileRegisters::store<1>((*step.products)[1][0]);
    TileRegisters::store<2>((*step.products)[2][0]);
    TileRegisters::store<3>((*step.products)[3][0]);
  }

  // Adds a step's super-block to the results of vectors [first, last).
  [[gnu::always_inline]] void finish(const Step &step, uint32_t first, uint32_t last) const {
    if (first == last) return;  // there may be no step
    const int32_t *products = (*step.products)[0][first];
    const size_t row_bytes = work_.row_bytes;
    const std::byte *scales = step.scales + first * row_bytes, *sums = step.sums + first * row_bytes;
    float *to = step.y + first * kRows;
    I16x32 minima[Weights::kMinima ? Weights::kSums / 2 : 1];
    if constexpr (Weights::kMinima) {
      for (uint32_t i = 0; i < Weights::kSums / 2; ++i) minima[i] = load_i16(step.weights->minima[i]);
    }
    for (uint32_t t = first; t < last; ++t) {
      const auto product = [products](int i) { return load_i32(products + i * kTileTokens * kTileRows); };
      const I32x16 low = add(product(0), shift_left<6>(product(1)));
      const I32x16 high = add(product(2), shift_left<6>(product(3)));
      const F32x16 scale = splat(*reinterpret_cast<const float *>(scales));
      const F32x16 dot = to_f32(add(low, shift_left<4>(high)));
      F32x16 y = fma(dot, mul(load(step.weights->scales[0]), scale), load(to));
      if constexpr (Weights::kMinima) {
        const I32x16 sum = dot_sums(minima, reinterpret_cast<const int16_t *>(sums));
        y = fma(to_f32(sub(splat_i32(0), sum)), mul(load(step.weights->scales[1]), scale), y);
      }
      store(to, y);
      products += kTileRows;
      scales += row_bytes;
      sums += row_bytes;
      to += kRows;
    }
  }

  // In two parts, so that they do not wait for each other.
  template <size_t kPairs>
  [[gnu::always_inline]] static I32x16 dot_sums(const I16x32 (&minima)[kPairs], const int16_t *sums) {
    I32x16 totals[2] = {splat_i32(0), splat_i32(0)};
#pragma GCC unroll 8
    for (size_t i = 0; i < kPairs; ++i) totals[i % 2] = dot2(totals[i % 2], minima[i], splat_pair(sums + 2 * i));
    return add(totals[0], totals[1]);
  }

  const TileWork &work_;
  Weights weights_[kTilesTogether];
  ActivationDigits vectors_;
  alignas(64) Products products_[2];  // of this step, and of the one before
  alignas(64) float y_[(kMostTokens + kTileTokens) * kRows];
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
