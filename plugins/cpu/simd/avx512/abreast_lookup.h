// Sums of activations looked up for 32 vectors side by side in AVX-512: the end of vector.h. no_abreast_lookup.h says
// what each function does.
#pragma once

#include "plugins/cpu/kernels/abreast.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr int kFourth = 27;  // what a record's fourth code counts

// Of a field of three codes, what each is as the fourth of another: the first two as bytes of a lane.
struct FourthDigits {
  int16_t first_two[32], last[32];
  constexpr FourthDigits() : first_two(), last() {
    for (int field = 0; field < kFourth; ++field) {
      first_two[field] = static_cast<int16_t>(kFourth * (field % 3) + (kFourth * (field / 3 % 3) << 8));
      last[field] = static_cast<int16_t>(kFourth * (field / 9));
    }
  }
};

struct AbreastLookup {
  static constexpr bool kExists = true, kSignBytes = false, kMultipliesLast = true, kInTurn = false;
  static constexpr bool kHalves = false;
  static constexpr uint32_t kHeldEntries = 9;
  static constexpr uint32_t kFewestVectors = 26;
  static constexpr uint64_t kFewestRows = 512;

  static I16x32 load(const int16_t *from) { return {_mm512_load_si512(from)}; }
  static void store(int16_t *to, I16x32 a) { _mm512_store_si512(to, a.v); }
  static I16x32 add(I16x32 a, I16x32 b) { return {_mm512_add_epi16(a.v, b.v)}; }
  static I16x32 sub(I16x32 a, I16x32 b) { return {_mm512_sub_epi16(a.v, b.v)}; }
  static void hold([[maybe_unused]] I16x32 &a, [[maybe_unused]] uint64_t &bits) {
#ifdef __AVX512F__  // and not emulated
    asm("" : "+v"(a.v), "+r"(bits));
#endif
  }
  static void hold([[maybe_unused]] DotSum &a, [[maybe_unused]] DotSum &b, [[maybe_unused]] uint64_t &bits) {
#ifdef __AVX512F__
    asm("" : "+v"(a.v), "+v"(b.v), "+r"(bits));
#endif
  }
  static void hold([[maybe_unused]] Bytes64 &a) {
#ifdef __AVX512F__
    asm("" : "+v"(a.v));
#endif
  }

  static Bytes64 join_bytes(I16x32 even, I16x32 odd) {
    const __m512i low = _mm512_and_si512(even.v, _mm512_set1_epi16(0xFF));
    return {_mm512_or_si512(low, _mm512_slli_epi16(odd.v, 8))};
  }
  static I16x32 pairs_of(DotSum sum) { return {sum.v}; }

  [[gnu::always_inline]] static void interleave(I16x32 a, I16x32 b, I16x32 &first, I16x32 &second) {
    first.v = _mm512_unpacklo_epi16(a.v, b.v);
    second.v = _mm512_unpackhi_epi16(a.v, b.v);
  }

  struct NoRecords {
    static constexpr bool kExists = false;
  };

  // In what interleaving makes of them, four records of 32 bits in each part of 128.
  struct SignRecords {
    static constexpr bool kExists = true;
    static constexpr uint32_t row_of(uint32_t record) {
      const uint32_t half = record / 16, part = record / 4 % 4, place = 8 * part + 4 * half + record % 4;
      return place / 2 + place % 2 * 16;
    }

    static void store_records(const uint8_t *words, uint8_t *records) {
      const __m512i lower = _mm512_loadu_si512(words), upper = _mm512_loadu_si512(words + 64);
      _mm512_storeu_si512(records, _mm512_unpacklo_epi16(lower, upper));
      _mm512_storeu_si512(records + 64, _mm512_unpackhi_epi16(lower, upper));
    }
  };

  // Two of 64.
  struct CodeRecords {
    static constexpr bool kExists = true;
    static constexpr uint32_t row_of(uint32_t record) {
      const uint32_t half = record / 8, part = record / 2 % 4;
      return 4 * part + 2 * half + record % 2;
    }

    static void store_records(const uint8_t *words, uint8_t *records) {
      const __m512i first = _mm512_loadu_si512(words), second = _mm512_loadu_si512(words + 64);
      _mm512_storeu_si512(records, _mm512_unpacklo_epi32(first, second));
      _mm512_storeu_si512(records + 64, _mm512_unpackhi_epi32(first, second));
    }
  };

  using TernaryRecords = NoRecords;

  // The same. A row's fields are made in pairs, bytes of a lane.
  struct TritRecords {
    static constexpr bool kExists = true;
    static constexpr uint32_t row_of(uint32_t record) {
      const uint32_t quarter = record / 8, part = record / 2 % 4, place = 8 * part + 2 * quarter + record % 2;
      return place / 2 + place % 2 * 16;
    }

    static void store_records(I16x32 first, I16x32 second, I16x32 third, I16x32 piece, uint8_t *records) {
      alignas(64) static constexpr FourthDigits kDigits;
      const __m512i both = _mm512_load_si512(kDigits.first_two), last = _mm512_load_si512(kDigits.last);
      const __m512i fifth = _mm512_srli_epi16(third.v, 10);
      __m512i a = pair_of(first.v), b = pair_of(second.v), c = pair_of(third.v);
      __m512i d = join(_mm512_srli_epi16(first.v, 10), _mm512_srli_epi16(second.v, 2));
      a = _mm512_add_epi16(a, _mm512_permutexvar_epi16(fifth, both));
      b = _mm512_add_epi16(b, _mm512_permutexvar_epi16(fifth, last));
      c = _mm512_add_epi16(c, _mm512_permutexvar_epi16(piece.v, both));
      d = _mm512_add_epi16(d, _mm512_permutexvar_epi16(piece.v, last));
      const __m512i one = _mm512_set1_epi16(kFourth << 8), two = _mm512_set1_epi16(2 * kFourth << 8);
      b = _mm512_mask_add_epi16(b, _mm512_movepi16_mask(first.v), b, one);
      b = _mm512_mask_add_epi16(b, _mm512_movepi16_mask(second.v), b, two);
      d = _mm512_mask_add_epi16(d, _mm512_movepi16_mask(third.v), d, one);
      d = _mm512_mask_add_epi16(d, _mm512_test_epi16_mask(piece.v, _mm512_set1_epi16(1 << 5)), d, two);
      const __m512i lower[] = {_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)};
      const __m512i upper[] = {_mm512_unpacklo_epi16(c, d), _mm512_unpackhi_epi16(c, d)};
      for (int i = 0; i < 2; ++i, records += 128) {
        _mm512_storeu_si512(records, _mm512_unpacklo_epi32(lower[i], upper[i]));
        _mm512_storeu_si512(records + 64, _mm512_unpackhi_epi32(lower[i], upper[i]));
      }
    }

   private:
    // The lowest five bits of a, and of b those from the eighth on.
    static __m512i join(__m512i a, __m512i b) {
      const __m512i low = _mm512_and_si512(a, _mm512_set1_epi16(0x1F));
      return _mm512_or_si512(low, _mm512_and_si512(b, _mm512_set1_epi16(0x1F00)));
    }
    static __m512i pair_of(__m512i word) { return join(word, _mm512_slli_epi16(word, 3)); }
  };
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
