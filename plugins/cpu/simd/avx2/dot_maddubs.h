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
constexpr bool kHasWideDotSums = false;

inline DotSum zero_dot_sum() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }

inline void hold_sum(DotSum &sum) { asm("" : "+x"(sum.low), "+x"(sum.high)); }

inline DotSum dot4(DotSum sum, Bytes64 codes, Bytes64 activations) {
  return {_mm256_add_epi16(sum.low, _mm256_maddubs_epi16(codes.low, activations.low)),
          _mm256_add_epi16(sum.high, _mm256_maddubs_epi16(codes.high, activations.high))};
}

template <int kShift>
I32x16 add_multiplied(I32x16 total, DotSum sum, const GroupMultiplier &multiplier) {
  I16x32 factor = splat_pair(multiplier.both());
  if constexpr (kShift > 0) {
    factor = {_mm256_slli_epi16(factor.low, kShift), _mm256_slli_epi16(factor.high, kShift)};
  }
  return dot2(total, {sum.low, sum.high}, factor);
}

inline DotSum begin_dot_sum(I32x16) { return zero_dot_sum(); }
inline I32x16 end_dot_sum(I32x16 total, DotSum sum) {
  const __m256i one = _mm256_set1_epi16(1);
  return dot2(total, {sum.low, sum.high}, {one, one});
}

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale) {
  return dot2(total, {sum.low, sum.high}, scale);
}

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale, const GroupMultiplier &multiplier) {
  return add_scaled_dot_sum(total, sum, mul_pairs(scale, multiplier));
}

// vpmaddubsw takes one side unsigned: |weight|, and the activation's complement where the weight is negative, which is
// one less than the activation's negative. vpsignb would give that itself, but waits for the units that multiply.
struct SignedWeights {
  Bytes64 magnitudes;
  Bytes64 negative;  // -1 or 0
};

// The sum of |weight| over the negative weights, negative, two 16-bit sums for each lane.
struct SignedExcess {
  __m256i low = _mm256_setzero_si256(), high = _mm256_setzero_si256();
};

inline __m256i magnitudes(__m256i weights, __m256i negative) {
  return _mm256_sub_epi8(_mm256_xor_si256(weights, negative), negative);
}

inline SignedWeights signed_weights(Bytes64 weights) {
  const __m256i zero = _mm256_setzero_si256();
  const Bytes64 negative = {_mm256_cmpgt_epi8(zero, weights.low), _mm256_cmpgt_epi8(zero, weights.high)};
  return {{magnitudes(weights.low, negative.low), magnitudes(weights.high, negative.high)}, negative};
}

inline SignedExcess add_excess(SignedExcess excess, const SignedWeights &weights) {
  return {_mm256_add_epi16(excess.low, _mm256_maddubs_epi16(weights.magnitudes.low, weights.negative.low)),
          _mm256_add_epi16(excess.high, _mm256_maddubs_epi16(weights.magnitudes.high, weights.negative.high))};
}

// A pair is from -2 * 128 * 128 = -2^15 to 2 * 128 * 127.
inline __m256i dot4_signed(__m256i total, __m256i magnitudes, __m256i negative, __m256i activations) {
  const __m256i pairs = _mm256_maddubs_epi16(magnitudes, _mm256_xor_si256(activations, negative));
  return _mm256_add_epi32(total, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

inline I32x16 dot4_signed(I32x16 total, const SignedWeights &weights, Bytes64 activations) {
  return {dot4_signed(total.low, weights.magnitudes.low, weights.negative.low, activations.low),
          dot4_signed(total.high, weights.magnitudes.high, weights.negative.high, activations.high)};
}

inline I32x16 take_excess(I32x16 total, SignedExcess excess) {
  const __m256i minus_one = _mm256_set1_epi16(-1);
  return {_mm256_add_epi32(total.low, _mm256_madd_epi16(excess.low, minus_one)),
          _mm256_add_epi32(total.high, _mm256_madd_epi16(excess.high, minus_one))};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
