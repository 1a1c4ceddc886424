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
constexpr int kOffsetOfUnsigned = kLayout.bits == 8 ? kSignedDotBias : kLayout.offset;

// A tile's codes of a group: (8, 16 rows, 4 columns), in the order of the activations' codes.
constexpr size_t kGroupCodes = kTileRows * kActivationGroup;
using GroupCodes = int8_t[kPairTiles][kGroupCodes];

// -------- Codes of some bits

// Calls body(codes) for the vectors of a run's codes (codes_dot.inl.h).
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
    const GroupView codes = {view.bytes + 64 * run * Format::kRunVectors, view.odd, nullptr};
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

// -------- Codes in base 3

// Two of a field's three codes, less an offset: which one is each byte, or 3 for none.
struct TwoTrits {
  alignas(64) uint16_t entries[32];
  constexpr TwoTrits(int low, int high, int offset) : entries() {
    for (int field = 0; field < 32; ++field) {
      const int codes[] = {field % 3, field / 3 % 3, field / 9};
      const auto byte = [&](int which) { return which < 3 ? (codes[which] - offset) & 0xFF : 0; };
      entries[field] = static_cast<uint16_t>(byte(low) | byte(high) << 8);
    }
  }
};
template <int kOffset>
struct TritTables {
  static constexpr TwoTrits kFirstTwo{0, 1, kOffset}, kLastTwo{1, 2, kOffset};
  static constexpr TwoTrits kLastBelow{2, 3, kOffset}, kFirstAbove{3, 0, kOffset};
};

// Four columns of each row of a pair of tiles, which the halves of words hold.
[[gnu::always_inline]] inline void store_four_columns(Bytes64 first_two, Bytes64 last_two, int j, GroupCodes &to) {
  store_bytes(to[0] + 64 * j, join_even_halves(first_two, last_two));
  store_bytes(to[1] + 64 * j, join_odd_halves(first_two, last_two));
}

inline Bytes64 bytes_of(I16x32 a) { return {a.v}; }

// Group kGroup of a unit (code_layout.h), in the order of columns.
template <int kGroup, UnpackedBytes kAs>
[[gnu::always_inline]] inline void unpack_trits(PairOfUnits unit, GroupCodes &to) {
  constexpr int kOffset = kAs == UnpackedBytes::kSigned ? 1 : 0;
  using Tables = TritTables<kOffset>;
  const auto first_two = [](Bytes64 field) { return look_up_32(Tables::kFirstTwo.entries, field); };
  const auto last_two = [](Bytes64 field) { return look_up_32(Tables::kLastTwo.entries, field); };
  const auto last_below = [](Bytes64 field) { return look_up_32(Tables::kLastBelow.entries, field); };
  const auto first_above = [](Bytes64 field) { return look_up_32(Tables::kFirstAbove.entries, field); };
  const auto less_offset = [](Bytes64 codes, uint8_t low, uint8_t high) {
    return kOffset == 0 ? codes : sub_bytes(codes, splat_two_bytes(low, high));
  };
  Bytes64 words[kTritGroupWords];
  for (int i = 0; i < kTritGroupWords; ++i) {
    words[i] = load_bytes(unit.words + (kTritGroupWords * kGroup + i) * kTritWordStride);
  }
  // Columns 0 to 17: fields come in twos, of six columns, of which two sixes are three times four.
  Bytes64 twos[9];
  for (int i = 0; i < kTritGroupWords; ++i) {
    const Bytes64 second = shift_right_bytes<5>(words[i]);
    twos[3 * i] = first_two(words[i]);
    twos[3 * i + 1] = bit_or(last_below(words[i]), first_above(second));
    twos[3 * i + 2] = last_two(second);
  }
  for (int j = 0; j < 4; ++j) store_four_columns(twos[2 * j], twos[2 * j + 1], j, to);
  // 18 to 31: kTritTops, and kTritExtras from their bits.
  const Bytes64 piece = bytes_of(piece_of_group<TritLookup, kGroup>(unit));
  const Bytes64 tops[] = {shift_right_bytes<10>(words[0]), shift_right_bytes<10>(words[1]),
                          shift_right_bytes<10>(words[2]), piece};
  const Bytes64 bits_21 = bit_or(bit_and(shift_right_bytes<7>(words[0]), splat_two_bytes(0, 1)),
                                 bit_and(shift_right_bytes<6>(words[1]), splat_two_bytes(0, 2)));
  const Bytes64 bits_28 =
      bit_or(shift_right_bytes<15>(words[2]), bit_and(shift_right_bytes<4>(piece), splat_two_bytes(2, 0)));
  const Bytes64 at_20 = less_offset(bit_or(last_below(tops[0]), bits_21), 0, 1);
  const Bytes64 at_28 = less_offset(bit_or(bits_28, first_above(tops[3])), 1, 0);
  store_four_columns(twos[8], first_two(tops[0]), 4, to);
  store_four_columns(at_20, first_two(tops[1]), 5, to);
  store_four_columns(bit_or(last_below(tops[1]), first_above(tops[2])), last_two(tops[2]), 6, to);
  store_four_columns(at_28, last_two(tops[3]), 7, to);
}

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
    return data_ + places_[half].scales + block * places_[half].scales_stride;
  }

  // And its integers and codes.
  const uint8_t *block(int half, uint64_t block) const {
    return data_ + places_[half].codes + block * places_[half].codes_stride;
  }

  // Of codes in base 3, unit i of a block.
  PairOfUnits unit_of(uint64_t block, uint32_t i) const {
    const size_t begin = block * places_[0].codes_stride + i * kTritUnitStride;
    return {data_ + places_[0].codes + begin, data_ + places_[0].rests + begin};
  }

  // A block's codes, group by group.
  void unpack_block(uint64_t block, GroupCodes *to) const {
    if constexpr (kLayout.base_three) {
      for (uint32_t i = 0; i < kLayout.trit_units(); ++i, to += kTritGroups) {
        const PairOfUnits unit = unit_of(block, i);
        unpack_trits<0, kAs>(unit, to[0]);
        unpack_trits<1, kAs>(unit, to[1]);
        unpack_trits<2, kAs>(unit, to[2]);
        unpack_trits<3, kAs>(unit, to[3]);
      }
    } else {
      using Format = Codes<kLayout>;
      for (int half = 0; half < kPairTiles; ++half) {
        const uint8_t *bytes = data_ + places_[half].codes + block * places_[half].codes_stride;
        for (uint32_t i = 0; i < kBlockGroups; ++i) {
          unpack_codes<Format, kAs>({bytes + i * Format::kGroupStride, half != 0, nullptr}, to[i][half]);
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
