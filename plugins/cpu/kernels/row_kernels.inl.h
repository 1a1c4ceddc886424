// Kernels over one row of floats, on the vocabulary of vector.h. Included by a tier's translation unit.
#pragma once

#include "plugins/cpu/kernels/row_kernels.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// e^x to 1 ulp or so: x = n ln 2 + r, |r| <= ln 2 / 2, and e^r by its Taylor series to r^7, whose remainder is below
// 6e-9. Below -87 the result is 0, above 88 it is e^88; NaN stays NaN.
inline F32x16 exp(F32x16 x) {
  const Mask16 vanishes = less(x, splat(-87.0f));
  x = min(splat(88.0f), max(splat(-87.0f), x));
  const I32x16 n = to_i32(mul(x, splat(0x1.715476p+0f)));  // log2 e
  const F32x16 whole = to_f32(n);
  F32x16 r = fma(whole, splat(-0x1.63p-1f), x);  // the upper bits of ln 2: n times them is exact
  r = fma(whole, splat(0x1.bd0106p-13f), r);     // and what is missing (0x1.63p-1 is the larger)
  constexpr float kCoefficients[] = {1.0f / 720.0f, 1.0f / 120.0f, 1.0f / 24.0f, 1.0f / 6.0f, 0.5f, 1.0f, 1.0f};
  F32x16 series = splat(1.0f / 5040.0f);
  for (const float coefficient : kCoefficients) series = fma(series, r, splat(coefficient));
  const F32x16 power = from_bits(shift_left<23>(add(n, splat_i32(127))));
  return select(vanishes, splat(0.0f), mul(series, power));
}

void rms_norm(const RmsNormArgs &args) {
  const size_t whole = args.n / 16 * 16;
  F32x16 squares = splat(0.0f);
  for (size_t i = 0; i < whole; i += 16) {
    const F32x16 x = load(args.x + i);
    squares = fma(x, x, squares);
  }
  const F32x16 rest = load_partial(args.x + whole, args.n - whole);
  const float sum = reduce_add(fma(rest, rest, squares));

  const F32x16 scale = splat(1.0f / __builtin_sqrtf(sum / static_cast<float>(args.n) + args.eps));
  for (size_t i = 0; i < whole; i += 16) {
    store(args.y + i, canonical_nan(mul(mul(load(args.x + i), scale), load(args.weight + i))));
  }
  const F32x16 weight = load_partial(args.weight + whole, args.n - whole);
  store_partial(args.y + whole, canonical_nan(mul(mul(rest, scale), weight)), args.n - whole);
}

inline F32x16 swiglu(F32x16 gate, F32x16 up) {
  const F32x16 e = exp(sub(splat(0.0f), gate));
  return mul(div(gate, add(splat(1.0f), e)), up);
}

void swiglu(const SwigluArgs &args) {
  const size_t whole = args.n / 16 * 16;
  for (size_t i = 0; i < whole; i += 16) store(args.y + i, swiglu(load(args.gate + i), load(args.up + i)));
  const size_t rest = args.n - whole;
  store_partial(args.y + whole, swiglu(load_partial(args.gate + whole, rest), load_partial(args.up + whole, rest)),
                rest);
}

void rotate(const RotateArgs &args) {
  float *first = args.x, *second = args.x + args.pairs;
  for (size_t i = 0; i < args.pairs; i += 16) {
    const size_t n = args.pairs - i < 16 ? args.pairs - i : 16;
    const F32x16 a = load_partial(first + i, n), b = load_partial(second + i, n);
    const F32x16 cos = load_partial(args.cos + i, n), sin = load_partial(args.sin + i, n);
    store_partial(first + i, sub(mul(a, cos), mul(b, sin)), n);
    store_partial(second + i, add(mul(b, cos), mul(a, sin)), n);
  }
}

void add_rows(const AddArgs &args) {
  const size_t whole = args.n / 16 * 16, rest = args.n - whole;
  for (size_t i = 0; i < whole; i += 16) store(args.y + i, add(load(args.y + i), load(args.x + i)));
  store_partial(args.y + whole, add(load_partial(args.y + whole, rest), load_partial(args.x + whole, rest)), rest);
}

void to_half(const HalfArgs &args) {
  const size_t whole = args.n / 16 * 16;
  for (size_t i = 0; i < whole; i += 16) store_f16(args.y + i, load(args.x + i));
  store_f16_partial(args.y + whole, load_partial(args.x + whole, args.n - whole), args.n - whole);
}

// The largest of n values, NaN left out; -infinity if nothing is left.
float max_value(const float *x, size_t n) {
  const size_t whole = n / 16 * 16;
  const F32x16 lowest = splat(-__builtin_inff());
  F32x16 largest = lowest;
  for (size_t i = 0; i < whole; i += 16) largest = max(load(x + i), largest);  // a NaN on the left gives the right
  float rest[16];
  store(rest, lowest);
  for (size_t i = whole; i < n; ++i) rest[i - whole] = x[i];
  return reduce_max(max(load(rest), largest));
}

// The sum of exp(x[i] - shift): in floats over runs of kSumRun, 16 lanes and the tree of reduce_add, then in doubles
// over the runs, in order.
constexpr size_t kSumRun = 1024;

double sum_exp(const float *x, size_t n, float shift) {
  double total = 0;
  for (size_t begin = 0; begin < n; begin += kSumRun) {
    const size_t end = begin + kSumRun < n ? begin + kSumRun : n;
    const size_t whole = begin + (end - begin) / 16 * 16;
    F32x16 sum = splat(0.0f);
    for (size_t i = begin; i < whole; i += 16) sum = add(sum, exp(sub(load(x + i), splat(shift))));
    float rest[16];
    store(rest, splat(-__builtin_inff()));
    for (size_t i = whole; i < end; ++i) rest[i - whole] = x[i];
    sum = add(sum, exp(sub(load(rest), splat(shift))));
    total += static_cast<double>(reduce_add(sum));
  }
  return total;
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
