// The vocabulary's sums of products of bytes in AVX2 alone, in 16 bits first.
#pragma once

#include "plugins/cpu/simd/avx2/vector.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Two 16-bit sums for each lane: half the instructions of widening at once.
struct DotSum {
  __m256i low, high;
};

constexpr int kSignedDotBias = 0;

inline DotSum zero_dot_sum() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }

inline DotSum dot4(DotSum sum, Bytes64 codes, Bytes64 activations) {
  return {_mm256_add_epi16(sum.low, _mm256_maddubs_epi16(codes.low, activations.low)),
          _mm256_add_epi16(sum.high, _mm256_maddubs_epi16(codes.high, activations.high))};
}

template <int kShift>
I32x16 add_dot_sum(I32x16 total, DotSum sum) {
  const __m256i factor = _mm256_set1_epi16(1 << kShift);
  return {_mm256_add_epi32(total.low, _mm256_madd_epi16(sum.low, factor)),
          _mm256_add_epi32(total.high, _mm256_madd_epi16(sum.high, factor))};
}

inline DotSum begin_dot_sum(I32x16) { return zero_dot_sum(); }
inline I32x16 end_dot_sum(I32x16 total, DotSum sum) { return add_dot_sum<0>(total, sum); }

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale) {
  return dot2(total, {sum.low, sum.high}, scale);
}

// |weight| is at most 128 and the activation takes the weight's sign: a pair is at most 2 * 128 * 127 < 2^15.
inline __m256i dot4_signed(__m256i total, __m256i weights, __m256i activations) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(weights), _mm256_sign_epi8(activations, weights));
  return _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

inline I32x16 dot4_signed(I32x16 total, Bytes64 weights, Bytes64 activations) {
  return {dot4_signed(total.low, weights.low, activations.low),
          dot4_signed(total.high, weights.high, activations.high)};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
