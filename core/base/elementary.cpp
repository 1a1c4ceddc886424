#include "core/base/elementary.h"

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace bonsai::elementary {
namespace {

// The constants were computed with 80 digits (Python, decimal); the polynomials are Taylor's, cut where what follows is
// lost.
constexpr DoubleDouble kLn2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
constexpr double kSquareRootOfHalf = 0.7071067811865476;
constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
// pi/2 is their sum to 2^-139. The first three have 27 bits: a number of quarter turns below 2^26 times one is exact.
constexpr double kQuarterTurn[] = {0x1.921fb54p+0, 0x1.10b461p-30, 0x1.a626330p-58, 0x1.45c06e0e68948p-86};
// Adding it leaves no room for bits behind the point, and so rounds to a whole number.
constexpr double kRoundsToWhole = 0x1.8p52;

// An angle as quarter turns and a rest within an eighth of a turn.
struct Reduced {
  int64_t quarters;
  DoubleDouble rest;
};

Reduced reduce(DoubleDouble angle) {
  const double quarters = (angle.high * kTwoOverPi + kRoundsToWhole) - kRoundsToWhole;
  // Exact: both are near each other, and multiples of what the last bit of the smaller one is worth.
  const double first = angle.high - quarters * kQuarterTurn[0];
  const DoubleDouble second = two_sum(first, -(quarters * kQuarterTurn[1]));
  const DoubleDouble third = two_sum(second.high, -(quarters * kQuarterTurn[2]));
  const double last = (second.low + third.low) + (angle.low - quarters * kQuarterTurn[3]);
  return {static_cast<int64_t>(quarters), two_sum(third.high, last)};
}

// c[0] + c[1] z + c[2] z^2 + ...
template <size_t N>
double polynomial(const double (&c)[N], double z) {
  double sum = c[N - 1];
  for (size_t i = N - 1; i-- > 0;) sum = sum * z + c[i];
  return sum;
}

// x - x^3/3! + x^5/5! - ..., |x| <= pi/4; of x.low the first power is enough.
double sine(DoubleDouble x) {
  constexpr double kC[] = {-1.0 / 6,
                           1.0 / 120,
                           -1.0 / 5040,
                           1.0 / 362880,
                           -1.0 / 39916800.0,
                           1.0 / 6227020800.0,
                           -1.0 / 1307674368000.0,
                           1.0 / 355687428096000.0};
  const double z = x.high * x.high;
  return x.high + (x.high * z * polynomial(kC, z) + x.low * (1 - 0.5 * z));
}

// 1 - x^2/2! + x^4/4! - ..., likewise.
double cosine(DoubleDouble x) {
  constexpr double kC[] = {1.0 / 24,          -1.0 / 720,           1.0 / 40320,           -1.0 / 3628800,
                           1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
  const double z = x.high * x.high;
  const DoubleDouble head = two_sum_ordered(1, -0.5 * z);
  return head.high + (head.low + (z * z * polynomial(kC, z) - x.high * x.low));
}

}  // namespace

// 2 atanh(s) for the mantissa, s = (m - 1) / (m + 1) within 0.1716: s^46 is below 2^-116.
DoubleDouble log(double x) {
  int exponent;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < kSquareRootOfHalf) mantissa *= 2, --exponent;
  const DoubleDouble s = (DoubleDouble(mantissa) - 1) / (DoubleDouble(mantissa) + 1), z = s * s;
  DoubleDouble sum = 0;
  for (int n = 45; n > 0; n -= 2) sum = sum * z + DoubleDouble(1) / n;
  return kLn2 * exponent + s * sum * 2;
}

// 2^k times the series of the rest r, |r| <= 0.347: r^26 / 26! is below 2^-127.
DoubleDouble exp(DoubleDouble x) {
  const double k = (x.high / kLn2.high + kRoundsToWhole) - kRoundsToWhole;
  const DoubleDouble r = x - kLn2 * k;
  DoubleDouble sum = 1;
  for (int n = 25; n > 0; --n) sum = sum * r / n + 1;
  const int exponent = static_cast<int>(k);
  return {std::ldexp(sum.high, exponent), std::ldexp(sum.low, exponent)};
}

SineCosine sin_cos(DoubleDouble angle) {
  const Reduced reduced = reduce(angle);
  const double s = sine(reduced.rest), c = cosine(reduced.rest);
  switch (reduced.quarters & 3) {
    case 0:
      return {s, c};
    case 1:
      return {c, -s};
    case 2:
      return {-s, -c};
    default:
      return {-c, s};
  }
}

}  // namespace bonsai::elementary
