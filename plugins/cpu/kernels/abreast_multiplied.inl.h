// A group of columns that is multiplied while those of others are looked up: a part of abreast_together.inl.h. Part of
// a tier: see simd/portable/vector.h.
#pragma once

#include <utility>

#include "plugins/cpu/kernels/abreast_fields.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// What its columns are multiplied by, of 32 vectors: activations for each word of four codes, of 16 vectors and of the
// others; what the words' products are multiplied with; and what the codes' offset makes of all that.
template <class Fields, class Lookup>
struct MultipliedGroup {
  alignas(64) uint8_t activations[Fields::kBytes][Fields::kWords][2][64];
  alignas(64) int16_t multipliers[2][kAbreastVectors];
  alignas(64) int32_t offsets[2][16];

  // From the group's columns, and from the multipliers of a pair of groups, whose second one it is and which is left
  // with none for that.
  void prepare(const AbreastColumns &columns, int16_t (&of_pair)[2][kAbreastVectors]) {
    I16x32 sum = {};
    for (uint32_t byte = 0; byte < Fields::kBytes; ++byte) {
      for (uint32_t word = 0; word < Fields::kWords; ++word) {
        I16x32 of_word[4];
        for (uint32_t i = 0; i < 4; ++i) {
          of_word[i] = Lookup::load(columns.codes[Fields::byte_column(byte, 4 * word + i)]);
          sum = Lookup::add(sum, of_word[i]);
        }
        I16x32 even[2], odd[2];
        Lookup::interleave(of_word[0], of_word[2], even[0], even[1]);
        Lookup::interleave(of_word[1], of_word[3], odd[0], odd[1]);
        for (int half = 0; half < 2; ++half) {
          store_bytes(activations[byte][word][half], Lookup::join_bytes(even[half], odd[half]));
        }
      }
    }
    I16x32 sums[2];
    Lookup::interleave(sum, I16x32{}, sums[0], sums[1]);
    for (int half = 0; half < 2; ++half) {
      for (uint32_t i = 0; i < kAbreastVectors; i += 2) {
        multipliers[half][i] = std::exchange(of_pair[half][i + 1], int16_t{0});
        multipliers[half][i + 1] = 0;
      }
      const I16x32 factors = Lookup::load(multipliers[half]);
      store_i32(offsets[half], sub(splat_i32(0), dot2(splat_i32(0), sums[half], factors)));
      if constexpr (Fields::kSigns) Lookup::store(multipliers[half], Lookup::add(factors, factors));
    }
  }
};

// Its products with rows, whose words are looked up. The activations stay in registers.
template <class Fields, class Lookup>
class MultipliedWords {
 public:
  struct Sums {
    DotSum halves[2] = {zero_dot_sum(), zero_dot_sum()};
  };

  [[gnu::always_inline]] explicit MultipliedWords(const MultipliedGroup<Fields, Lookup> &group) {
    for (int half = 0; half < 2; ++half) {
      multipliers_[half] = Lookup::load(group.multipliers[half]);
      offsets_[half] = load_i32(group.offsets[half]);
    }
#pragma GCC unroll 8
    for (uint32_t byte = 0; byte < Fields::kBytes; ++byte) {
#pragma GCC unroll 2
      for (uint32_t word = 0; word < Fields::kWords; ++word) {
        for (int half = 0; half < 2; ++half) {
          activations_[byte][word][half] = load_bytes(group.activations[byte][word][half]);
          Lookup::hold(activations_[byte][word][half]);
        }
      }
    }
  }

  // Of a byte of the row's record, if there are so many.
  [[gnu::always_inline]] void add_byte(uint64_t &record, uint32_t byte, Sums &sums) const {
    if (byte >= Fields::kBytes) return;
    static constexpr ByteCodes<Fields> kCodes;
    const uint8_t *codes = kCodes.codes[record >> (8 * byte) & 0xFF];
#pragma GCC unroll 2
    for (uint32_t word = 0; word < Fields::kWords; ++word) {
      const Bytes64 of_row = splat_4_bytes(codes + 4 * word);
      for (int half = 0; half < 2; ++half) {
        sums.halves[half] = dot4(sums.halves[half], of_row, activations_[byte][word][half]);
      }
      Lookup::hold(sums.halves[0], sums.halves[1], record);
    }
  }

  [[gnu::always_inline]] void finish(const Sums &of_words, I32x16 (&sums)[2]) const {
    for (int half = 0; half < 2; ++half) {
      sums[half] = dot2(offsets_[half], Lookup::pairs_of(of_words.halves[half]), multipliers_[half]);
    }
  }

 private:
  Bytes64 activations_[Fields::kBytes][Fields::kWords][2];
  I16x32 multipliers_[2];
  I32x16 offsets_[2];
};

// Where all are looked up.
struct NothingMultiplied {
  struct Sums {};
  template <class Group>
  explicit NothingMultiplied(const Group &) {}
  void add_byte(uint64_t, uint32_t, Sums &) const {}
  void finish(const Sums &, I32x16 (&sums)[2]) const { sums[0] = sums[1] = splat_i32(0); }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
