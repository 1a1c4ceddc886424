// The vocabulary in AVX-512 F, BW, DQ, VL and VNNI: one register a vector. portable/vector.h says what each function
// does.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Bytes64 {
  __m512i v;
};
struct Mask16 {
  __mmask16 v;
};
struct DotSum {
  __m512i v;
};
struct I16x32 {
  __m512i v;
};

constexpr int kMaxTokens = 8;

// vpdpbusd takes one side unsigned: weights go in with 128 added.
constexpr int kSignedDotBias = 128;
constexpr bool kHasWideDotSums = true;

inline __mmask16 first_lanes(size_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

inline F32x16 load(const float *from) { return {_mm512_loadu_ps(from)}; }
inline F32x16 load_partial(const float *from, size_t n) { return {_mm512_maskz_loadu_ps(first_lanes(n), from)}; }
inline void store(float *to, F32x16 a) { _mm512_storeu_ps(to, a.v); }
inline void store_partial(float *to, F32x16 a, size_t n) { _mm512_mask_storeu_ps(to, first_lanes(n), a.v); }
inline I32x16 load_i32(const int32_t *from) { return {_mm512_loadu_si512(from)}; }
inline void store_i32(int32_t *to, I32x16 a) { _mm512_storeu_si512(to, a.v); }

// Once: GCC 12 would load it again for each use, which costs twice as much where it crosses lines.
inline Bytes64 load_bytes(const void *from) {
  __m512i v = _mm512_loadu_si512(from);
#ifdef __AVX512F__  // and not emulated
  asm("" : "+v"(v));
#endif
  return {v};
}
inline void store_bytes(void *to, Bytes64 a) { _mm512_storeu_si512(to, a.v); }

inline F32x16 splat(float value) { return {_mm512_set1_ps(value)}; }
inline I32x16 splat_i32(int32_t value) { return {_mm512_set1_epi32(value)}; }
inline Bytes64 splat_byte(uint8_t value) { return {_mm512_set1_epi8(static_cast<char>(value))}; }

inline Bytes64 splat_4_bytes(const void *from) {
  int32_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  return {_mm512_set1_epi32(bytes)};
}

inline I32x16 bits_of(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
inline F32x16 from_bits(I32x16 bits) { return {_mm512_castsi512_ps(bits.v)}; }

inline F32x16 add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
inline F32x16 sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline F32x16 mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline F32x16 div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline F32x16 sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
inline F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
inline F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }

inline I32x16 add(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32x16 sub(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I32x16 max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline I32x16 bit_and(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }

template <int kBits>
I32x16 shift_left(I32x16 a) {
  return {_mm512_slli_epi32(a.v, kBits)};
}

template <int kBits>
I32x16 shift_right(I32x16 a) {
  return {_mm512_srai_epi32(a.v, kBits)};
}

template <int kBits>
I32x16 shift_right_halves(I32x16 a) {
  return {_mm512_srai_epi16(a.v, kBits)};
}

inline Mask16 less(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
inline Mask16 less_equal(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LE_OQ)}; }
inline Mask16 equal(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_EQ_OQ)}; }
inline F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) { return {_mm512_mask_blend_ps(mask.v, no.v, yes.v)}; }

inline F32x16 to_f32(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline I32x16 to_i32(F32x16 a) { return {_mm512_cvtps_epi32(a.v)}; }

inline __m256i load_256(const void *from) { return _mm256_loadu_si256(static_cast<const __m256i *>(from)); }

inline F32x16 load_i8(const int8_t *from) {
  return to_f32({_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(from)))});
}

inline F32x16 load_f16(const uint16_t *from) { return {_mm512_cvtph_ps(load_256(from))}; }

inline F32x16 load_f16_partial(const uint16_t *from, size_t n) {
  uint16_t halves[16] = {};
  memcpy(halves, from, n * sizeof *from);
  return load_f16(halves);
}

inline void store_f16(uint16_t *to, F32x16 a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT));
}

inline void store_f16_partial(uint16_t *to, F32x16 a, size_t n) {
  uint16_t halves[16];
  store_f16(halves, a);
  memcpy(to, halves, n * sizeof *to);
}

inline F32x16 load_bf16(const uint16_t *from) {
  return from_bits(shift_left<16>({_mm512_cvtepu16_epi32(load_256(from))}));
}

inline F32x16 load_bf16_partial(const uint16_t *from, size_t n) {
  uint16_t values[16] = {};
  memcpy(values, from, n * sizeof *from);
  return load_bf16(values);
}

inline __m128i load_128(const void *from) { return _mm_loadu_si128(static_cast<const __m128i *>(from)); }

inline F32x16 canonical_nan(F32x16 a) { return select(equal(a, a), a, from_bits(splat_i32(0x7FC00000))); }

inline __m256 upper_half(__m512 a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }

inline float reduce_add(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), upper_half(a.v));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Each step adds halves of two vectors and leaves them side by side in one.
inline F32x16 reduce_add_each(const float *vectors, size_t stride) {
  __m512 sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = _mm512_loadu_ps(vectors + i * stride);
  for (int i = 0; i < 8; ++i) {
    sums[i] = _mm512_add_ps(_mm512_shuffle_f32x4(sums[i], sums[i + 8], 0x44),
                            _mm512_shuffle_f32x4(sums[i], sums[i + 8], 0xEE));
  }
  for (int i = 0; i < 4; ++i) {
    sums[i] = _mm512_add_ps(_mm512_shuffle_f32x4(sums[i], sums[i + 4], 0x88),
                            _mm512_shuffle_f32x4(sums[i], sums[i + 4], 0xDD));
  }
  for (int i = 0; i < 2; ++i) {
    sums[i] =
        _mm512_add_ps(_mm512_shuffle_ps(sums[i], sums[i + 2], 0x44), _mm512_shuffle_ps(sums[i], sums[i + 2], 0xEE));
  }
  const __m512 all =
      _mm512_add_ps(_mm512_shuffle_ps(sums[0], sums[1], 0x88), _mm512_shuffle_ps(sums[0], sums[1], 0xDD));
  const __m512i places = _mm512_setr_epi32(0, 2, 1, 3, 8, 10, 9, 11, 4, 6, 5, 7, 12, 14, 13, 15);
  return {_mm512_permutexvar_ps(places, all)};
}

inline float reduce_max(F32x16 a) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), upper_half(a.v));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline int32_t reduce_add(I32x16 a) {
  const __m256i eight = _mm256_add_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1));
  const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_add_epi32(two, _mm_shuffle_epi32(two, 1)));
}

inline int32_t reduce_max(I32x16 a) {
  const __m256i eight = _mm256_max_epi32(_mm512_castsi512_si256(a.v), _mm512_extracti64x4_epi64(a.v, 1));
  const __m128i four = _mm_max_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  const __m128i two = _mm_max_epi32(four, _mm_unpackhi_epi64(four, four));
  return _mm_cvtsi128_si32(_mm_max_epi32(two, _mm_shuffle_epi32(two, 1)));
}

// Of each quarter of the vectors: a's largest lane, b's, c's, d's.
inline __m512i max_each(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_max_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
  const __m512i cd = _mm512_max_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
  return _mm512_max_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
}

inline I32x16 reduce_max_each(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  const __m512i quarters = max_each(a.v, b.v, c.v, d.v);
  const __m256i halves = _mm256_max_epi32(_mm512_castsi512_si256(quarters), _mm512_extracti64x4_epi64(quarters, 1));
  const __m128i each = _mm_max_epi32(_mm256_castsi256_si128(halves), _mm256_extracti128_si256(halves, 1));
  return {_mm512_inserti64x4(_mm512_setzero_si512(), _mm256_zextsi128_si256(each), 0)};
}

template <int kDistance>
I32x16 swap_lanes(I32x16 v) {
  const __m512 a = _mm512_castsi512_ps(v.v);
  if constexpr (kDistance == 4) {
    return {_mm512_castps_si512(_mm512_shuffle_f32x4(a, a, 0xB1))};
  } else {
    return {_mm512_castps_si512(_mm512_shuffle_ps(a, a, kDistance == 1 ? 0xB1 : 0x4E))};
  }
}

inline Bytes64 bit_and(Bytes64 a, Bytes64 b) { return {_mm512_and_si512(a.v, b.v)}; }

template <int kBits>
Bytes64 shift_right_bytes(Bytes64 a) {
  return {_mm512_srli_epi16(a.v, kBits)};
}

inline Bytes64 bit_or(Bytes64 a, Bytes64 b) { return {_mm512_or_si512(a.v, b.v)}; }

template <int kBits>
Bytes64 shift_left_bytes(Bytes64 a) {
  return {_mm512_slli_epi16(a.v, kBits)};
}

inline Bytes64 repeat_16_bytes(const int8_t *from) { return {_mm512_broadcast_i32x4(load_128(from))}; }
inline Bytes64 look_up_bytes(Bytes64 table, Bytes64 index) { return {_mm512_shuffle_epi8(table.v, index.v)}; }

inline DotSum zero_dot_sum() { return {_mm512_setzero_si512()}; }

inline void hold_sum(DotSum &) {}

inline DotSum dot4(DotSum sum, Bytes64 codes, Bytes64 activations) {
  return {_mm512_dpbusd_epi32(sum.v, codes.v, activations.v)};
}

inline I16x32 splat_pair(const int16_t *from) {
  int32_t pair;
  memcpy(&pair, from, sizeof pair);
  return {_mm512_set1_epi32(pair)};
}

inline I32x16 mul(I32x16 a, const GroupMultiplier &multiplier) {
  return {_mm512_mullo_epi32(a.v, splat_pair(multiplier.even()).v)};
}

template <int kShift>
I32x16 add_multiplied(I32x16 total, DotSum sum, const GroupMultiplier &multiplier) {
  const __m512i factor = _mm512_slli_epi32(splat_pair(multiplier.even()).v, kShift);
  return {_mm512_dpwssd_epi32(total.v, sum.v, factor)};
}

inline DotSum begin_dot_sum(I32x16 total) { return {total.v}; }
inline I32x16 end_dot_sum(I32x16, DotSum sum) { return {sum.v}; }

// With 128 added.
struct SignedWeights {
  Bytes64 v;
};
struct SignedExcess {};

inline SignedWeights signed_weights(Bytes64 weights) {
  return {{_mm512_xor_si512(weights.v, _mm512_set1_epi8(static_cast<char>(0x80)))}};
}
inline SignedExcess add_excess(SignedExcess excess, SignedWeights) { return excess; }
inline I32x16 take_excess(I32x16 total, SignedExcess) { return total; }

inline I32x16 dot4_signed(I32x16 total, SignedWeights weights, Bytes64 activations) {
  return {_mm512_dpbusd_epi32(total.v, weights.v.v, activations.v)};
}

inline I16x32 load_i8_pairs(const void *from) { return {_mm512_cvtepi8_epi16(load_256(from))}; }

template <int kShift>
I16x32 nibbles(I16x32 a) {
  return {_mm512_and_si512(_mm512_srli_epi16(a.v, kShift), _mm512_set1_epi16(15))};
}

inline I16x32 repeat_even(I16x32 a) {
  return {_mm512_shuffle_epi8(a.v, _mm512_set4_epi32(0x0D0C0D0C, 0x09080908, 0x05040504, 0x01000100))};
}

inline I16x32 repeat_odd(I16x32 a) {
  return {_mm512_shuffle_epi8(a.v, _mm512_set4_epi32(0x0F0E0F0E, 0x0B0A0B0A, 0x07060706, 0x03020302))};
}

inline I32x16 dot2(I32x16 total, I16x32 a, I16x32 b) { return {_mm512_dpwssd_epi32(total.v, a.v, b.v)}; }

inline I16x32 mul_pairs(I16x32 a, const GroupMultiplier &multiplier) {
  return {_mm512_mullo_epi16(a.v, splat_pair(multiplier.both()).v)};
}

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale) {
  return {_mm512_add_epi32(total.v, _mm512_mullo_epi32(sum.v, _mm512_srai_epi32(scale.v, 16)))};
}

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale, const GroupMultiplier &multiplier) {
  const __m512i factor = _mm512_mullo_epi32(_mm512_srai_epi32(scale.v, 16), splat_pair(multiplier.even()).v);
  return {_mm512_add_epi32(total.v, _mm512_mullo_epi32(sum.v, factor))};
}

inline Bytes64 join_even_halves(Bytes64 lower, Bytes64 upper) {
  return {_mm512_mask_blend_epi16(0xAAAAAAAA, lower.v, _mm512_slli_epi32(upper.v, 16))};
}

inline Bytes64 join_odd_halves(Bytes64 lower, Bytes64 upper) {
  return {_mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(lower.v, 16), upper.v)};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER

#include "plugins/cpu/simd/avx512/abreast_lookup.h"
#include "plugins/cpu/simd/avx512/sign_lookup.h"
#include "plugins/cpu/simd/avx512/trit_lookup.h"
#include "plugins/cpu/simd/whole_lanes.h"
