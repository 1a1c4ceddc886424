// What products of many vectors need beside the vocabulary of simd/avx2/vector.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "plugins/cpu/simd/avx2/vector.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Each of the 64.
inline Bytes64 sub_bytes(Bytes64 a, Bytes64 b) {
  return {_mm256_sub_epi8(a.low, b.low), _mm256_sub_epi8(a.high, b.high)};
}

// Those lanes, and zeros in the places of the others, which the lanes are in front of.
inline I32x16 even_lanes_only(I16x32 v) {
  const __m256i mask = _mm256_set1_epi32(0xFFFF);
  return {_mm256_and_si256(v.low, mask), _mm256_and_si256(v.high, mask)};
}
inline I32x16 odd_lanes_only(I16x32 v) { return {_mm256_srli_epi32(v.low, 16), _mm256_srli_epi32(v.high, 16)}; }

inline I16x32 mul_words(I16x32 a, I16x32 b) {
  return {_mm256_mullo_epi16(a.low, b.low), _mm256_mullo_epi16(a.high, b.high)};
}
inline I16x32 words_of(DotSum sum) { return {sum.low, sum.high}; }

// Words of bytes, in two of them.
inline Bytes64 join_bytes(I16x32 low, I16x32 high) {
  return {_mm256_or_si256(low.low, _mm256_slli_epi16(high.low, 8)),
          _mm256_or_si256(low.high, _mm256_slli_epi16(high.high, 8))};
}

inline void store_i16(int16_t *to, I16x32 v) { store_bytes(to, {v.low, v.high}); }
inline I16x32 load_i16(const void *from) {
  const Bytes64 v = load_bytes(from);
  return {v.low, v.high};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
