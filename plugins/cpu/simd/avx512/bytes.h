// What products of many vectors need beside the vocabulary of simd/avx512/vector.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "plugins/cpu/simd/avx512/vector.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Each of the 64.
inline Bytes64 sub_bytes(Bytes64 a, Bytes64 b) { return {_mm512_sub_epi8(a.v, b.v)}; }

// `low` and `high` in turn.
inline Bytes64 splat_two_bytes(uint8_t low, uint8_t high) {
  return {_mm512_set1_epi16(static_cast<int16_t>(low | high << 8))};
}

// Of each 16 bits, what the table of 32 has for the lowest five.
inline Bytes64 look_up_32(const uint16_t *table, Bytes64 index) {
  return {_mm512_permutexvar_epi16(index.v, _mm512_loadu_si512(table))};
}

// Of each byte, what a table of 16 has for its lower four bits: of the first 32 bytes the first table.
inline Bytes64 look_up_16(const int8_t *first, const int8_t *second, Bytes64 index) {
  const __m256i low = _mm256_broadcastsi128_si256(load_128(first)),
                high = _mm256_broadcastsi128_si256(load_128(second));
  const __m512i tables = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  return {_mm512_shuffle_epi8(tables, _mm512_and_si512(index.v, _mm512_set1_epi8(15)))};
}

// Numbers of 14 bits, in two bytes: 64 high + low, low from 0 to 63.
struct TwoDigits {
  Bytes64 low, high;
};

// Of products of signed bytes with 16-bit numbers, two bytes with one of them.
inline TwoDigits multiply_to_digits(Bytes64 bytes, I16x32 factor) {
  const __m512i even = _mm512_mullo_epi16(_mm512_srai_epi16(_mm512_slli_epi16(bytes.v, 8), 8), factor.v);
  const __m512i odd = _mm512_mullo_epi16(_mm512_srai_epi16(bytes.v, 8), factor.v);
  const __m512i low = _mm512_or_si512(_mm512_and_si512(even, _mm512_set1_epi16(0x3F)),
                                      _mm512_and_si512(_mm512_slli_epi16(odd, 8), _mm512_set1_epi16(0x3F00)));
  const __m512i high =
      _mm512_or_si512(_mm512_and_si512(_mm512_srai_epi16(even, 6), _mm512_set1_epi16(0xFF)),
                      _mm512_and_si512(_mm512_slli_epi16(odd, 2), _mm512_set1_epi16(static_cast<int16_t>(0xFF00))));
  return {{low}, {high}};
}

// Those lanes, and zeros in the places of the others, which the lanes are in front of.
inline I32x16 even_lanes_only(I16x32 a) { return {_mm512_and_si512(a.v, _mm512_set1_epi32(0xFFFF))}; }
inline I32x16 odd_lanes_only(I16x32 a) { return {_mm512_srli_epi32(a.v, 16)}; }

inline I16x32 mul_words(I16x32 a, I16x32 b) { return {_mm512_mullo_epi16(a.v, b.v)}; }
inline I16x32 words_of(DotSum sum) { return {sum.v}; }

// Words of bytes, in two of them.
inline Bytes64 join_bytes(I16x32 low, I16x32 high) { return {_mm512_or_si512(low.v, _mm512_slli_epi16(high.v, 8))}; }

inline void store_i16(int16_t *to, I16x32 a) { _mm512_storeu_si512(to, a.v); }
inline I16x32 load_i16(const int16_t *from) { return {_mm512_loadu_si512(from)}; }
inline I16x32 load_i16(const int32_t *from) { return {_mm512_loadu_si512(from)}; }

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
