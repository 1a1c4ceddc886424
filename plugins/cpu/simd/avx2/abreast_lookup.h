// Sums of activations looked up for 32 vectors side by side in AVX2: the end of vector.h. no_abreast_lookup.h says what
// each function does.
#pragma once

#include "plugins/cpu/kernels/abreast.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

struct AbreastLookup {
  static constexpr bool kExists = true, kSignBytes = true, kMultipliesLast = false, kInTurn = false;
  static constexpr bool kHalves = true;
  static constexpr uint32_t kHeldEntries = 4;
  static constexpr uint32_t kFewestVectors = 24;
  static constexpr uint64_t kFewestRows = 384;

  static I16x32 load(const int16_t *from) {
    const auto *lanes = reinterpret_cast<const __m256i *>(from);
    return {_mm256_load_si256(lanes), _mm256_load_si256(lanes + 1)};
  }
  static void store(int16_t *to, I16x32 a) {
    auto *lanes = reinterpret_cast<__m256i *>(to);
    _mm256_store_si256(lanes, a.low);
    _mm256_store_si256(lanes + 1, a.high);
  }
  static I16x32 add(I16x32 a, I16x32 b) { return {_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)}; }
  static I16x32 sub(I16x32 a, I16x32 b) { return {_mm256_sub_epi16(a.low, b.low), _mm256_sub_epi16(a.high, b.high)}; }
  static void hold(I16x32 &a, uint64_t &bits) { asm("" : "+x"(a.low), "+x"(a.high), "+r"(bits)); }

  [[gnu::always_inline]] static void interleave(I16x32 a, I16x32 b, I16x32 &first, I16x32 &second) {
    first = {_mm256_unpacklo_epi16(a.low, b.low), _mm256_unpacklo_epi16(a.high, b.high)};
    second = {_mm256_unpackhi_epi16(a.low, b.low), _mm256_unpackhi_epi16(a.high, b.high)};
  }

  struct NoRecords {
    static constexpr bool kExists = false;
  };

  // In what interleaving makes of bytes of 32 rows, four records of 32 bits in each part of 128.
  struct SignRecords {
    static constexpr bool kExists = true;
    static constexpr uint32_t row_of(uint32_t record) {
      const uint32_t quarter = record / 8, part = record / 4 % 2, place = 16 * part + 4 * quarter + record % 4;
      const uint32_t lane = place / 8 % 2 * 16 + place / 16 * 8 + place % 8;
      return lane / 2 + lane % 2 * 16;
    }

    static void store_records(const uint8_t *words, uint8_t *records) {
      const __m256i bytes[] = {load_256(words), load_256(words + 32), load_256(words + 64), load_256(words + 96)};
      const __m256i lower[] = {_mm256_unpacklo_epi8(bytes[0], bytes[1]), _mm256_unpackhi_epi8(bytes[0], bytes[1])};
      const __m256i upper[] = {_mm256_unpacklo_epi8(bytes[2], bytes[3]), _mm256_unpackhi_epi8(bytes[2], bytes[3])};
      auto *to = reinterpret_cast<__m256i *>(records);
      for (int i = 0; i < 2; ++i) {
        _mm256_storeu_si256(to++, _mm256_unpacklo_epi16(lower[i], upper[i]));
        _mm256_storeu_si256(to++, _mm256_unpackhi_epi16(lower[i], upper[i]));
      }
    }
  };

  // Two of 64 bits.
  struct CodeRecords {
    static constexpr bool kExists = true;
    static constexpr uint32_t row_of(uint32_t record) {
      const uint32_t half = record / 8, quarter = record / 4 % 2, part = record / 2 % 2;
      return 8 * half + 4 * part + 2 * quarter + record % 2;
    }

    static void store_records(const uint8_t *words, uint8_t *records) {
      store_changed(words, records, [](__m256i bytes) { return bytes; });
    }

   protected:
    template <class Change>
    static void store_changed(const uint8_t *words, uint8_t *records, const Change &change) {
      auto *to = reinterpret_cast<__m256i *>(records);
      for (int half = 0; half < 2; ++half) {
        const __m256i first = change(load_256(words + 32 * half)), second = change(load_256(words + 64 + 32 * half));
        _mm256_storeu_si256(to++, _mm256_unpacklo_epi32(first, second));
        _mm256_storeu_si256(to++, _mm256_unpackhi_epi32(first, second));
      }
    }
  };

  struct TernaryRecords : CodeRecords {
    static void store_records(const uint8_t *words, uint8_t *records) { store_changed(words, records, in_base_3); }

   private:
    // Of each byte, four codes of 2 bits.
    static __m256i in_base_3(__m256i bytes) {
      const __m256i low = _mm256_set1_epi8(15);
      const __m256i two = _mm256_setr_epi8(0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 0, 0, 0, 0,  //
                                           0, 1, 2, 0, 3, 4, 5, 0, 6, 7, 8, 0, 0, 0, 0, 0);
      const __m256i nine = _mm256_setr_epi8(0, 9, 18, 0, 27, 36, 45, 0, 54, 63, 72, 0, 0, 0, 0, 0,  //
                                            0, 9, 18, 0, 27, 36, 45, 0, 54, 63, 72, 0, 0, 0, 0, 0);
      const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
      return _mm256_add_epi8(_mm256_shuffle_epi8(two, _mm256_and_si256(bytes, low)), _mm256_shuffle_epi8(nine, upper));
    }
  };

  using TritRecords = NoRecords;
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
