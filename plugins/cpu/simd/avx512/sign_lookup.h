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

struct SignLookup {
  static constexpr bool kExists = true;

  static I16x32 load(const void *from) { return {_mm512_loadu_si512(from)}; }
  static I16x32 add(I16x32 a, I16x32 b) { return {_mm512_add_epi16(a.v, b.v)}; }

  template <int kBits>
  static I16x32 shift_right(I16x32 a) {
    return {_mm512_srli_epi16(a.v, kBits)};
  }

  // By multiplication: shifts go through the ports that lookups need.
  static I32x16 even_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1))}; }
  static I32x16 odd_lanes(I16x32 a) { return {_mm512_madd_epi16(a.v, _mm512_set1_epi32(1 << 16))}; }

  static I16x32 lookup32(const int16_t *table, I16x32 index) {
    return {_mm512_permutexvar_epi16(index.v, _mm512_loadu_si512(table))};
  }

  static I16x32 lookup64(const int16_t *table, I16x32 index) {
    return {_mm512_permutex2var_epi16(_mm512_loadu_si512(table), index.v, _mm512_loadu_si512(table + 32))};
  }

  static void store_codes(int8_t *to, I32x16 codes) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm512_cvtepi32_epi8(codes.v));
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
    store_sums(tables + 64, bytes, 3, kSecond);
    store_sums(tables + 96, bytes, 5, kThird);
  }

 private:
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
