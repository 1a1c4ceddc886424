// The vocabulary's sums of products of bytes in AVX-VNNI: one instruction for each half, straight into 32 bits.
#pragma once

#include "plugins/cpu/simd/avx2/vector.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// One 32-bit sum for each lane.
struct DotSum {
  __m256i low, high;
};

// vpdpbusd takes one side unsigned: weights go in with 128 added.
constexpr int kSignedDotBias = 128;
constexpr bool kHasWideDotSums = true;

inline DotSum zero_dot_sum() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }

inline void hold_sum(DotSum &) {}

inline DotSum dot4(DotSum sum, Bytes64 codes, Bytes64 activations) {
  return {_mm256_dpbusd_avx_epi32(sum.low, codes.low, activations.low),
          _mm256_dpbusd_avx_epi32(sum.high, codes.high, activations.high)};
}

template <int kShift>
I32x16 add_multiplied(I32x16 total, DotSum sum, const GroupMultiplier &multiplier) {
  const __m256i factor = _mm256_slli_epi32(splat_pair(multiplier.even()).low, kShift);
  return dot2(total, {sum.low, sum.high}, {factor, factor});
}

inline DotSum begin_dot_sum(I32x16 total) { return {total.low, total.high}; }
inline I32x16 end_dot_sum(I32x16, DotSum sum) { return {sum.low, sum.high}; }

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale) {
  return {_mm256_add_epi32(total.low, _mm256_mullo_epi32(sum.low, _mm256_srai_epi32(scale.low, 16))),
          _mm256_add_epi32(total.high, _mm256_mullo_epi32(sum.high, _mm256_srai_epi32(scale.high, 16)))};
}

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale, const GroupMultiplier &multiplier) {
  const __m256i m = splat_pair(multiplier.even()).low;
  const __m256i low = _mm256_mullo_epi32(_mm256_srai_epi32(scale.low, 16), m);
  const __m256i high = _mm256_mullo_epi32(_mm256_srai_epi32(scale.high, 16), m);
  return {_mm256_add_epi32(total.low, _mm256_mullo_epi32(sum.low, low)),
          _mm256_add_epi32(total.high, _mm256_mullo_epi32(sum.high, high))};
}

// With 128 added.
struct SignedWeights {
  Bytes64 v;
};
struct SignedExcess {};

inline SignedWeights signed_weights(Bytes64 weights) {
  const __m256i bias = _mm256_set1_epi8(static_cast<char>(0x80));
  return {{_mm256_xor_si256(weights.low, bias), _mm256_xor_si256(weights.high, bias)}};
}
inline SignedExcess add_excess(SignedExcess excess, SignedWeights) { return excess; }
inline I32x16 take_excess(I32x16 total, SignedExcess) { return total; }

inline I32x16 dot4_signed(I32x16 total, SignedWeights weights, Bytes64 activations) {
  return {_mm256_dpbusd_avx_epi32(total.low, weights.v.low, activations.low),
          _mm256_dpbusd_avx_epi32(total.high, weights.v.high, activations.high)};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
