// The vocabulary in AVX2, FMA and F16C: two 256-bit registers a vector. portable/vector.h says what each function does.
// Sums of products of bytes are in dot_maddubs.h and, by AVX-VNNI, in dot_vnni.h: a tier includes one of these.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Lanes 0 to 7 and 8 to 15.
struct F32x16 {
  __m256 low, high;
};
struct I32x16 {
  __m256i low, high;
};
struct Bytes64 {
  __m256i low, high;
};
struct Mask16 {
  __m256 low, high;
};
struct I16x32 {
  __m256i low, high;
};

constexpr int kMaxTokens = 4;

// Eight lanes of all ones in the first n places, n <= 8.
inline __m256i first_lanes(size_t n) {
  alignas(32) static constexpr int32_t kOnes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(kOnes + 8 - n));
}

inline F32x16 load(const float *from) { return {_mm256_loadu_ps(from), _mm256_loadu_ps(from + 8)}; }

inline F32x16 load_partial(const float *from, size_t n) {
  if (n <= 8) return {_mm256_maskload_ps(from, first_lanes(n)), _mm256_setzero_ps()};
  return {_mm256_loadu_ps(from), _mm256_maskload_ps(from + 8, first_lanes(n - 8))};
}

inline void store(float *to, F32x16 v) {
  _mm256_storeu_ps(to, v.low);
  _mm256_storeu_ps(to + 8, v.high);
}

inline void store_partial(float *to, F32x16 v, size_t n) {
  if (n <= 8) {
    _mm256_maskstore_ps(to, first_lanes(n), v.low);
  } else {
    _mm256_storeu_ps(to, v.low);
    _mm256_maskstore_ps(to + 8, first_lanes(n - 8), v.high);
  }
}

// A register: half of them.
struct Lanes {
  __m256 v;
};
constexpr int kLaneParts = 2;

template <int kPart>
Lanes part(F32x16 v) {
  return {kPart == 0 ? v.low : v.high};
}

inline Lanes load_lanes(const float *from) { return {_mm256_loadu_ps(from)}; }
inline void store_lanes(float *to, Lanes v) { _mm256_storeu_ps(to, v.v); }
inline void hold_lanes(Lanes &) {}
inline Lanes fma(Lanes a, Lanes b, Lanes c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Lanes splat_lanes(float value) { return {_mm256_set1_ps(value)}; }
inline Lanes load_lanes_f16(const uint16_t *from) {
  return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)))};
}

// Two codes of a word lie at the top of its halves, the other two are shifted there.
template <int kMantissaBits>
void load_f8(const uint8_t *words, Lanes (&to)[4]) {
  const __m256i bits = _mm256_set1_epi32(f8_bits<kMantissaBits>());
  const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(words));
  const __m256i odd = _mm256_srai_epi16(v, kMantissaBits + 1);
  const __m256i even = _mm256_srai_epi16(_mm256_slli_epi32(v, 8), kMantissaBits + 1);
  to[0].v = _mm256_castsi256_ps(_mm256_and_si256(_mm256_slli_epi32(even, 16), bits));
  to[1].v = _mm256_castsi256_ps(_mm256_and_si256(_mm256_slli_epi32(odd, 16), bits));
  to[2].v = _mm256_castsi256_ps(_mm256_and_si256(even, bits));
  to[3].v = _mm256_castsi256_ps(_mm256_and_si256(odd, bits));
}

inline __m256i load_256(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }

inline I32x16 load_i32(const int32_t *from) { return {load_256(from), load_256(from + 8)}; }

inline void store_i32(int32_t *to, I32x16 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), v.low);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to + 8), v.high);
}

inline Bytes64 load_bytes(const void *from) { return {load_256(from), load_256(static_cast<const char *>(from) + 32)}; }
inline void store_bytes(void *to, Bytes64 v) {
  _mm256_storeu_si256(static_cast<__m256i *>(to), v.low);
  _mm256_storeu_si256(static_cast<__m256i *>(to) + 1, v.high);
}

inline F32x16 splat(float value) { return {_mm256_set1_ps(value), _mm256_set1_ps(value)}; }
inline I32x16 splat_i32(int32_t value) { return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)}; }

inline Bytes64 splat_byte(uint8_t value) {
  const __m256i v = _mm256_set1_epi8(static_cast<char>(value));
  return {v, v};
}

inline Bytes64 splat_4_bytes(const void *from) {
  int32_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  const __m256i v = _mm256_set1_epi32(bytes);
  return {v, v};
}

inline I32x16 bits_of(F32x16 v) { return {_mm256_castps_si256(v.low), _mm256_castps_si256(v.high)}; }
inline F32x16 from_bits(I32x16 bits) { return {_mm256_castsi256_ps(bits.low), _mm256_castsi256_ps(bits.high)}; }

inline F32x16 add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }

inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

inline F32x16 sqrt(F32x16 v) { return {_mm256_sqrt_ps(v.low), _mm256_sqrt_ps(v.high)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }

inline I32x16 add(I32x16 a, I32x16 b) { return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)}; }
inline I32x16 sub(I32x16 a, I32x16 b) { return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)}; }
inline I32x16 max(I32x16 a, I32x16 b) { return {_mm256_max_epi32(a.low, b.low), _mm256_max_epi32(a.high, b.high)}; }

inline I32x16 bit_and(I32x16 a, I32x16 b) { return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)}; }

template <int kBits>
I32x16 shift_left(I32x16 v) {
  return {_mm256_slli_epi32(v.low, kBits), _mm256_slli_epi32(v.high, kBits)};
}

template <int kBits>
I32x16 shift_right(I32x16 v) {
  return {_mm256_srai_epi32(v.low, kBits), _mm256_srai_epi32(v.high, kBits)};
}

inline Mask16 less(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ)};
}

inline Mask16 less_equal(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_LE_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_LE_OQ)};
}

inline Mask16 equal(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.low, b.low, _CMP_EQ_OQ), _mm256_cmp_ps(a.high, b.high, _CMP_EQ_OQ)};
}

inline F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.low, yes.low, mask.low), _mm256_blendv_ps(no.high, yes.high, mask.high)};
}

inline F32x16 to_f32(I32x16 v) { return {_mm256_cvtepi32_ps(v.low), _mm256_cvtepi32_ps(v.high)}; }
inline I32x16 to_i32(F32x16 v) { return {_mm256_cvtps_epi32(v.low), _mm256_cvtps_epi32(v.high)}; }

inline __m128i load_128(const void *from) { return _mm_loadu_si128(static_cast<const __m128i *>(from)); }

inline F32x16 load_i8(const int8_t *from) {
  const __m128i bytes = load_128(from);
  return to_f32({_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(bytes, bytes))});
}

inline F32x16 load_f16(const uint16_t *from) {
  return {_mm256_cvtph_ps(load_128(from)), _mm256_cvtph_ps(load_128(from + 8))};
}

inline F32x16 load_f16_partial(const uint16_t *from, size_t n) {
  uint16_t halves[16] = {};
  memcpy(halves, from, n * sizeof *from);
  return load_f16(halves);
}

inline void store_f16(uint16_t *to, F32x16 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to), _mm256_cvtps_ph(v.low, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(to + 8), _mm256_cvtps_ph(v.high, _MM_FROUND_TO_NEAREST_INT));
}

inline void store_f16_partial(uint16_t *to, F32x16 v, size_t n) {
  uint16_t halves[16];
  store_f16(halves, v);
  memcpy(to, halves, n * sizeof *to);
}

inline F32x16 load_bf16(const uint16_t *from) {
  const I32x16 upper = {_mm256_cvtepu16_epi32(load_128(from)), _mm256_cvtepu16_epi32(load_128(from + 8))};
  return from_bits(shift_left<16>(upper));
}

inline F32x16 load_bf16_partial(const uint16_t *from, size_t n) {
  uint16_t values[16] = {};
  memcpy(values, from, n * sizeof *from);
  return load_bf16(values);
}

inline F32x16 canonical_nan(F32x16 v) { return select(equal(v, v), v, from_bits(splat_i32(0x7FC00000))); }

inline float reduce_add(F32x16 v) {
  const __m256 eight = _mm256_add_ps(v.low, v.high);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

inline F32x16 reduce_add_each(const float *vectors, size_t stride) {
  float sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = reduce_add(load(vectors + i * stride));
  return load(sums);
}

inline float reduce_max(F32x16 v) {
  const __m256 eight = _mm256_max_ps(v.low, v.high);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline int32_t reduce_add(I32x16 v) {
  const __m256i eight = _mm256_add_epi32(v.low, v.high);
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

inline int32_t reduce_max(I32x16 v) {
  const __m256i eight = _mm256_max_epi32(v.low, v.high);
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
}

inline __m256i max_of_halves(I32x16 v) { return _mm256_max_epi32(v.low, v.high); }

// Of each half of the vectors: a's largest lane, b's, c's, d's.
inline __m256i max_each(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i ab = _mm256_max_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  const __m256i cd = _mm256_max_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
  return _mm256_max_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
}

inline I32x16 reduce_max_each(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  const __m256i both = max_each(max_of_halves(a), max_of_halves(b), max_of_halves(c), max_of_halves(d));
  const __m128i each = _mm_max_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  return {_mm256_zextsi128_si256(each), _mm256_setzero_si256()};
}

template <int kDistance>
I32x16 swap_lanes(I32x16 v) {
  if constexpr (kDistance == 4) {
    return {_mm256_permute4x64_epi64(v.low, 0x4E), _mm256_permute4x64_epi64(v.high, 0x4E)};
  } else {
    constexpr int kOrder = kDistance == 1 ? 0xB1 : 0x4E;
    return {_mm256_shuffle_epi32(v.low, kOrder), _mm256_shuffle_epi32(v.high, kOrder)};
  }
}

inline Bytes64 bit_and(Bytes64 a, Bytes64 b) {
  return {_mm256_and_si256(a.low, b.low), _mm256_and_si256(a.high, b.high)};
}

template <int kBits>
Bytes64 shift_right_bytes(Bytes64 v) {
  return {_mm256_srli_epi16(v.low, kBits), _mm256_srli_epi16(v.high, kBits)};
}

inline Bytes64 repeat_16_bytes(const int8_t *from) {
  const __m256i twice = _mm256_broadcastsi128_si256(load_128(from));
  return {twice, twice};
}
inline Bytes64 look_up_bytes(Bytes64 table, Bytes64 index) {
  return {_mm256_shuffle_epi8(table.low, index.low), _mm256_shuffle_epi8(table.high, index.high)};
}

inline Bytes64 bit_or(Bytes64 a, Bytes64 b) { return {_mm256_or_si256(a.low, b.low), _mm256_or_si256(a.high, b.high)}; }

template <int kBits>
Bytes64 shift_left_bytes(Bytes64 v) {
  return {_mm256_slli_epi16(v.low, kBits), _mm256_slli_epi16(v.high, kBits)};
}

inline I16x32 load_i8_pairs(const void *from) {
  return {_mm256_cvtepi8_epi16(load_128(from)), _mm256_cvtepi8_epi16(load_128(static_cast<const char *>(from) + 16))};
}

inline I16x32 splat_pair(const int16_t *from) {
  int32_t pair;
  memcpy(&pair, from, sizeof pair);
  const __m256i v = _mm256_set1_epi32(pair);
  return {v, v};
}

template <int kShift>
I16x32 nibbles(I16x32 v) {
  const __m256i mask = _mm256_set1_epi16(15);
  return {_mm256_and_si256(_mm256_srli_epi16(v.low, kShift), mask),
          _mm256_and_si256(_mm256_srli_epi16(v.high, kShift), mask)};
}

inline I16x32 repeat_even(I16x32 v) {
  const __m256i places = _mm256_set_epi32(0x0D0C0D0C, 0x09080908, 0x05040504, 0x01000100,  //
                                          0x0D0C0D0C, 0x09080908, 0x05040504, 0x01000100);
  return {_mm256_shuffle_epi8(v.low, places), _mm256_shuffle_epi8(v.high, places)};
}

inline I16x32 repeat_odd(I16x32 v) {
  const __m256i places = _mm256_set_epi32(0x0F0E0F0E, 0x0B0A0B0A, 0x07060706, 0x03020302,  //
                                          0x0F0E0F0E, 0x0B0A0B0A, 0x07060706, 0x03020302);
  return {_mm256_shuffle_epi8(v.low, places), _mm256_shuffle_epi8(v.high, places)};
}

inline I32x16 mul(I32x16 v, const GroupMultiplier &multiplier) {
  const __m256i factor = splat_pair(multiplier.even()).low;
  return {_mm256_mullo_epi32(v.low, factor), _mm256_mullo_epi32(v.high, factor)};
}

inline I16x32 mul_pairs(I16x32 v, const GroupMultiplier &multiplier) {
  const I16x32 factor = splat_pair(multiplier.both());
  return {_mm256_mullo_epi16(v.low, factor.low), _mm256_mullo_epi16(v.high, factor.high)};
}

inline I32x16 dot2(I32x16 total, I16x32 a, I16x32 b) {
  return {_mm256_add_epi32(total.low, _mm256_madd_epi16(a.low, b.low)),
          _mm256_add_epi32(total.high, _mm256_madd_epi16(a.high, b.high))};
}

inline Bytes64 join_even_halves(Bytes64 lower, Bytes64 upper) {
  return {_mm256_blend_epi16(lower.low, _mm256_slli_epi32(upper.low, 16), 0xAA),
          _mm256_blend_epi16(lower.high, _mm256_slli_epi32(upper.high, 16), 0xAA)};
}

inline Bytes64 join_odd_halves(Bytes64 lower, Bytes64 upper) {
  return {_mm256_blend_epi16(_mm256_srli_epi32(lower.low, 16), upper.low, 0xAA),
          _mm256_blend_epi16(_mm256_srli_epi32(lower.high, 16), upper.high, 0xAA)};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER

#include "plugins/cpu/simd/avx2/abreast_lookup.h"
#include "plugins/cpu/simd/avx2/sign_lookup.h"
#include "plugins/cpu/simd/no_trit_lookup.h"
