// The vocabulary in AArch64's Advanced SIMD with dot products (FEAT_DotProd): four 128-bit registers a vector.
// portable/vector.h says what each function does.
#pragma once

#include <arm_neon.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Lanes 0 to 3, 4 to 7, 8 to 11 and 12 to 15.
struct F32x16 {
  float32x4_t q[4];
};
struct I32x16 {
  int32x4_t q[4];
};
struct Bytes64 {
  uint8x16_t q[4];
};
struct Mask16 {
  uint32x4_t q[4];
};
// One 32-bit sum for each lane.
struct DotSum {
  int32x4_t q[4];
};
struct I16x32 {
  int16x8_t q[4];
};

constexpr int kMaxTokens = 4;
constexpr int kSignedDotBias = 0;
constexpr bool kHasWideDotSums = true;

// An operation on each of the four registers.
template <class Result, class Operation, class... Vectors>
[[gnu::always_inline]] inline Result each(Operation operation, Vectors... v) {
  return {operation(v.q[0]...), operation(v.q[1]...), operation(v.q[2]...), operation(v.q[3]...)};
}

// Through bytes: matrices lie at any address.
inline uint8x16_t load_128(const void *from) { return vld1q_u8(static_cast<const uint8_t *>(from)); }
inline uint8x16_t load_128(const void *from, int index) {
  return load_128(static_cast<const uint8_t *>(from) + 16 * index);
}

inline Bytes64 load_bytes(const void *from) {
  return {load_128(from), load_128(from, 1), load_128(from, 2), load_128(from, 3)};
}

inline void store_bytes(void *to, Bytes64 v) {
  for (int i = 0; i < 4; ++i) vst1q_u8(static_cast<uint8_t *>(to) + 16 * i, v.q[i]);
}

inline F32x16 load(const float *from) {
  return each<F32x16>([](auto q) { return vreinterpretq_f32_u8(q); }, load_bytes(from));
}

inline F32x16 load_partial(const float *from, size_t n) {
  float lanes[16] = {};
  memcpy(lanes, from, n * sizeof *from);
  return load(lanes);
}

inline void store(float *to, F32x16 v) {
  store_bytes(to, each<Bytes64>([](auto q) { return vreinterpretq_u8_f32(q); }, v));
}

inline void store_partial(float *to, F32x16 v, size_t n) {
  if (n == 16) return store(to, v);
  float lanes[16];
  store(lanes, v);
  memcpy(to, lanes, n * sizeof *to);
}

inline I32x16 load_i32(const int32_t *from) {
  return each<I32x16>([](auto q) { return vreinterpretq_s32_u8(q); }, load_bytes(from));
}

inline void store_i32(int32_t *to, I32x16 v) {
  store_bytes(to, each<Bytes64>([](auto q) { return vreinterpretq_u8_s32(q); }, v));
}

inline F32x16 splat(float value) {
  const float32x4_t q = vdupq_n_f32(value);
  return {q, q, q, q};
}

inline I32x16 splat_i32(int32_t value) {
  const int32x4_t q = vdupq_n_s32(value);
  return {q, q, q, q};
}

inline Bytes64 splat_byte(uint8_t value) {
  const uint8x16_t q = vdupq_n_u8(value);
  return {q, q, q, q};
}

inline Bytes64 splat_4_bytes(const void *from) {
  uint32_t bytes;
  memcpy(&bytes, from, sizeof bytes);
  const uint8x16_t q = vreinterpretq_u8_u32(vdupq_n_u32(bytes));
  return {q, q, q, q};
}

inline I32x16 bits_of(F32x16 v) {
  return each<I32x16>([](auto q) { return vreinterpretq_s32_f32(q); }, v);
}

inline F32x16 from_bits(I32x16 bits) {
  return each<F32x16>([](auto q) { return vreinterpretq_f32_s32(q); }, bits);
}

inline F32x16 add(F32x16 a, F32x16 b) {
  return each<F32x16>([](auto x, auto y) { return vaddq_f32(x, y); }, a, b);
}

inline F32x16 sub(F32x16 a, F32x16 b) {
  return each<F32x16>([](auto x, auto y) { return vsubq_f32(x, y); }, a, b);
}

inline F32x16 mul(F32x16 a, F32x16 b) {
  return each<F32x16>([](auto x, auto y) { return vmulq_f32(x, y); }, a, b);
}

inline F32x16 div(F32x16 a, F32x16 b) {
  return each<F32x16>([](auto x, auto y) { return vdivq_f32(x, y); }, a, b);
}

inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return each<F32x16>([](auto x, auto y, auto z) { return vfmaq_f32(z, x, y); }, a, b, c);
}

inline F32x16 sqrt(F32x16 v) {
  return each<F32x16>([](auto q) { return vsqrtq_f32(q); }, v);
}

// Not FMIN and FMAX, which give NaN where one side is NaN, and order zeros.
inline float32x4_t min(float32x4_t a, float32x4_t b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline float32x4_t max(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }

inline F32x16 min(F32x16 a, F32x16 b) {
  return each<F32x16>([](auto x, auto y) { return min(x, y); }, a, b);
}

inline F32x16 max(F32x16 a, F32x16 b) {
  return each<F32x16>([](auto x, auto y) { return max(x, y); }, a, b);
}

inline I32x16 add(I32x16 a, I32x16 b) {
  return each<I32x16>([](auto x, auto y) { return vaddq_s32(x, y); }, a, b);
}

inline I32x16 sub(I32x16 a, I32x16 b) {
  return each<I32x16>([](auto x, auto y) { return vsubq_s32(x, y); }, a, b);
}

inline I32x16 mul(I32x16 v, const GroupMultiplier &multiplier) {
  const int32_t m = *multiplier.even();
  return each<I32x16>([=](auto q) { return vmulq_n_s32(q, m); }, v);
}

inline I32x16 max(I32x16 a, I32x16 b) {
  return each<I32x16>([](auto x, auto y) { return vmaxq_s32(x, y); }, a, b);
}

inline I32x16 bit_and(I32x16 a, I32x16 b) {
  return each<I32x16>([](auto x, auto y) { return vandq_s32(x, y); }, a, b);
}

template <int kBits>
I32x16 shift_left(I32x16 v) {
  return each<I32x16>([](auto q) { return vshlq_n_s32(q, kBits); }, v);
}

// The instructions for shifts to the right have no shift by 0.
template <int kBits>
I32x16 shift_right(I32x16 v) {
  if constexpr (kBits == 0) {
    return v;
  } else {
    return each<I32x16>([](auto q) { return vshrq_n_s32(q, kBits); }, v);
  }
}

template <int kBits>
I32x16 shift_right_halves(I32x16 v) {
  return each<I32x16>([](auto q) { return vreinterpretq_s32_s16(vshrq_n_s16(vreinterpretq_s16_s32(q), kBits)); }, v);
}

inline Mask16 less(F32x16 a, F32x16 b) {
  return each<Mask16>([](auto x, auto y) { return vcltq_f32(x, y); }, a, b);
}

inline Mask16 less_equal(F32x16 a, F32x16 b) {
  return each<Mask16>([](auto x, auto y) { return vcleq_f32(x, y); }, a, b);
}

inline Mask16 equal(F32x16 a, F32x16 b) {
  return each<Mask16>([](auto x, auto y) { return vceqq_f32(x, y); }, a, b);
}

inline F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  return each<F32x16>([](auto m, auto y, auto n) { return vbslq_f32(m, y, n); }, mask, yes, no);
}

inline F32x16 to_f32(I32x16 v) {
  return each<F32x16>([](auto q) { return vcvtq_f32_s32(q); }, v);
}

// FCVTNS makes 0 of NaN and 2^31 - 1 of what is too large.
inline I32x16 to_i32(F32x16 v) {
  const float32x4_t too_large = vdupq_n_f32(0x1p31f);
  const int32x4_t smallest = vdupq_n_s32(INT32_MIN);
  return each<I32x16>([=](auto q) { return vbslq_s32(vcltq_f32(q, too_large), vcvtnq_s32_f32(q), smallest); }, v);
}

// 16 values of 16 bits.
struct Halves16 {
  uint16x8_t low, high;
};

inline Halves16 load_halves(const uint16_t *from) {
  return {vreinterpretq_u16_u8(load_128(from)), vreinterpretq_u16_u8(load_128(from, 1))};
}

// Of binary16.
inline F32x16 to_f32(Halves16 halves) {
  const float16x8_t low = vreinterpretq_f16_u16(halves.low), high = vreinterpretq_f16_u16(halves.high);
  return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
          vcvt_high_f32_f16(high)};
}

inline F32x16 load_i8(const int8_t *from) {
  const int8x16_t bytes = vreinterpretq_s8_u8(load_128(from));
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_high_s8(bytes);
  return to_f32(
      I32x16{vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)), vmovl_high_s16(high)});
}

inline F32x16 load_f16(const uint16_t *from) { return to_f32(load_halves(from)); }

inline F32x16 load_f16_partial(const uint16_t *from, size_t n) {
  uint16_t halves[16] = {};
  memcpy(halves, from, n * sizeof *from);
  return load_f16(halves);
}

inline void store_f16(uint16_t *to, F32x16 v) {
  for (int i = 0; i < 4; i += 2) {
    const float16x8_t halves = vcvt_high_f16_f32(vcvt_f16_f32(v.q[i]), v.q[i + 1]);
    vst1q_u8(reinterpret_cast<uint8_t *>(to + 4 * i), vreinterpretq_u8_f16(halves));
  }
}

inline void store_f16_partial(uint16_t *to, F32x16 v, size_t n) {
  uint16_t halves[16];
  store_f16(halves, v);
  memcpy(to, halves, n * sizeof *to);
}

inline F32x16 load_bf16(const uint16_t *from) {
  const Halves16 upper = load_halves(from);
  const uint16x8_t zero = vdupq_n_u16(0);
  return {vreinterpretq_f32_u16(vzip1q_u16(zero, upper.low)), vreinterpretq_f32_u16(vzip2q_u16(zero, upper.low)),
          vreinterpretq_f32_u16(vzip1q_u16(zero, upper.high)), vreinterpretq_f32_u16(vzip2q_u16(zero, upper.high))};
}

inline F32x16 load_bf16_partial(const uint16_t *from, size_t n) {
  uint16_t values[16] = {};
  memcpy(values, from, n * sizeof *from);
  return load_bf16(values);
}

inline F32x16 canonical_nan(F32x16 v) { return select(equal(v, v), v, from_bits(splat_i32(0x7FC00000))); }

inline float reduce_add(F32x16 v) {
  const float32x4_t four = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
  return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}

inline F32x16 reduce_add_each(const float *vectors, size_t stride) {
  float sums[16];
  for (int i = 0; i < 16; ++i) sums[i] = reduce_add(load(vectors + i * stride));
  return load(sums);
}

inline float reduce_max(F32x16 v) {
  const float32x4_t four = max(max(v.q[0], v.q[2]), max(v.q[1], v.q[3]));
  const float32x4_t two = max(four, vextq_f32(four, four, 2));
  return vgetq_lane_f32(max(two, vextq_f32(two, two, 1)), 0);
}

inline int32_t reduce_add(I32x16 v) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(v.q[0], v.q[1]), vaddq_s32(v.q[2], v.q[3])));
}

inline int32_t reduce_max(I32x16 v) {
  return vmaxvq_s32(vmaxq_s32(vmaxq_s32(v.q[0], v.q[1]), vmaxq_s32(v.q[2], v.q[3])));
}

inline int32x4_t max_of_quarters(I32x16 v) { return vmaxq_s32(vmaxq_s32(v.q[0], v.q[1]), vmaxq_s32(v.q[2], v.q[3])); }

inline I32x16 reduce_max_each(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  const int32x4_t ab = vpmaxq_s32(max_of_quarters(a), max_of_quarters(b)), zero = vdupq_n_s32(0);
  return {vpmaxq_s32(ab, vpmaxq_s32(max_of_quarters(c), max_of_quarters(d))), zero, zero, zero};
}

template <int kDistance>
I32x16 swap_lanes(I32x16 v) {
  if constexpr (kDistance == 4) {
    return {v.q[1], v.q[0], v.q[3], v.q[2]};
  } else if constexpr (kDistance == 2) {
    return each<I32x16>([](auto q) { return vextq_s32(q, q, 2); }, v);
  } else {
    return each<I32x16>([](auto q) { return vrev64q_s32(q); }, v);
  }
}

inline Bytes64 bit_and(Bytes64 a, Bytes64 b) {
  return each<Bytes64>([](auto x, auto y) { return vandq_u8(x, y); }, a, b);
}

inline Bytes64 bit_or(Bytes64 a, Bytes64 b) {
  return each<Bytes64>([](auto x, auto y) { return vorrq_u8(x, y); }, a, b);
}

template <int kBits>
Bytes64 shift_right_bytes(Bytes64 v) {
  if constexpr (kBits == 0) {
    return v;
  } else {
    return each<Bytes64>([](auto q) { return vshrq_n_u8(q, kBits); }, v);
  }
}

template <int kBits>
Bytes64 shift_left_bytes(Bytes64 v) {
  return each<Bytes64>([](auto q) { return vshlq_n_u8(q, kBits); }, v);
}

inline Bytes64 repeat_16_bytes(const int8_t *from) {
  const uint8x16_t q = load_128(from);
  return {q, q, q, q};
}
inline Bytes64 look_up_bytes(Bytes64 table, Bytes64 index) {
  return each<Bytes64>([](auto t, auto i) { return vqtbl1q_u8(t, i); }, table, index);
}

inline DotSum zero_dot_sum() {
  const int32x4_t q = vdupq_n_s32(0);
  return {q, q, q, q};
}

inline void hold_sum(DotSum &) {}

// Codes are below 128, or numbers of 8 bits with their sign (kSignedDotBias), so that the signed product will do.
inline DotSum dot4(DotSum sum, Bytes64 codes, Bytes64 activations) {
  return each<DotSum>(
      [](auto s, auto c, auto a) { return vdotq_s32(s, vreinterpretq_s8_u8(c), vreinterpretq_s8_u8(a)); }, sum, codes,
      activations);
}

template <int kShift>
I32x16 add_multiplied(I32x16 total, DotSum sum, const GroupMultiplier &multiplier) {
  const int32_t factor = *multiplier.even() << kShift;
  return each<I32x16>([=](auto t, auto s) { return vmlaq_n_s32(t, s, factor); }, total, sum);
}

inline DotSum begin_dot_sum(I32x16 total) { return {total.q[0], total.q[1], total.q[2], total.q[3]}; }
inline I32x16 end_dot_sum(I32x16, DotSum sum) { return {sum.q[0], sum.q[1], sum.q[2], sum.q[3]}; }

inline I16x32 mul_pairs(I16x32 v, const GroupMultiplier &multiplier) {
  const int16_t m = *multiplier.even();
  return each<I16x32>([=](auto q) { return vmulq_n_s16(q, m); }, v);
}

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale) {
  return each<I32x16>([](auto t, auto s, auto f) { return vmlaq_s32(t, s, vshrq_n_s32(vreinterpretq_s32_s16(f), 16)); },
                      total, sum, scale);
}

inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale, const GroupMultiplier &multiplier) {
  return add_scaled_dot_sum(total, sum, mul_pairs(scale, multiplier));
}

struct SignedWeights {
  Bytes64 v;
};
struct SignedExcess {};

inline SignedWeights signed_weights(Bytes64 weights) { return {weights}; }
inline SignedExcess add_excess(SignedExcess excess, SignedWeights) { return excess; }
inline I32x16 take_excess(I32x16 total, SignedExcess) { return total; }

inline I32x16 dot4_signed(I32x16 total, SignedWeights weights, Bytes64 activations) {
  return each<I32x16>(
      [](auto t, auto w, auto a) { return vdotq_s32(t, vreinterpretq_s8_u8(w), vreinterpretq_s8_u8(a)); }, total,
      weights.v, activations);
}

inline I16x32 load_i8_pairs(const void *from) {
  const int8x16_t low = vreinterpretq_s8_u8(load_128(from)), high = vreinterpretq_s8_u8(load_128(from, 1));
  return {vmovl_s8(vget_low_s8(low)), vmovl_high_s8(low), vmovl_s8(vget_low_s8(high)), vmovl_high_s8(high)};
}

inline I16x32 splat_pair(const int16_t *from) {
  int32_t pair;
  memcpy(&pair, from, sizeof pair);
  const int16x8_t q = vreinterpretq_s16_s32(vdupq_n_s32(pair));
  return {q, q, q, q};
}

template <int kShift>
I16x32 nibbles(I16x32 v) {
  if constexpr (kShift == 0) {
    return each<I16x32>([](auto q) { return vandq_s16(q, vdupq_n_s16(15)); }, v);
  } else {
    return each<I16x32>([](auto q) { return vandq_s16(vshrq_n_s16(q, kShift), vdupq_n_s16(15)); }, v);
  }
}

inline I16x32 repeat_even(I16x32 v) {
  return each<I16x32>([](auto q) { return vtrn1q_s16(q, q); }, v);
}

inline I16x32 repeat_odd(I16x32 v) {
  return each<I16x32>([](auto q) { return vtrn2q_s16(q, q); }, v);
}

inline I32x16 dot2(I32x16 total, I16x32 a, I16x32 b) {
  return each<I32x16>(
      [](auto t, auto x, auto y) {
        return vaddq_s32(t, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
      },
      total, a, b);
}

inline uint8x16_t even_halves(uint8x16_t lower, uint8x16_t upper) {
  return vreinterpretq_u8_u16(vtrn1q_u16(vreinterpretq_u16_u8(lower), vreinterpretq_u16_u8(upper)));
}

inline uint8x16_t odd_halves(uint8x16_t lower, uint8x16_t upper) {
  return vreinterpretq_u8_u16(vtrn2q_u16(vreinterpretq_u16_u8(lower), vreinterpretq_u16_u8(upper)));
}

inline Bytes64 join_even_halves(Bytes64 lower, Bytes64 upper) {
  return each<Bytes64>([](auto x, auto y) { return even_halves(x, y); }, lower, upper);
}

inline Bytes64 join_odd_halves(Bytes64 lower, Bytes64 upper) {
  return each<Bytes64>([](auto x, auto y) { return odd_halves(x, y); }, lower, upper);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER

#include "plugins/cpu/simd/no_abreast_lookup.h"
#include "plugins/cpu/simd/no_sign_lookup.h"
#include "plugins/cpu/simd/no_trit_lookup.h"
#include "plugins/cpu/simd/whole_lanes.h"
