// Sums of signed activations by table lookup in AVX-512: the end of vector.h. no_sign_lookup.h says what each function
// does.
#pragma once

#include "plugins/cpu/kernels/bounds.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// What the two activations of a pair are multiplied with in each of 32 entries of a table: +1 where the entry's number
// has the bit, -1 where it has not. A negative bit stands for the same factor in all entries.
struct alignas(64) PairFactors {
  static constexpr int kAbsent = -1, kAdded = -2, kTakenAway = -3;
  int8_t factors[64];

  static constexpr int8_t factor(int entry, int bit) {
    if (bit >= 0) return (entry >> bit & 1) != 0 ? 1 : -1;
    return bit == kAbsent ? 0 : bit == kAdded ? 1 : -1;
  }
  constexpr PairFactors(int first_bit, int second_bit) : factors() {
    for (int entry = 0; entry < 32; ++entry) {
      factors[2 * entry] = factor(entry, first_bit);
      factors[2 * entry + 1] = factor(entry, second_bit);
    }
  }
};

// Three pairs of activations, and what the 128 that are added to each of them make of a sum.
struct FieldFactors {
  PairFactors pairs[3];
  alignas(64) int16_t of_bias[32];

  constexpr FieldFactors(PairFactors first, PairFactors second, PairFactors third)
      : pairs{first, second, third}, of_bias() {
    for (int entry = 0; entry < 32; ++entry) {
      int sum = 0;
      for (const PairFactors &pair : pairs) sum += pair.factors[2 * entry] + pair.factors[2 * entry + 1];
      of_bias[entry] = static_cast<int16_t>(-128 * sum);
    }
  }
};

// What tables of any kind have in common.
struct LookupLanes {
  // By multiplication: shifts go through the ports that lookups need.
  static I32x16 even_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1))}; }
  static I32x16 odd_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1 << 16))}; }
  static I16x32 upper_bytes(I16x32 a) { return {_mm512_mulhi_epu16(a.v, _mm512_set1_epi16(1 << 8))}; }

  static I16x32 splat_lanes(int32_t value) { return {_mm512_set1_epi16(static_cast<int16_t>(value))}; }
  static I16x32 add(I16x32 a, I16x32 b) { return {_mm512_add_epi16(a.v, b.v)}; }
  static I16x32 take_upper(I16x32 a, I16x32 b) { return {_mm512_sub_epi16(a.v, _mm512_slli_epi16(b.v, 8))}; }

  static float load_half(const void *from) {
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
  }

  static void store_codes(int8_t *to, I32x16 codes) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(codes.v));
  }

  static TableRange range_of_table(const int16_t *table, size_t elements) {
    __m512i least = _mm512_loadu_si512(table), greatest = least;
    for (size_t i = 32; i < elements; i += 32) {
      least = _mm512_min_epi16(least, _mm512_loadu_si512(table + i));
      greatest = _mm512_max_epi16(greatest, _mm512_loadu_si512(table + i));
    }
    return {reduce_min(least), -1 - reduce_min(_mm512_xor_si512(greatest, _mm512_set1_epi16(-1)))};
  }

  static void narrow_table(const int16_t *first, TableNarrowing of_first, const int16_t *second,
                           TableNarrowing of_second, size_t elements, int16_t *to) {
    for (size_t i = 0; i < elements; i += 32) {
      const __m512i upper = _mm512_slli_epi16(narrow(second + i, of_second), 8);
      _mm512_storeu_si512(to + i, _mm512_or_si512(narrow(first + i, of_first), upper));
    }
  }

 private:
  // Instructions find the least of 8 unsigned lanes.
  static int32_t reduce_min(__m512i a) {
    const __m256i half = _mm256_min_epi16(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i quarter = _mm_min_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    const __m128i biased = _mm_xor_si128(quarter, _mm_set1_epi16(INT16_MIN));
    return _mm_extract_epi16(_mm_minpos_epu16(biased), 0) + INT16_MIN;
  }

  static __m512i narrow(const int16_t *from, TableNarrowing by) {
    const __m512i above = _mm512_sub_epi16(_mm512_loadu_si512(from), _mm512_set1_epi16(static_cast<int16_t>(by.least)));
    return _mm512_mulhi_epu16(above, _mm512_set1_epi16(static_cast<int16_t>(by.factor)));
  }
};

// A group of 32 columns: of each row's word the lower 16 bits and the upper ones, in fields of 6, 5 and 5 bits. Entry i
// of a field's table is the sum of its activations a, +a where i has a 1 and -a where it has a 0: at most 6 * 127, and
// 32 * 127 for the group, which 16 bits hold.
struct SignLookup : LookupLanes {
  static constexpr bool kExists = true, kSignBytes = false;
  static constexpr size_t kElements = 256;
  static constexpr bool kSumsInRegisters = false;
  static constexpr int kTokens = 1, kBoundPairs = 1, kByteParts = 2;
  static constexpr int kPairsAtOnce[] = {1};
  static constexpr uint32_t kTableElements[] = {64, 32, 32, 64, 32, 32};

  [[gnu::always_inline]] static void sum_group(const uint8_t *words, const int16_t *const (&tables)[kTokens],
                                               size_t group, I16x32 (&sums)[1][1][kTokens]) {
    const int16_t *lower = tables[0] + group;
    sums[0][0][0].v = _mm512_add_epi16(sum_half(_mm512_loadu_si512(words), lower),
                                       sum_half(_mm512_loadu_si512(words + 64), lower + kHalf));
  }

  template <int T>
  [[gnu::always_inline]] static void sum_bytes(const uint8_t *words, const int16_t *const (&tables)[T], size_t group,
                                               I16x32 (&sums)[1][kByteParts][T]) {
    for (int t = 0; t < T; ++t) {
      sums[0][0][t].v = sum_half(_mm512_loadu_si512(words), tables[t] + group);
      sums[0][1][t].v = sum_half(_mm512_loadu_si512(words + 64), tables[t] + group + kHalf);
    }
  }

  static void sum_row(const uint32_t (&signs)[4], const int8_t *codes, int32_t (&sums)[4]) {
    const __m256i zero = _mm256_setzero_si256(), ones = _mm256_set1_epi8(1);
    __m256i parts[4];
    for (int i = 0; i < 4; ++i) {
      const __m256i group = load_256(codes + 32 * i);
      const __m256i signed_group = _mm256_mask_sub_epi8(group, static_cast<__mmask32>(~signs[i]), zero, group);
      parts[i] = _mm256_dpbusd_epi32(zero, ones, signed_group);
    }
    const __m256i halves =
        _mm256_hadd_epi32(_mm256_hadd_epi32(parts[0], parts[1]), _mm256_hadd_epi32(parts[2], parts[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(sums),
                     _mm_add_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1)));
  }

  static void build_group(const int8_t *codes, int16_t *tables) {
    build_half(codes, tables);
    build_half(codes + 16, tables + kHalf);
  }

 private:
  static constexpr int kSecondShift = 6, kThirdShift = 11;
  static constexpr size_t kSecondTable = 64, kThirdTable = 96;  // where they begin
  static constexpr size_t kHalf = 128;                          // elements for 16 columns

  [[gnu::always_inline]] static __m512i sum_half(__m512i half, const int16_t *tables) {
    const __m512i first = _mm512_permutex2var_epi16(_mm512_loadu_si512(tables), half, _mm512_loadu_si512(tables + 32));
    const __m512i second =
        _mm512_permutexvar_epi16(_mm512_srli_epi16(half, kSecondShift), _mm512_loadu_si512(tables + kSecondTable));
    const __m512i third =
        _mm512_permutexvar_epi16(_mm512_srli_epi16(half, kThirdShift), _mm512_loadu_si512(tables + kThirdTable));
    return _mm512_add_epi16(_mm512_add_epi16(first, second), third);
  }

  // vpmaddubsw takes one side unsigned: activations go in with 128 added. The fields of 6, 5 and 5 begin at 0, 6 and
  // 11; pairs at even places, so that the last two fields share one.
  static void build_half(const int8_t *codes, int16_t *tables) {
    static constexpr PairFactors kBits01(0, 1), kBits23(2, 3);
    static constexpr FieldFactors kLower(kBits01, kBits23, {4, PairFactors::kTakenAway});
    static constexpr FieldFactors kUpper(kBits01, kBits23, {4, PairFactors::kAdded});
    static constexpr FieldFactors kSecond(kBits01, kBits23, {4, PairFactors::kAbsent});
    static constexpr FieldFactors kThird({PairFactors::kAbsent, 0}, {1, 2}, {3, 4});
    const __m128i bytes = _mm_xor_si128(load_128(codes), _mm_set1_epi8(static_cast<char>(0x80)));
    store_sums(tables, bytes, 0, kLower);
    store_sums(tables + 32, bytes, 0, kUpper);
    store_sums(tables + kSecondTable, bytes, 3, kSecond);
    store_sums(tables + kThirdTable, bytes, 5, kThird);
  }

  [[gnu::always_inline]] static void store_sums(int16_t *to, __m128i codes, int first_pair,
                                                const FieldFactors &factors) {
    __m512i sums = _mm512_load_si512(factors.of_bias);
    for (int i = 0; i < 3; ++i) {
      const __m512i pair = _mm512_permutexvar_epi16(_mm512_set1_epi16(static_cast<int16_t>(first_pair + i)),
                                                    _mm512_castsi128_si512(codes));
      sums = _mm512_add_epi16(sums, _mm512_maddubs_epi16(pair, _mm512_load_si512(factors.pairs[i].factors)));
    }
    _mm512_storeu_si512(to, sums);
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
