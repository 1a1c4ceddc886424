// What passes cost, as believed from what was measured.
#include "host/speculation/pass_costs.h"

#include <gtest/gtest.h>

namespace bonsai::host {
namespace {

TEST(PassCosts, NothingIsKnownBeforeAPass) {
  PassCosts costs;
  EXPECT_EQ(costs.single(), 0);
  EXPECT_LT(costs.ratio(4), 2);
  costs.add(PassCosts::kMostTokens + 1, 1.0);
  EXPECT_EQ(costs.single(), 0);
}

// Where two texts share every pass, say.
TEST(PassCosts, WithoutASinglePassTheFirstThatWasMadeStandsForIt) {
  PassCosts costs;
  const double hoped_for = costs.ratio(2);
  costs.add(2, 0.012);
  EXPECT_DOUBLE_EQ(costs.ratio(2), hoped_for);
  EXPECT_DOUBLE_EQ(costs.single(), 0.012 / hoped_for);
  costs.add(4, 0.024);
  EXPECT_DOUBLE_EQ(costs.ratio(4), 2 * hoped_for);
  for (int i = 0; i < 100; ++i) costs.add(1, 0.009);
  EXPECT_NEAR(costs.single(), 0.009, 1e-6);
}

TEST(PassCosts, SizesThatWereNotTriedAreTakenToBeCheap) {
  PassCosts costs;
  costs.add(1, 0.010);
  EXPECT_EQ(costs.single(), 0.010);
  EXPECT_EQ(costs.ratio(1), 1);
  EXPECT_GT(costs.ratio(2), 1);
  EXPECT_LT(costs.ratio(2), 1.5);
  EXPECT_LT(costs.ratio(16), 16.0 / 2);
}

TEST(PassCosts, BelievesTheFirstMeasurementAndThenTheAverage) {
  PassCosts costs;
  costs.add(1, 0.010);
  costs.add(4, 0.020);
  EXPECT_DOUBLE_EQ(costs.ratio(4), 2);
  for (int i = 0; i < 40; ++i) costs.add(4, 0.030);
  EXPECT_NEAR(costs.ratio(4), 3, 0.01);
}

TEST(PassCosts, APassThatTheMachineInterruptedCountsForLittle) {
  PassCosts costs;
  costs.add(1, 0.010);
  costs.add(1, 10);
  EXPECT_LE(costs.single(), 0.0126);
  costs.add(2, 10);
  EXPECT_LE(costs.ratio(2), 2);
  PassCosts others;
  others.add(1, 0.010);
  others.add(8, 0.020);
  others.add(8, 10);
  EXPECT_LE(others.ratio(8), 2.26);
}

TEST(PassCosts, ABadMeasurementFades) {
  PassCosts costs;
  costs.add(1, 0.010);
  costs.add(4, 10);
  EXPECT_EQ(costs.ratio(4), 4);
  for (int i = 0; i < 2000; ++i) costs.add(1, 0.010);
  EXPECT_LT(costs.ratio(4), 1.8);
}

TEST(PassCosts, LargerPassesAreNotLearned) {
  PassCosts costs;
  costs.add(1, 0.010);
  costs.add(PassCosts::kMostTokens + 1, 0.5);
  EXPECT_LT(costs.ratio(PassCosts::kMostTokens), 5);
}

}  // namespace
}  // namespace bonsai::host
