// Whatever a host has set, what is computed under the guard has the same bytes, and the host finds its own again.
#include "core/base/floating_point_environment.h"

#include <gtest/gtest.h>

#include <cfenv>

namespace bonsai {
namespace {

// The compiler must divide when it is told to, not when it pleases.
double third() {
  volatile double one = 1, three = 3;
  return one / three;
}

TEST(DefaultFloatingPoint, RoundsToNearestAndGivesTheCallersRoundingBack) {
  const double expected = third();
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    ASSERT_EQ(std::fesetround(rounding), 0);
    double inside;
    {
      const DefaultFloatingPoint environment;
      inside = third();
    }
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(inside, expected);
    EXPECT_EQ(after, rounding);
  }
}

}  // namespace
}  // namespace bonsai
