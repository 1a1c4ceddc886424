// Elementary functions against libm's in long double, which has 11 bits more than a double.
#include "core/base/elementary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace bonsai::elementary {
namespace {

// An error in units of the last place of a double.
double ulps(double value, long double expected) {
  int exponent;
  std::frexp(static_cast<double>(expected), &exponent);
  return static_cast<double>(std::fabs(value - expected) / std::ldexp(1.0L, exponent - 53));
}

double sine_error(double x) { return ulps(sin_cos(x).sine, std::sin(static_cast<long double>(x))); }
double cosine_error(double x) { return ulps(sin_cos(x).cosine, std::cos(static_cast<long double>(x))); }

double uniform(std::mt19937_64 &random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

TEST(Elementary, SineAndCosineAreWithinAUnitOfTheLastPlace) {
  std::mt19937_64 random(1);
  double worst = 0;
  for (int exponent = -60; exponent <= 26; ++exponent) {
    for (int i = 0; i < 4000; ++i) {
      const double x = std::ldexp(uniform(random, i % 2 ? 0.5 : -1, i % 2 ? 1 : -0.5), exponent);
      worst = std::max({worst, sine_error(x), cosine_error(x)});
    }
  }
  EXPECT_LT(worst, 0.8);
}

TEST(Elementary, SineAndCosineOfWholePositionsToo) {
  double worst = 0;
  for (int position = 0; position <= 1 << 24; position += 61) {
    worst = std::max({worst, sine_error(position), cosine_error(position)});
  }
  EXPECT_LT(worst, 0.8);
}

// Next to multiples of a quarter turn one of both is nearly 0: what is left of the angle has to be right.
TEST(Elementary, SineAndCosineKeepTheirBitsWhereTheyVanish) {
  const long double quarter = 2 * std::atan(1.0L);
  double worst = 0;
  for (int k = 1; k < 1 << 25; k += 97) {
    const double near = static_cast<double>(k * quarter);
    for (const double x : {near, std::nextafter(near, 0.0), -near}) {
      worst = std::max({worst, sine_error(x), cosine_error(x)});
    }
  }
  EXPECT_LT(worst, 0.8);
}

TEST(Elementary, TheLowPartOfAnAngleCounts) {
  // cos' = -sin: a part below the last bit of 100,000 moves the value by some hundred units.
  const DoubleDouble angle(100000, 0x1p-39);
  const long double expected = 100000.0L + 0x1p-39L;
  EXPECT_LT(ulps(sin_cos(angle).sine, std::sin(expected)), 0.8);
  EXPECT_LT(ulps(sin_cos(angle).cosine, std::cos(expected)), 0.8);
  EXPECT_NE(sin_cos(angle).cosine, sin_cos(100000).cosine);
}

// Rounded right, but for ties that are nearer than long double can see.
constexpr double kRounded = 0.5 + 1.0 / 1024;

TEST(Elementary, LogarithmsAreRoundedRight) {
  std::mt19937_64 random(2);
  double worst = 0;
  const auto check = [&](double x) {
    worst = std::max(worst, ulps(static_cast<double>(log(x)), std::log(static_cast<long double>(x))));
  };
  for (int i = 0; i < 50000; ++i) {
    check(std::ldexp(uniform(random, 0.5, 1), static_cast<int>(random() % 2000) - 1000));
    check(1 + std::ldexp(uniform(random, -1, 1), -static_cast<int>(random() % 50) - 1));
  }
  for (const double x : {1e4, 1e6, 5e6, 4.0, 2.0, 16384.0, 32.0, 0x1p-1074, 0x1.fffffffffffffp1023}) check(x);
  EXPECT_LT(worst, kRounded);
  EXPECT_EQ(static_cast<double>(log(1)), 0);
}

TEST(Elementary, PowersAreRoundedRight) {
  std::mt19937_64 random(3);
  double worst = 0;
  for (int i = 0; i < 50000; ++i) {
    const double base = std::ldexp(uniform(random, 0.5, 1), static_cast<int>(random() % 400) - 200);
    const double exponent = uniform(random, -4, 4);
    worst = std::max(worst, ulps(static_cast<double>(exp(log(base) * exponent)),
                                 std::pow(static_cast<long double>(base), static_cast<long double>(exponent))));
  }
  EXPECT_LT(worst, kRounded);
  EXPECT_EQ(static_cast<double>(exp(0.0)), 1);
}

// Both parts together have some 100 bits: what one function loses, its inverse would show.
TEST(Elementary, LogarithmUndoesThePower) {
  for (const double x : {2.0, 10.0, 1e6, 0.3}) {
    const DoubleDouble difference = exp(log(x)) - x;
    EXPECT_LT(std::fabs(difference.high), x * 0x1p-94) << x;
  }
}

// Pinned: the same bits on every machine is what these functions are for.
TEST(Elementary, BitsArePinned) {
  EXPECT_EQ(log(1e6).high, 0x1.ba18a998fffap+3);
  EXPECT_EQ(log(1e6).low, 0x1.112fc120a0a21p-51);
  EXPECT_EQ(exp(-1.0).high, 0x1.78b56362cef38p-2);
  EXPECT_EQ(exp(-1.0).low, -0x1.ca8a4270fadf6p-57);
  EXPECT_EQ(sin_cos(131071).sine, -0x1.268613f60babcp-1);
  EXPECT_EQ(sin_cos(131071).cosine, -0x1.a2cebbb513e7cp-1);
}

TEST(DoubleDoubles, FloorAndCeilingLookAtBothParts) {
  EXPECT_EQ(floor(DoubleDouble(3, -0x1p-80)), 2);
  EXPECT_EQ(ceil(DoubleDouble(3, -0x1p-80)), 3);
  EXPECT_EQ(floor(DoubleDouble(3, 0x1p-80)), 3);
  EXPECT_EQ(ceil(DoubleDouble(3, 0x1p-80)), 4);
  EXPECT_EQ(floor(DoubleDouble(-2.5)), -3);
  EXPECT_EQ(ceil(DoubleDouble(-2.5)), -2);
}

TEST(DoubleDoubles, QuotientTimesDivisorIsTheDividend) {
  for (const double divisor : {3.0, 7.0, 80.0, 0.1}) {
    const DoubleDouble rest = DoubleDouble(1) / divisor * divisor - 1;
    EXPECT_LT(std::fabs(rest.high), 0x1p-100) << divisor;
  }
}

}  // namespace
}  // namespace bonsai::elementary
