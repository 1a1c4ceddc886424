// Weights in base 3 (code_layout.h) as products of many vectors take them: what unpacked_weights.inl.h calls. Part of a
// tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

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

template <UnpackedBytes kAs>
[[gnu::always_inline]] inline void unpack_trit_unit(PairOfUnits unit, GroupCodes *to) {
  unpack_trits<0, kAs>(unit, to[0]);
  unpack_trits<1, kAs>(unit, to[1]);
  unpack_trits<2, kAs>(unit, to[2]);
  unpack_trits<3, kAs>(unit, to[3]);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
