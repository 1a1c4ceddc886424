// A number as the sum of two doubles, with some 106 bits: what float64 must be computed from to come out right. The
// error-free sums and products are Dekker's and Knuth's (T. J. Dekker, Numer. Math. 18, 1971; TAOCP 4.2.2). The thread
// must round to nearest (DefaultFloatingPoint), and the compiler must not contract.
#pragma once

#include <cmath>

namespace bonsai {

struct DoubleDouble {
  constexpr DoubleDouble(double value) : high(value) {}
  constexpr DoubleDouble(double high, double low) : high(high), low(low) {}
  // The nearest double.
  constexpr explicit operator double() const { return high; }

  double high, low = 0;  // high is their sum, rounded
};

// a + b, exactly.
inline DoubleDouble two_sum(double a, double b) {
  const double sum = a + b, of_b = sum - a;
  return {sum, (a - (sum - of_b)) + (b - of_b)};
}

// The same in half the time, for |a| >= |b|.
inline DoubleDouble two_sum_ordered(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// a * b, exactly unless it leaves the range. fma rounds once by definition, whoever computes it.
inline DoubleDouble two_product(double a, double b) {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

inline DoubleDouble operator-(DoubleDouble a) { return {-a.high, -a.low}; }

inline DoubleDouble operator+(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = two_sum(a.high, b.high), low = two_sum(a.low, b.low);
  const DoubleDouble sum = two_sum_ordered(high.high, high.low + low.high);
  return two_sum_ordered(sum.high, sum.low + low.low);
}

inline DoubleDouble operator-(DoubleDouble a, DoubleDouble b) { return a + -b; }

inline DoubleDouble operator*(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble product = two_product(a.high, b.high);
  return two_sum_ordered(product.high, product.low + (a.high * b.low + a.low * b.high));
}

// Long division: a digit of 53 bits, twice more from what remains.
inline DoubleDouble operator/(DoubleDouble a, DoubleDouble b) {
  const double first = a.high / b.high;
  const DoubleDouble rest = a - b * first;
  const double second = rest.high / b.high;
  const double third = (rest - b * second).high / b.high;
  return two_sum_ordered(first, second) + third;
}

// The largest whole number that is not above x.
inline double floor(DoubleDouble x) {
  const double whole = std::floor(x.high);
  return whole == x.high && x.low < 0 ? whole - 1 : whole;
}

inline double ceil(DoubleDouble x) { return -floor(-x); }

}  // namespace bonsai
