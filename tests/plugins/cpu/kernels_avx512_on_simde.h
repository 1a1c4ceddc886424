// AVX-512 intrinsics on a machine without AVX-512: SIMDe's, and those that SIMDe 0.7.4 lacks. Included before
// simd/avx512/vector.h, it lets the tier's own sources run anywhere that AVX2 does.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
//
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

namespace bonsai::cpu::simde_additions {

inline __m256 lower(__m512 a) { return _mm512_castps512_ps256(a); }
inline __m256 upper(__m512 a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }
inline __m256i lower(__m512i a) { return _mm512_castsi512_si256(a); }
inline __m256i upper(__m512i a) { return _mm512_extracti64x4_epi64(a, 1); }

inline __m512i join(__m256i low, __m256i high) { return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1); }
inline __m512 join(__m256 low, __m256 high) {
  return _mm512_castsi512_ps(join(_mm256_castps_si256(low), _mm256_castps_si256(high)));
}

inline __m512 cvtepi32_ps(__m512i a) { return join(_mm256_cvtepi32_ps(lower(a)), _mm256_cvtepi32_ps(upper(a))); }
inline __m512i cvtps_epi32(__m512 a) { return join(_mm256_cvtps_epi32(lower(a)), _mm256_cvtps_epi32(upper(a))); }

inline __m512i cvtepi8_epi32(__m128i a) {
  return join(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)));
}

inline __m128i cvtepi32_epi8(__m512i a) {
  int32_t from[16];
  int8_t to[16];
  _mm512_storeu_si512(from, a);
  for (int i = 0; i < 16; ++i) to[i] = static_cast<int8_t>(from[i]);
  return _mm_loadu_si128(reinterpret_cast<const __m128i *>(to));
}

inline __m512i cvtepu16_epi32(__m256i a) {
  return join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)));
}

inline __m512i cvtepu8_epi16(__m256i a) {
  return join(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)), _mm256_cvtepu8_epi16(_mm256_extracti128_si256(a, 1)));
}

inline __m512i madd_epi16(__m512i a, __m512i b) {
  return join(_mm256_madd_epi16(lower(a), lower(b)), _mm256_madd_epi16(upper(a), upper(b)));
}

// SIMDe's add and subtract as signed numbers, which must not wrap around.
inline __m512i add_epi16(__m512i a, __m512i b) {
  return join(_mm256_add_epi16(lower(a), lower(b)), _mm256_add_epi16(upper(a), upper(b)));
}

inline __m512i sub_epi16(__m512i a, __m512i b) {
  return join(_mm256_sub_epi16(lower(a), lower(b)), _mm256_sub_epi16(upper(a), upper(b)));
}

inline __m512i mulhi_epu16(__m512i a, __m512i b) {
  return join(_mm256_mulhi_epu16(lower(a), lower(b)), _mm256_mulhi_epu16(upper(a), upper(b)));
}

inline __m256i mask_sub_epi8(__m256i otherwise, __mmask32 mask, __m256i a, __m256i b) {
  int8_t to[32], differences[32];
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(to), otherwise);
  _mm256_storeu_si256(reinterpret_cast<__m256i *>(differences), _mm256_sub_epi8(a, b));
  for (int i = 0; i < 32; ++i) {
    if ((mask >> i & 1) != 0) to[i] = differences[i];
  }
  return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(to));
}

inline __m512 cvtph_ps(__m256i a) {
  return join(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}

template <int kRounding>
__m256i cvtps_ph(__m512 a) {
  return _mm256_set_m128i(_mm256_cvtps_ph(upper(a), kRounding), _mm256_cvtps_ph(lower(a), kRounding));
}

template <int kBits>
__m512i srai_epi32(__m512i a) {
  return join(_mm256_srai_epi32(lower(a), kBits), _mm256_srai_epi32(upper(a), kBits));
}

template <int kLanes>
__m512 shuffle_ps(__m512 a, __m512 b) {
  return join(_mm256_shuffle_ps(lower(a), lower(b), kLanes), _mm256_shuffle_ps(upper(a), upper(b), kLanes));
}

// Blocks of four lanes, two of each operand.
template <int kBlocks>
__m512 shuffle_f32x4(__m512 a, __m512 b) {
  float from[32], to[16];
  _mm512_storeu_ps(from, a);
  _mm512_storeu_ps(from + 16, b);
  for (int i = 0; i < 4; ++i) memcpy(to + 4 * i, from + i / 2 * 16 + (kBlocks >> 2 * i & 3) * 4, 4 * sizeof(float));
  return _mm512_loadu_ps(to);
}

inline __m512 maskz_loadu_ps(__mmask16 mask, const void *from) {
  float lanes[16] = {};
  for (int i = 0; i < 16; ++i) {
    if (mask >> i & 1) memcpy(lanes + i, static_cast<const char *>(from) + i * sizeof(float), sizeof(float));
  }
  return _mm512_loadu_ps(lanes);
}

inline void mask_storeu_ps(void *to, __mmask16 mask, __m512 a) {
  float lanes[16];
  _mm512_storeu_ps(lanes, a);
  for (int i = 0; i < 16; ++i) {
    if (mask >> i & 1) memcpy(static_cast<char *>(to) + i * sizeof(float), lanes + i, sizeof(float));
  }
}

}  // namespace bonsai::cpu::simde_additions

#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps(a) bonsai::cpu::simde_additions::cvtepi32_ps(a)
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32(a) bonsai::cpu::simde_additions::cvtps_epi32(a)
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32(a) bonsai::cpu::simde_additions::cvtepi8_epi32(a)
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8(a) bonsai::cpu::simde_additions::cvtepi32_epi8(a)
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32(a) bonsai::cpu::simde_additions::cvtepu16_epi32(a)
#undef _mm512_cvtepu8_epi16
#define _mm512_cvtepu8_epi16(a) bonsai::cpu::simde_additions::cvtepu8_epi16(a)
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) bonsai::cpu::simde_additions::madd_epi16(a, b)
#undef _mm512_add_epi16
#define _mm512_add_epi16(a, b) bonsai::cpu::simde_additions::add_epi16(a, b)
#undef _mm512_sub_epi16
#define _mm512_sub_epi16(a, b) bonsai::cpu::simde_additions::sub_epi16(a, b)
#undef _mm512_mulhi_epu16
#define _mm512_mulhi_epu16(a, b) bonsai::cpu::simde_additions::mulhi_epu16(a, b)
#undef _mm256_mask_sub_epi8
#define _mm256_mask_sub_epi8(otherwise, mask, a, b) bonsai::cpu::simde_additions::mask_sub_epi8(otherwise, mask, a, b)
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps(a) bonsai::cpu::simde_additions::cvtph_ps(a)
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, rounding) bonsai::cpu::simde_additions::cvtps_ph<rounding>(a)
#undef _mm512_srai_epi32
#define _mm512_srai_epi32(a, bits) bonsai::cpu::simde_additions::srai_epi32<bits>(a)
#undef _mm512_shuffle_ps
#define _mm512_shuffle_ps(a, b, lanes) bonsai::cpu::simde_additions::shuffle_ps<lanes>(a, b)
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, blocks) bonsai::cpu::simde_additions::shuffle_f32x4<blocks>(a, b)
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps(mask, from) bonsai::cpu::simde_additions::maskz_loadu_ps(mask, from)
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps(to, mask, a) bonsai::cpu::simde_additions::mask_storeu_ps(to, mask, a)
