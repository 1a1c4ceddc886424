// Sums of signed activations by table lookup in AVX2: the end of vector.h. no_sign_lookup.h says what each function
// does.
#pragma once

#include "plugins/cpu/kernels/bounds.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// What the four activations of each of 16 entries are multiplied with: +1 where the entry's number has the bit, -1
// where it has not. Entries 0 to 3 and 8 to 11 first, so that packing brings them all into order.
struct alignas(32) EntrySigns {
  int8_t factors[64];

  constexpr EntrySigns() : factors() {
    for (int i = 0; i < 64; ++i) {
      const int place = i / 4, entry = (place & 3) | (place & 4) << 1 | (place & 8) >> 1;
      factors[i] = (entry >> i % 4 & 1) != 0 ? 1 : -1;
    }
  }
};

// What tables of any kind have in common.
struct LookupLanes {
  static I32x16 even_lanes(I16x32 a) {
    const __m256i even = _mm256_set1_epi32(1);
    return {_mm256_madd_epi16(a.low, even), _mm256_madd_epi16(a.high, even)};
  }
  static I32x16 odd_lanes(I16x32 a) {
    const __m256i odd = _mm256_set1_epi32(1 << 16);
    return {_mm256_madd_epi16(a.low, odd), _mm256_madd_epi16(a.high, odd)};
  }
  static I16x32 upper_bytes(I16x32 a) { return {_mm256_srli_epi16(a.low, 8), _mm256_srli_epi16(a.high, 8)}; }

  static I16x32 splat_lanes(int32_t value) {
    const __m256i all = _mm256_set1_epi16(static_cast<int16_t>(value));
    return {all, all};
  }
  static I16x32 add(I16x32 a, I16x32 b) { return {_mm256_add_epi16(a.low, b.low), _mm256_add_epi16(a.high, b.high)}; }
  static I16x32 take_upper(I16x32 a, I16x32 b) {
    return {_mm256_sub_epi16(a.low, _mm256_slli_epi16(b.low, 8)),
            _mm256_sub_epi16(a.high, _mm256_slli_epi16(b.high, 8))};
  }

  static float load_half(const void *from) {
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
  }

  static void store_codes(int8_t *to, I32x16 codes) {
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(codes.low, codes.high), kInOrder);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to),
                     _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }

 protected:
  static constexpr int kInOrder = 0xD8;  // what packing has interleaved
};

// A group of 32 columns is 8 fields of 4 bits. A field's two tables, 16 bytes each, hold the sums of its activations,
// which are 4 * 127 at most, as 32 * upper + lower: lower in 0..31, upper in -16..15. Over the group these add up to
// 0..248 and -128..120. Less 128, and 4 more, both fit a signed byte: the first field's tables begin there.
struct SignLookup : LookupLanes {
  static constexpr bool kExists = true, kSignBytes = true;
  static constexpr size_t kElements = 128;
  static constexpr bool kSumsInRegisters = true;
  static constexpr bool kResultsInMemory = false;
  static constexpr int kTokens = 4;  // that share the unpacking of fields
  static constexpr uint32_t kTokensOfStrips = 4;
  static constexpr int kPairsAtOnce[] = {2, 2, 1};
  static constexpr int kBoundPairs = 2, kByteParts = 2;
  static constexpr uint32_t kTableElements[] = {16, 16, 16, 16, 16, 16, 16, 16};

  template <int kPairs, int T>
  [[gnu::always_inline]] static void sum_group(const uint8_t *signs, const int16_t *const (&tables)[T], size_t group,
                                               I16x32 (&sums)[kPairs][1][T]) {
    Parts parts[kPairs][T];
    add_bytes(signs, 0, kGroupBytes, tables, group, parts);
    const __m256i factors = _mm256_set1_epi16(32 << 8 | 1);
#pragma GCC unroll 4
    for (int i = 0; i < kPairs; ++i) {
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        const I16x32 both = interleave(parts[i][t]);
        sums[i][0][t] = {_mm256_maddubs_epi16(factors, both.low), _mm256_maddubs_epi16(factors, both.high)};
      }
    }
  }

  template <int kPairs, int T>
  [[gnu::always_inline]] static void sum_bytes(const uint8_t *signs, const int16_t *const (&tables)[T], size_t group,
                                               I16x32 (&sums)[kPairs][kByteParts][T]) {
#pragma GCC unroll 2
    for (int half = 0; half < kByteParts; ++half) {
      constexpr int kHalf = kGroupBytes / kByteParts;
      Parts parts[kPairs][T];
      add_bytes(signs, half * kHalf, (half + 1) * kHalf, tables, group, parts);
#pragma GCC unroll 4
      for (int i = 0; i < kPairs; ++i) {
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) sums[i][half][t] = interleave(parts[i][t]);
      }
    }
  }

  static void sum_row(const uint32_t (&signs)[4], const int8_t *codes, int32_t (&sums)[4]) {
    const __m256i byte_of_column = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1,  //
                                                    2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i bit_of_column = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
    __m256i parts[4];
    for (int i = 0; i < 4; ++i) {
      const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int32_t>(signs[i])), byte_of_column);
      const __m256i taken_away = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit_of_column), _mm256_setzero_si256());
      const __m256i group = _mm256_sub_epi8(_mm256_xor_si256(load_256(codes + 32 * i), taken_away), taken_away);
      parts[i] = add_four(group);
    }
    const __m256i halves =
        _mm256_hadd_epi32(_mm256_hadd_epi32(parts[0], parts[1]), _mm256_hadd_epi32(parts[2], parts[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(sums),
                     _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
  }

  static void build_groups(const int8_t *codes, size_t groups, int16_t *tables) {
    for (size_t i = 0; i < groups; ++i) build_group(codes + kActivationGroup * i, tables + kElements * i);
  }

  static TableRange range_of_table(const int16_t *table, size_t) {
    const __m256i sums = sums_in(table);
    return {reduce_min(sums), -1 - reduce_min(_mm256_xor_si256(sums, _mm256_set1_epi16(-1)))};
  }

  static void narrow_table(const int16_t *first, TableNarrowing of_first, const int16_t *second,
                           TableNarrowing of_second, size_t, int16_t *to) {
    const __m256i both = _mm256_packus_epi16(narrow(first, of_first), narrow(second, of_second));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm256_permute4x64_epi64(both, kInOrder));
  }

 private:
  static constexpr int kFields = 8, kGroupBytes = 4, kRows = 32;

  static void build_group(const int8_t *codes, int16_t *tables) {
    for (int field = 0; field < kFields; ++field) {
      const __m256i sums = sums_of(codes + 4 * field);
      __m256i lower = _mm256_and_si256(sums, _mm256_set1_epi16(31)), upper = _mm256_srai_epi16(sums, 5);
      if (field == 0) {
        lower = _mm256_sub_epi16(lower, _mm256_set1_epi16(128));
        upper = _mm256_add_epi16(upper, _mm256_set1_epi16(4));
      }
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(tables + field * (kElements / kFields)),
                          _mm256_permute4x64_epi64(_mm256_packs_epi16(lower, upper), kInOrder));
    }
  }

  // Sums of 32 rows' parts.
  struct Parts {
    __m256i lower, upper;
  };

  // Bytes `begin` to `end` of a group's four, of each row of some pairs of tiles.
  template <int kPairs, int T>
  [[gnu::always_inline]] static void add_bytes(const uint8_t *signs, int begin, int end,
                                               const int16_t *const (&tables)[T], size_t group,
                                               Parts (&parts)[kPairs][T]) {
    const int16_t *of_group[T];
    for (int t = 0; t < T; ++t) {
      of_group[t] = tables[t] + group;
      // GCC otherwise keeps the tables, which are the same for all pairs of tiles, on the stack.
      asm volatile("" : "+r"(of_group[t]));
      for (int i = 0; i < kPairs; ++i) parts[i][t] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    }
    const __m256i mask = _mm256_set1_epi8(15);
#pragma GCC unroll 4
    for (int byte = begin; byte < end; ++byte) {
      __m256i first[kPairs], second[kPairs];
      for (int i = 0; i < kPairs; ++i) {
        const __m256i bytes = load_256(signs + (i * kGroupBytes + byte) * kRows);
        first[i] = _mm256_and_si256(bytes, mask);
        second[i] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), mask);
      }
      add_field(first, of_group, 2 * byte, parts);
      add_field(second, of_group, 2 * byte + 1, parts);
    }
  }

  template <int kPairs, int T>
  [[gnu::always_inline]] static void add_field(const __m256i (&rows)[kPairs], const int16_t *const (&tables)[T],
                                               int field, Parts (&parts)[kPairs][T]) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      const int16_t *from = tables[t] + field * (kElements / kFields);
      const __m256i lower = _mm256_broadcastsi128_si256(load_128(from));
      const __m256i upper = _mm256_broadcastsi128_si256(load_128(from + 8));
#pragma GCC unroll 4
      for (int i = 0; i < kPairs; ++i) {
        Parts &to = parts[i][t];
        to = {_mm256_add_epi8(to.lower, _mm256_shuffle_epi8(lower, rows[i])),
              _mm256_add_epi8(to.upper, _mm256_shuffle_epi8(upper, rows[i]))};
      }
    }
  }

  static I16x32 interleave(const Parts &of) {
    return {_mm256_unpacklo_epi8(of.lower, of.upper), _mm256_unpackhi_epi8(of.lower, of.upper)};
  }

  // What a field's two tables hold.
  static __m256i sums_in(const int16_t *table) {
    const __m256i lower = _mm256_cvtepi8_epi16(load_128(table)), upper = _mm256_cvtepi8_epi16(load_128(table + 8));
    return _mm256_add_epi16(lower, _mm256_slli_epi16(upper, 5));
  }

  static __m256i narrow(const int16_t *table, TableNarrowing by) {
    const __m256i above = _mm256_sub_epi16(sums_in(table), _mm256_set1_epi16(static_cast<int16_t>(by.least)));
    return _mm256_mulhi_epu16(above, _mm256_set1_epi16(static_cast<int16_t>(by.factor)));
  }

  // An instruction finds the least of 8 unsigned lanes.
  static int32_t reduce_min(__m256i a) {
    const __m128i half = _mm_min_epi16(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    const __m128i biased = _mm_xor_si128(half, _mm_set1_epi16(INT16_MIN));
    return _mm_extract_epi16(_mm_minpos_epu16(biased), 0) + INT16_MIN;
  }

  // The sums of 4 activations, in 16 bits.
  static __m256i sums_of(const int8_t *codes) {
    static constexpr EntrySigns kSigns;
    const __m256i four = splat_4_bytes(codes).low;
    return _mm256_packs_epi32(add_four(_mm256_sign_epi8(four, load_256(kSigns.factors))),
                              add_four(_mm256_sign_epi8(four, load_256(kSigns.factors + 32))));
  }

  static __m256i add_four(__m256i bytes) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes), _mm256_set1_epi16(1));
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
