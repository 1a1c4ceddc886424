// Weights as products of many vectors take them: bytes, of a pair of tiles and a group of 32 columns at a time,
// unpacked from whatever a format packs. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/codes_matmul.inl.h"
#include "plugins/cpu/kernels/trits_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Tiles of a matrix (packed_matrix.h) that are unpacked together: as they lie in strips.
constexpr int kPairTiles = 2;

// What they become: signed, less the format's offset; or unsigned, as they are, and signed ones with 128 added.
enum class UnpackedBytes { kSigned, kUnsigned };

// What has to be taken away from a format's unsigned bytes.
template <CodeLayout kLayout>
constexpr int kOffsetOfUnsigned = kLayout.has_signed_bytes() ? kSignedDotBias : kLayout.offset;

// A tile's codes of a group: (8, 16 rows, 4 columns), in the order of the activations' codes.
constexpr size_t kGroupCodes = kTileRows * kActivationGroup;
using GroupCodes = int8_t[kPairTiles][kGroupCodes];

// -------- Codes of some bits

// Calls body(codes) for the vectors of a run's codes (codes_dot.inl.h), which are what they stand for.
template <class Format, UnpackedBytes kAs, class Body>
[[gnu::always_inline]] inline void each_code_of_run(GroupView view, Bytes64 high, const Body &body) {
  constexpr int kUp = Format::kLayout.multiplier_shift;  // what the second step's codes have without a shift
  static_assert(kUp == 0 || kUp == Format::kBits);
  const Bytes64 mask = splat_byte(((1 << Format::kBits) - 1) << kUp);
  const Bytes64 high_mask = splat_byte(Format::kMostCode - ((1 << Format::kBits) - 1));
  constexpr int kOffset = kAs == UnpackedBytes::kSigned ? Format::kLayout.offset : 0;
  const Bytes64 offset = splat_byte(kOffset);
#pragma GCC unroll 8
  for (int v = 0; v < Format::kRunVectors; ++v) {
    Bytes64 bytes = load_words<Format>(view, v);
#pragma GCC unroll 8
    for (int step = 0; step < Format::kSteps; ++step) {
      Bytes64 codes = bit_and(step == 0 ? shift_left_bytes<kUp>(bytes) : bytes, mask);
      if (step > 0 || kUp == 0) bytes = shift_right_bytes<Format::kBits>(bytes);
      if constexpr (Format::kHighBits > 0) {
        codes = bit_or(codes, bit_and(high, high_mask));
        high = shift_right_bytes<Format::kHighBits>(high);
      }
      if constexpr (Format::kUneven) {
        codes = look_up_bytes(repeat_16_bytes(kAs == UnpackedBytes::kSigned ? quant::kIQ4Values : kNumberTables.whole),
                              codes);
      }
      body(kOffset == 0 ? codes : sub_bytes(codes, offset));
    }
  }
}

// The tile's group at `view`.
template <class Format, UnpackedBytes kAs>
[[gnu::always_inline]] inline void unpack_codes(GroupView view, int8_t *to) {
#pragma GCC unroll 2
  for (int run = 0; run < Format::kRuns; ++run) {
    const Bytes64 high = high_bits_of_run<Format>(view.bytes + 64 * (Format::kVectors + run / 2), run % 2 != 0);
    const GroupView codes = {view.bytes + 64 * run * Format::kRunVectors, view.odd};
    each_code_of_run<Format, kAs>(codes, high, [&to](Bytes64 bytes) {
      store_bytes(to, bytes);
      to += 64;
    });
  }
}

template <class Format, UnpackedBytes kAs>
requires(Format::kBits == 8) [[gnu::always_inline]] inline void unpack_codes(GroupView view, int8_t *to) {
  for (int v = 0; v < Format::kVectors; ++v) {
    const Bytes64 bytes = load_bytes(view.bytes + 64 * v);
    store_bytes(to + 64 * v, kAs == UnpackedBytes::kSigned ? bytes : signed_weights(bytes).v);
  }
}

// -------- Codes in base 3: unpacked_trits.inl.h, of tiers that have them

// A unit, into its four groups.
template <UnpackedBytes kAs>
[[gnu::always_inline]] inline void unpack_trit_unit(PairOfUnits unit, GroupCodes *to);

// -------- Of any format

// A pair of tiles of a matrix, the second one the first again where there is no other.
template <CodeLayout kLayout, UnpackedBytes kAs>
class WeightPair {
 public:
  static constexpr uint32_t kBlockGroups = kLayout.activations.groups();

  WeightPair(const PackedMatrix &matrix, uint64_t tile) {
    const uint64_t blocks = matrix.columns / kLayout.columns(), last = tile_count(matrix.rows) - 1;
    data_ = reinterpret_cast<const uint8_t *>(matrix.data);
    places_[0] = TilePlace::find(kLayout, blocks, tile);
    places_[1] = TilePlace::find(kLayout, blocks, kLayout.strip_tiles > 1 ? tile + 1 : std::min(tile + 1, last));
  }

  // A block's scales as floats, those of both tiles for each kind.
  void unpack_scales(uint64_t block, float (&to)[kLayout.scales()][kPairTiles][kTileRows]) const {
    for (int half = 0; half < kPairTiles; ++half) {
      const auto *halves = reinterpret_cast<const uint16_t *>(scales(half, block));
      for (uint32_t i = 0; i < kLayout.scales(); ++i) store(to[i][half], load_f16(halves + i * kTileRows));
    }
  }

  // Where a block's scales begin.
  const uint8_t *scales(int half, uint64_t block) const {
    return data_ + places_[half].scales + block * places_[half].stride;
  }

  // And its integers and codes.
  const uint8_t *block(int half, uint64_t block) const {
    return data_ + places_[half].codes + block * places_[half].stride;
  }

  // Of codes in base 3, unit i of a block.
  PairOfUnits unit_of(uint64_t block, uint32_t i) const {
    const size_t begin = block * places_[0].stride + i * kTritUnitStride;
    return {data_ + places_[0].codes + begin, data_ + places_[0].rests + begin};
  }

  // A block's codes, group by group.
  void unpack_block(uint64_t block, GroupCodes *to) const {
    if constexpr (kLayout.base_three) {
      for (uint32_t i = 0; i < kLayout.trit_units(); ++i, to += kTritGroups) {
        unpack_trit_unit<kAs>(unit_of(block, i), to);
      }
    } else {
      using Format = Codes<kLayout>;
      for (int half = 0; half < kPairTiles; ++half) {
        const uint8_t *bytes = this->block(half, block);
        for (uint32_t i = 0; i < kBlockGroups; ++i) {
          unpack_codes<Format, kAs>({bytes + i * Format::kGroupStride, half != 0}, to[i][half]);
        }
      }
    }
  }

 private:
  const uint8_t *data_;
  TilePlace places_[kPairTiles];
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
