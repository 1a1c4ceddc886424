// The vocabulary of 16-lane vectors that every kernel is written in, here in plain C++. This file defines what each
// operation does; the other tiers' do the same, bit for bit, in their instructions.
//
// A tier is one translation unit, compiled with its own flags, that defines BONSAI_TIER, includes one vector.h and then
// the kernels. All of it lies in that tier's unnamed namespace, so that the linker cannot put a function compiled for
// one instruction set in the place of another's.
//
// Only the quiet/signalling state, sign and payload of NaN results may differ between tiers; kernels that write results
// pass them through canonical_nan.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Lanes are in memory order.
struct alignas(64) F32x16 {
  float lane[16];
};
struct alignas(64) I32x16 {
  int32_t lane[16];
};
struct alignas(64) Bytes64 {
  uint8_t byte[64];
};
struct Mask16 {
  bool lane[16];
};
// A running sum of dot4; its form is the tier's own. Here two 16-bit sums for each lane, which the compiler can still
// turn into the machine's vectors.
struct alignas(64) DotSum {
  int16_t pair[32];
};

// 16 pairs of 16-bit integers, one pair for each lane.
struct alignas(64) I16x32 {
  int16_t pair[32];
};

// How many token rows a matrix kernel takes at once: what fits the tier's registers.
constexpr int kMaxTokens = 1;

// dot4_signed adds this times the sum of the activation bytes to what it promises; the caller takes it off again.
constexpr int kSignedDotBias = 0;
// Whether a DotSum is 32 bits of each lane, so that codes may be any numbers of 8 bits with kSignedDotBias added.
constexpr bool kHasWideDotSums = false;

// -------- Memory. No pointer needs any alignment. `partial` touches n <= 16 elements; a load zeroes the other lanes.

inline F32x16 load(const float *from) {
  F32x16 v;
  memcpy(v.lane, from, sizeof v.lane);
  return v;
}

inline F32x16 load_partial(const float *from, size_t n) {
  F32x16 v = {};
  memcpy(v.lane, from, n * sizeof(float));
  return v;
}

inline void store(float *to, F32x16 v) { memcpy(to, v.lane, sizeof v.lane); }
inline void store_partial(float *to, F32x16 v, size_t n) { memcpy(to, v.lane, n * sizeof(float)); }

inline I32x16 load_i32(const int32_t *from) {
  I32x16 v;
  memcpy(v.lane, from, sizeof v.lane);
  return v;
}

inline void store_i32(int32_t *to, I32x16 v) { memcpy(to, v.lane, sizeof v.lane); }

inline Bytes64 load_bytes(const void *from) {
  Bytes64 v;
  memcpy(v.byte, from, sizeof v.byte);
  return v;
}
inline void store_bytes(void *to, Bytes64 v) { memcpy(to, v.byte, sizeof v.byte); }

// -------- Making and reinterpreting

inline F32x16 splat(float value) {
  F32x16 v;
  for (float &lane : v.lane) lane = value;
  return v;
}

inline I32x16 splat_i32(int32_t value) {
  I32x16 v;
  for (int32_t &lane : v.lane) lane = value;
  return v;
}

inline Bytes64 splat_byte(uint8_t value) {
  Bytes64 v;
  memset(v.byte, value, sizeof v.byte);
  return v;
}

// The four bytes at `from` in every group of four.
inline Bytes64 splat_4_bytes(const void *from) {
  Bytes64 v;
  for (int lane = 0; lane < 16; ++lane) memcpy(v.byte + 4 * lane, from, 4);
  return v;
}

inline I32x16 bits_of(F32x16 v) {
  I32x16 bits;
  memcpy(bits.lane, v.lane, sizeof bits.lane);
  return bits;
}

inline F32x16 from_bits(I32x16 bits) {
  F32x16 v;
  memcpy(v.lane, bits.lane, sizeof v.lane);
  return v;
}

// -------- Arithmetic, one IEEE operation rounded to nearest even each; fma rounds once.

inline F32x16 add(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
  return a;
}

inline F32x16 sub(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] -= b.lane[i];
  return a;
}

inline F32x16 mul(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] *= b.lane[i];
  return a;
}

inline F32x16 div(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] /= b.lane[i];
  return a;
}

// a b + c. The builtin, because std::fma is an inline function that tiers would share.
inline F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  for (int i = 0; i < 16; ++i) c.lane[i] = __builtin_fmaf(a.lane[i], b.lane[i], c.lane[i]);
  return c;
}

inline F32x16 sqrt(F32x16 v) {
  for (float &lane : v.lane) lane = __builtin_sqrtf(lane);
  return v;
}

// a < b ? a : b and a > b ? a : b, so b where either is NaN or both are zeros.
inline F32x16 min(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) b.lane[i] = a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i];
  return b;
}

inline F32x16 max(F32x16 a, F32x16 b) {
  for (int i = 0; i < 16; ++i) b.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return b;
}

inline I32x16 add(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] += b.lane[i];
  return a;
}

inline I32x16 sub(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] -= b.lane[i];
  return a;
}

inline I32x16 max(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) b.lane[i] = a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i];
  return b;
}

inline I32x16 bit_and(I32x16 a, I32x16 b) {
  for (int i = 0; i < 16; ++i) a.lane[i] &= b.lane[i];
  return a;
}

// Bits that leave a lane are dropped; the right shift repeats the sign.
template <int kBits>
I32x16 shift_left(I32x16 v) {
  for (int32_t &lane : v.lane) lane = static_cast<int32_t>(static_cast<uint32_t>(lane) << kBits);
  return v;
}

template <int kBits>
I32x16 shift_right(I32x16 v) {
  for (int32_t &lane : v.lane) lane >>= kBits;
  return v;
}

// Of each 16-bit half of a lane by itself; repeats its sign.
template <int kBits>
I32x16 shift_right_halves(I32x16 v) {
  for (int32_t &lane : v.lane) {
    const uint32_t bits = static_cast<uint32_t>(lane);
    const int32_t upper = (lane >> 16) >> kBits, lower = static_cast<int16_t>(bits & 0xFFFFu) >> kBits;
    lane = static_cast<int32_t>(static_cast<uint32_t>(upper) << 16 | (static_cast<uint32_t>(lower) & 0xFFFFu));
  }
  return v;
}

// -------- Comparison. False where either is NaN.

inline Mask16 less(F32x16 a, F32x16 b) {
  Mask16 mask;
  for (int i = 0; i < 16; ++i) mask.lane[i] = a.lane[i] < b.lane[i];
  return mask;
}

inline Mask16 less_equal(F32x16 a, F32x16 b) {
  Mask16 mask;
  for (int i = 0; i < 16; ++i) mask.lane[i] = a.lane[i] <= b.lane[i];
  return mask;
}

inline Mask16 equal(F32x16 a, F32x16 b) {
  Mask16 mask;
  for (int i = 0; i < 16; ++i) mask.lane[i] = a.lane[i] == b.lane[i];
  return mask;
}

// `yes` where the mask is set, `no` elsewhere.
inline F32x16 select(Mask16 mask, F32x16 yes, F32x16 no) {
  for (int i = 0; i < 16; ++i) no.lane[i] = mask.lane[i] ? yes.lane[i] : no.lane[i];
  return no;
}

// -------- Conversion

inline F32x16 to_f32(I32x16 v) {
  F32x16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = static_cast<float>(v.lane[i]);
  return result;
}

// To nearest even. NaN and what int32 cannot hold become -2^31.
inline I32x16 to_i32(F32x16 v) {
  I32x16 result;
  for (int i = 0; i < 16; ++i) {
    const bool fits = v.lane[i] >= -0x1p31f && v.lane[i] < 0x1p31f;
    result.lane[i] = fits ? static_cast<int32_t>(__builtin_lrintf(v.lane[i])) : INT32_MIN;
  }
  return result;
}

inline F32x16 load_i8(const int8_t *from) {
  F32x16 result;
  for (int i = 0; i < 16; ++i) result.lane[i] = from[i];
  return result;
}

// IEEE binary16, exactly.
inline F32x16 load_f16_partial(const uint16_t *from, size_t n) {
  F32x16 result = {};
  for (size_t i = 0; i < n; ++i) {
    uint16_t half;
    memcpy(&half, from + i, sizeof half);
    const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
    const uint32_t magnitude = half & 0x7FFFu;
    uint32_t bits = 0;
    if (magnitude >= 0x7C00u) {  // infinity and NaN, which turns quiet
      bits = 0x7F800000u | (magnitude & 0x3FFu) << 13 | (magnitude > 0x7C00u ? 0x400000u : 0u);
    } else if (magnitude >= 0x400u) {
      bits = (magnitude << 13) + (112u << 23);
    } else {  // a multiple of 2^-24, which a float holds exactly
      const float value = static_cast<float>(magnitude) * 0x1p-24f;
      memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    memcpy(&result.lane[i], &bits, sizeof bits);
  }
  return result;
}

inline F32x16 load_f16(const uint16_t *from) { return load_f16_partial(from, 16); }

// Rounded to nearest even; what is too large becomes infinite, NaN stays a quiet NaN.
inline void store_f16_partial(uint16_t *to, F32x16 v, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    uint32_t bits;
    memcpy(&bits, &v.lane[i], sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000u;
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    uint32_t half = 0;
    if (magnitude > 0x7F800000u) {
      half = 0x7E00u | (magnitude >> 13 & 0x3FFu);
    } else if (magnitude >= 0x47800000u) {  // 2^16 and above
      half = 0x7C00u;
    } else if (magnitude >= 0x38800000u) {  // normal: the carry of rounding runs into the exponent, up to infinity
      half = (magnitude - (112u << 23) + 0xFFFu + (magnitude >> 13 & 1u)) >> 13;
    } else {  // adding 1/2 makes the hardware round at 2^-24
      float value;
      memcpy(&value, &magnitude, sizeof value);
      value += 0.5f;
      memcpy(&half, &value, sizeof half);
      half -= 0x3F000000u;
    }
    const uint16_t result = static_cast<uint16_t>(sign | half);
    memcpy(to + i, &result, sizeof result);
  }
}

inline void store_f16(uint16_t *to, F32x16 v) { store_f16_partial(to, v, 16); }

// bfloat16 is the upper half of a float.
inline F32x16 load_bf16_partial(const uint16_t *from, size_t n) {
  F32x16 result = {};
  for (size_t i = 0; i < n; ++i) {
    uint16_t upper;
    memcpy(&upper, from + i, sizeof upper);
    const uint32_t bits = static_cast<uint32_t>(upper) << 16;
    memcpy(&result.lane[i], &bits, sizeof bits);
  }
  return result;
}

inline F32x16 load_bf16(const uint16_t *from) { return load_bf16_partial(from, 16); }

// Every NaN becomes the one with bits 0x7FC00000; the rest is unchanged.
inline F32x16 canonical_nan(F32x16 v) {
  const int32_t bits = 0x7FC00000;
  float nan;
  memcpy(&nan, &bits, sizeof nan);
  return select(equal(v, v), v, splat(nan));
}

// -------- Lanes: float products, of prompts and of FP8, take the 16 lanes in kLaneParts passes, with as many in each,
// in order; in more than one where a vector takes several of few registers.
//   Lanes part<kPart>(F32x16)
//   Lanes load_lanes(const float *), void store_lanes(float *, Lanes)   as many as a part has
//   Lanes load_lanes_f16(const uint16_t *), Lanes splat_lanes(float)
//   Lanes fma(a, b, c)
//   void load_f8<kMantissaBits>(const uint8_t *words, Lanes (&to)[4])   of each lane's four bytes, codes in FP8, the
//               floats whose bits these are, sign and all: too small by 2^120 (E4M3) and 2^112 (E5M2)
//   void hold_lanes(Lanes &)    where GCC 12 would load it again for each use and a tier is slower with that

// -------- Across lanes, by one tree: lanes i and i + 8, then i + 4, i + 2, i + 1.

inline float reduce_add(F32x16 v) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v.lane[i] += v.lane[i + half];
  }
  return v.lane[0];
}

// The same of 16 vectors that lie `stride` floats apart.
inline F32x16 reduce_add_each(const float *vectors, size_t stride) {
  F32x16 sums;
  for (int i = 0; i < 16; ++i) sums.lane[i] = reduce_add(load(vectors + i * stride));
  return sums;
}

// By the same tree with max(a, b) above; no lane may be NaN.
inline float reduce_max(F32x16 v) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) v.lane[i] = v.lane[i] > v.lane[i + half] ? v.lane[i] : v.lane[i + half];
  }
  return v.lane[0];
}

inline int32_t reduce_add(I32x16 v) {
  int32_t sum = 0;
  for (const int32_t lane : v.lane) sum += lane;
  return sum;
}

inline int32_t reduce_max(I32x16 v) {
  int32_t largest = v.lane[0];
  for (const int32_t lane : v.lane) largest = lane > largest ? lane : largest;
  return largest;
}

// The same of four vectors: in lanes 0 to 3, with 0 in the others.
inline I32x16 reduce_max_each(I32x16 a, I32x16 b, I32x16 c, I32x16 d) {
  return {{reduce_max(a), reduce_max(b), reduce_max(c), reduce_max(d)}};
}

// To every lane i what lane i ^ kDistance has: 1, 2 or 4.
template <int kDistance>
I32x16 swap_lanes(I32x16 v) {
  I32x16 swapped;
  for (int i = 0; i < 16; ++i) swapped.lane[i] = v.lane[i ^ kDistance];
  return swapped;
}

// -------- Bytes

inline Bytes64 bit_and(Bytes64 a, Bytes64 b) {
  for (int i = 0; i < 64; ++i) a.byte[i] &= b.byte[i];
  return a;
}

inline Bytes64 bit_or(Bytes64 a, Bytes64 b) {
  for (int i = 0; i < 64; ++i) a.byte[i] |= b.byte[i];
  return a;
}

// Shifts right by kBits; the upper kBits bits of each byte are then unspecified.
template <int kBits>
Bytes64 shift_right_bytes(Bytes64 v) {
  for (uint8_t &byte : v.byte) byte = static_cast<uint8_t>(byte >> kBits);
  return v;
}

// Shifts left by kBits; the lower kBits bits of each byte are then unspecified.
template <int kBits>
Bytes64 shift_left_bytes(Bytes64 v) {
  for (uint8_t &byte : v.byte) byte = static_cast<uint8_t>(byte << kBits);
  return v;
}

// A table of 16 bytes, once for each 16 of 64; and, of such a table, what it has for each byte of an index, which are 0
// to 15.
inline Bytes64 repeat_16_bytes(const int8_t *from) {
  Bytes64 v;
  for (int i = 0; i < 64; i += 16) memcpy(v.byte + i, from, 16);
  return v;
}
inline Bytes64 look_up_bytes(const Bytes64 &table, Bytes64 index) {
  for (uint8_t &byte : index.byte) byte = table.byte[byte];
  return index;
}

inline DotSum zero_dot_sum() { return DotSum{}; }

// Where a tier is faster with each addition done before what follows, which GCC 12 would rather begin with.
inline void hold_sum(DotSum &) {}

// Adds to each lane the dot product of its four codes (unsigned) and activations (-127..127). Exact as long as the
// largest code times 254 times the number of calls into one sum is below 2^15.
inline DotSum dot4(DotSum sum, Bytes64 codes, Bytes64 activations) {
  uint16_t code_pairs[32];
  uint16_t activation_pairs[32];
  memcpy(code_pairs, codes.byte, sizeof code_pairs);
  memcpy(activation_pairs, activations.byte, sizeof activation_pairs);
  for (int i = 0; i < 32; ++i) {
    const int first = (code_pairs[i] & 0xFF) * static_cast<int8_t>(activation_pairs[i] & 0xFF);
    const int second = (code_pairs[i] >> 8) * (static_cast<int16_t>(activation_pairs[i]) >> 8);
    sum.pair[i] = static_cast<int16_t>(sum.pair[i] + first + second);
  }
  return sum;
}

// total + 2^kShift * multiplier * sum. 2^kShift times the multiplier fits 16 bits, and so does each lane's sum.
template <int kShift>
I32x16 add_multiplied(I32x16 total, DotSum sum, const GroupMultiplier &multiplier) {
  const int32_t factor = *multiplier.even() * (1 << kShift);
  for (int i = 0; i < 16; ++i) total.lane[i] += (sum.pair[2 * i] + sum.pair[2 * i + 1]) * factor;
  return total;
}

// A sum that goes on from a total, where a tier's sums hold one (elsewhere from 0), and the total that results.
inline DotSum begin_dot_sum(I32x16) { return zero_dot_sum(); }
inline I32x16 end_dot_sum(I32x16 total, DotSum sum) {
  for (int i = 0; i < 16; ++i) total.lane[i] += sum.pair[2 * i] + sum.pair[2 * i + 1];
  return total;
}

// Weights of -128..127 as dot4_signed takes them, made once for all activations.
struct SignedWeights {
  Bytes64 v;
};

// What dot4_signed adds too much, whatever the activations: the sum over 64 vectors of weights or fewer. The caller
// takes it off at the end.
struct SignedExcess {};

inline SignedWeights signed_weights(Bytes64 weights) { return {weights}; }
inline SignedExcess add_excess(SignedExcess excess, SignedWeights) { return excess; }
inline I32x16 take_excess(I32x16 total, SignedExcess) { return total; }

// As dot4, straight into 32 bits; adds the excess and kSignedDotBias times the sum of the activations as well.
inline I32x16 dot4_signed(I32x16 total, SignedWeights weights, Bytes64 activations) {
  uint16_t weight_pairs[32];
  uint16_t activation_pairs[32];
  memcpy(weight_pairs, weights.v.byte, sizeof weight_pairs);
  memcpy(activation_pairs, activations.byte, sizeof activation_pairs);
  int16_t sums[32];  // at most 2 * 128 * 127
  for (int i = 0; i < 32; ++i) {
    const int first = static_cast<int8_t>(weight_pairs[i] & 0xFF) * static_cast<int8_t>(activation_pairs[i] & 0xFF);
    const int second = (static_cast<int16_t>(weight_pairs[i]) >> 8) * (static_cast<int16_t>(activation_pairs[i]) >> 8);
    sums[i] = static_cast<int16_t>(first + second);
  }
  for (int i = 0; i < 16; ++i) total.lane[i] += sums[2 * i] + sums[2 * i + 1];
  return total;
}

// -------- Pairs of small integers

// 32 signed bytes.
inline I16x32 load_i8_pairs(const void *from) {
  int8_t bytes[32];
  memcpy(bytes, from, sizeof bytes);
  I16x32 v;
  for (int i = 0; i < 32; ++i) v.pair[i] = bytes[i];
  return v;
}

// The pair at `from` in every lane.
inline I16x32 splat_pair(const int16_t *from) {
  I16x32 v;
  for (int lane = 0; lane < 16; ++lane) memcpy(v.pair + 2 * lane, from, 2 * sizeof(int16_t));
  return v;
}

// The four bits of each integer from bit kShift on, as an integer from 0 to 15.
template <int kShift>
I16x32 nibbles(I16x32 v) {
  for (int16_t &integer : v.pair) integer = static_cast<int16_t>(integer >> kShift & 15);
  return v;
}

// The first integer of each pair in both places; the second one.
inline I16x32 repeat_even(I16x32 v) {
  for (int i = 0; i < 32; i += 2) v.pair[i + 1] = v.pair[i];
  return v;
}

inline I16x32 repeat_odd(I16x32 v) {
  for (int i = 0; i < 32; i += 2) v.pair[i] = v.pair[i + 1];
  return v;
}

// Adds to each lane the dot product of its two pairs.
inline I32x16 dot2(I32x16 total, I16x32 a, I16x32 b) {
  for (int i = 0; i < 16; ++i) {
    total.lane[i] += a.pair[2 * i] * b.pair[2 * i] + a.pair[2 * i + 1] * b.pair[2 * i + 1];
  }
  return total;
}

// Times the multiplier, in 32 bits and in 16.
inline I32x16 mul(I32x16 v, const GroupMultiplier &multiplier) {
  for (int32_t &lane : v.lane) lane *= *multiplier.even();
  return v;
}

inline I16x32 mul_pairs(I16x32 v, const GroupMultiplier &multiplier) {
  for (int16_t &integer : v.pair) integer = static_cast<int16_t>(integer * *multiplier.even());
  return v;
}

// total + scale * sum; both integers of a pair of `scale` are the lane's scale.
inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale) {
  I32x16 scaled;
  for (int i = 0; i < 16; ++i) scaled.lane[i] = (sum.pair[2 * i] + sum.pair[2 * i + 1]) * scale.pair[2 * i];
  return add(total, scaled);
}

// The same with the scale times the multiplier, which fits 16 bits.
inline I32x16 add_scaled_dot_sum(I32x16 total, DotSum sum, I16x32 scale, const GroupMultiplier &multiplier) {
  return add_scaled_dot_sum(total, sum, mul_pairs(scale, multiplier));
}

// -------- One-bit weights (packed_matrix.h): 16-bit halves of words, those of two tiles alternating

// The words of the first tile, and of the second.
inline Bytes64 join_even_halves(Bytes64 lower, Bytes64 upper) {
  Bytes64 v;
  for (int i = 0; i < 64; i += 4) {
    memcpy(v.byte + i, lower.byte + i, 2);
    memcpy(v.byte + i + 2, upper.byte + i, 2);
  }
  return v;
}

inline Bytes64 join_odd_halves(Bytes64 lower, Bytes64 upper) {
  Bytes64 v;
  for (int i = 0; i < 64; i += 4) {
    memcpy(v.byte + i, lower.byte + i + 2, 2);
    memcpy(v.byte + i + 2, upper.byte + i + 2, 2);
  }
  return v;
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER

#include "plugins/cpu/simd/no_abreast_lookup.h"
#include "plugins/cpu/simd/no_sign_lookup.h"
#include "plugins/cpu/simd/no_trit_lookup.h"
#include "plugins/cpu/simd/whole_lanes.h"
