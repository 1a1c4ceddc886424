// What a faster way to read blocks of FP8 has in common between AVX2 and AVX-512. Included by their vector.h.
#pragma once

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Fewer steps for what FP8 nearly always holds: a code's bits become the upper bits of a float, too small by a power of
// two (the difference between the exponents' biases) that the scale makes good. Wrong where the code is
// infinite or NaN and where the scale overflows by that, which no encoder makes it: all() says afterwards whether there
// was none of these.
template <uint8_t kMostCode, uint16_t kMostScale>
class F8Checks {
 public:
  bool all() const {
    const __m256i other = _mm256_subs_epu8(most_codes_, _mm256_set1_epi8(static_cast<char>(2 * kMostCode)));
    const __m128i large = _mm_subs_epu16(most_scales_, _mm_set1_epi16(static_cast<int16_t>(2 * kMostScale)));
    return _mm256_testz_si256(other, other) && _mm_testz_si128(large, large);
  }

 protected:
  void take_codes(__m256i codes) { most_codes_ = _mm256_max_epu8(most_codes_, _mm256_add_epi8(codes, codes)); }

  // The scales of R rows' blocks at once, times `scale_up`: a conversion takes longer than a block's products.
  template <int R>
  [[gnu::always_inline]] void take_scales(const uint8_t *from, size_t row_bytes, float scale_up, float (&scales)[4]) {
    static_assert(R <= 4);
    uint64_t bits = 0;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      uint16_t half;
      memcpy(&half, from + r * row_bytes, sizeof half);
      bits |= uint64_t{half} << 16 * r;
    }
    const __m128i halves = _mm_cvtsi64_si128(static_cast<int64_t>(bits));
    most_scales_ = _mm_max_epu16(most_scales_, _mm_add_epi16(halves, halves));
    _mm_store_ps(scales, _mm_mul_ps(_mm_cvtph_ps(halves), _mm_set1_ps(scale_up)));
  }

 private:
  // The largest so far, doubled, which drops their signs.
  __m256i most_codes_ = _mm256_setzero_si256();
  __m128i most_scales_ = _mm_setzero_si128();
};

using E4M3Checks = F8Checks<0x7E, 0x5BFF>;  // scales below 256
using E5M2Checks = F8Checks<0x7B, 0x7FFF>;

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
