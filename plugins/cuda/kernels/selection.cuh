// What the kernels of selection.cu share: the order of logits, and reductions whose order of additions is pinned.
#pragma once

#include "selection_arguments.h"
#include "simt.cuh"

namespace bonsai::cuda {

// A number that orders logits as the ABI does: larger value, then lower id; +0 and -0 are equal, NaN is lowest. Never
// 0, which stands for ids past the vocabulary.
inline uint64_t rank_of(float value, uint32_t id) {
  uint32_t order = 0;
  if (value == value) {
    const uint32_t bits = float_to_bits(value + 0.0f);  // -0 becomes +0
    order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
  return uint64_t{order} << 32 | static_cast<uint32_t>(~id);
}

inline uint32_t id_of(uint64_t rank) { return ~static_cast<uint32_t>(rank); }

inline float negative_infinity() { return bits_to_float(0xFF800000u); }

// The logit of a rank; -infinity for NaN and for no logit.
inline float logit_of(uint64_t rank) {
  const auto order = static_cast<uint32_t>(rank >> 32);
  if (order == 0) return negative_infinity();
  return bits_to_float(order & 0x80000000u ? order ^ 0x80000000u : ~order);
}

inline bool is_infinite(float value) { return (float_to_bits(value) & 0x7FFFFFFFu) == 0x7F800000u; }

inline uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

// The highest rank of a warp's lanes, for all of them.
inline uint64_t warp_largest(uint64_t rank) {
  for (unsigned mask = kWarp / 2; mask > 0; mask /= 2) {
    const uint32_t high = shuffle_xor(static_cast<uint32_t>(rank >> 32), mask);
    const uint32_t low = shuffle_xor(static_cast<uint32_t>(rank), mask);
    rank = larger(rank, uint64_t{high} << 32 | low);
  }
  return rank;
}

// The sum of a warp's lanes, for all of them: neighbours first, in one fixed tree.
inline float warp_sum(float value) {
  for (unsigned mask = 1; mask < kWarp; mask *= 2) value += shuffle_xor(value, mask);
  return value;
}

// The same of a block, by way of one place per warp in shared memory. Other uses of `places` need a barrier between.
inline uint64_t block_largest(uint64_t rank, uint64_t *places) {
  rank = warp_largest(rank);
  if (lane() == 0) places[warp()] = rank;
  sync_block();
  for (unsigned i = 0; i < block_threads() / kWarp; ++i) rank = larger(rank, places[i]);
  return rank;
}
// Warps are added in order.
inline float block_sum(float value, float *places) {
  value = warp_sum(value);
  if (lane() == 0) places[warp()] = value;
  sync_block();
  float sum = places[0];
  for (unsigned i = 1; i < block_threads() / kWarp; ++i) sum += places[i];
  return sum;
}

// e^x for x <= 0, to about 1 unit in the last place, 0 below -87; the same bytes on every device: x = n ln 2 + r,
// |r| <= ln 2 / 2, and e^r by its Taylor series to r^7, whose remainder is below 6e-9.
inline float exp_negative(float x) {
  if (x < -87.0f) return 0.0f;
  const int n = float_to_int(x * 0x1.715476p+0f);  // log2 e
  const auto whole = static_cast<float>(n);
  float r = fmaf(whole, -0x1.63p-1f, x);  // the upper bits of ln 2: n times them is exact
  r = fmaf(whole, 0x1.bd0106p-13f, r);    // and what is missing (0x1.63p-1 is the larger)
  float series = 1.0f / 5040.0f;
  series = fmaf(series, r, 1.0f / 720.0f);
  series = fmaf(series, r, 1.0f / 120.0f);
  series = fmaf(series, r, 1.0f / 24.0f);
  series = fmaf(series, r, 1.0f / 6.0f);
  series = fmaf(series, r, 0.5f);
  series = fmaf(series, r, 1.0f);
  series = fmaf(series, r, 1.0f);
  return series * bits_to_float(static_cast<uint32_t>(n + 127) << 23);
}

// exp(logit - largest), where no logit of the set is above `largest`. NaN stays NaN; where the largest is infinite, so
// is the result of the whole, and what is added does not matter.
inline float exp_difference(float logit, float largest) {
  if (logit != logit) return logit;
  return is_infinite(largest) ? 0.0f : exp_negative(logit - largest);
}

// largest + ln(sum) for a normal sum, in doubles: sum = m 2^e with m around 1, and the series of 2 atanh(s),
// s = (m - 1) / (m + 1), |s| < 0.172, whose remainder after s^13 is below 1e-12.
inline float add_log(float largest, float sum) {
  const uint32_t bits = float_to_bits(sum);
  int exponent = static_cast<int>(bits >> 23) - 127;
  double mantissa = bits_to_float((bits & 0x007FFFFFu) | 0x3F800000u);
  if (mantissa > 1.4142135623730951) {
    mantissa /= 2;
    ++exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1), square = s * s;
  double series = 1.0 / 13;
  series = series * square + 1.0 / 11;
  series = series * square + 1.0 / 9;
  series = series * square + 1.0 / 7;
  series = series * square + 1.0 / 5;
  series = series * square + 1.0 / 3;
  series = series * square + 1.0;
  return static_cast<float>(largest + exponent * 0.6931471805599453 + 2 * s * series);
}

// The log-sum-exp that the largest logit and the sum of exp(logit - largest) make; the largest where that is infinite,
// else NaN if one was among the logits.
inline float log_sum_exp(float largest, float sum) {
  if (is_infinite(largest)) return largest;
  if (sum != sum) return bits_to_float(0x7FC00000u);
  return add_log(largest, sum);
}

}  // namespace bonsai::cuda
