// Sums of signed activations by table lookup in AVX-512: the end of vector.h. portable/vector.h says what each function
// does.
#pragma once

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

// A group of 32 columns: of each row's word the lower 16 bits and the upper ones, in fields of 6, 5 and 5 bits. Entry i
// of a field's table is the sum of its activations a, +a where i has a 1 and -a where it has a 0: at most 6 * 127, and
// 32 * 127 for the group, which 16 bits hold.
struct SignLookup {
  static constexpr bool kExists = true;
  static constexpr size_t kElements = 256;
  static constexpr int kTokens = 1;

  [[gnu::always_inline]] static void sum_group(const uint8_t *words, const int16_t *const (&tables)[kTokens],
                                               size_t group, I16x32 (&sums)[kTokens]) {
    const int16_t *lower = tables[0] + group;
    sums[0].v = _mm512_add_epi16(sum_half(_mm512_loadu_si512(words), lower),
                                 sum_half(_mm512_loadu_si512(words + 64), lower + kHalf));
  }

  // By multiplication: shifts go through the ports that lookups need.
  static I32x16 even_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1))}; }
  static I32x16 odd_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1 << 16))}; }

  static void store_codes(int8_t *to, I32x16 codes) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(codes.v));
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
