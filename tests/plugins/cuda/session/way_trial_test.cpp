// Two ways are tried in turns, and the faster one is taken.
#include "plugins/cuda/way_trial.h"

#include <gtest/gtest.h>

namespace bonsai::cuda {
namespace {

// Tokens that take so long each way, noted `late` tokens behind.
void run(WayTrial &trial, double apart, double at_once, uint32_t tokens, size_t late = 0) {
  std::vector<std::pair<Way, double>> under_way;
  for (uint32_t i = 0; i < tokens; ++i) {
    const Way way = trial.next();
    if (trial.measures()) under_way.emplace_back(way, way == Way::kApart ? apart : at_once);
    while (under_way.size() > late) {
      trial.note(under_way.front().first, under_way.front().second);
      under_way.erase(under_way.begin());
    }
  }
  for (const auto &[way, seconds] : under_way) trial.note(way, seconds);
}

TEST(WayTrial, TakesTheFasterWay) {
  WayTrial first, second;
  run(first, 1.0, 0.9, 32);
  EXPECT_EQ(first.winner(), Way::kAtOnce);
  EXPECT_EQ(first.next(), Way::kAtOnce);
  EXPECT_FALSE(first.measures());
  run(second, 0.9, 1.0, 32);
  EXPECT_EQ(second.winner(), Way::kApart);
  EXPECT_EQ(second.median_seconds(Way::kApart), 0.9);
}

TEST(WayTrial, TakesTurnsUntilBothHaveBeenMeasured) {
  WayTrial trial;
  for (uint32_t i = 0; i < 100; ++i) {
    EXPECT_EQ(trial.next(), i / 8 % 2 == 0 ? Way::kApart : Way::kAtOnce) << i;
    EXPECT_EQ(trial.measures(), i % 8 >= 3) << i;
  }
  EXPECT_FALSE(trial.winner());
}

// Tokens that fail are not noted: others are measured in their place.
TEST(WayTrial, LostMeasurementsAreMadeAgain) {
  WayTrial trial;
  for (uint32_t i = 0; i < 48; ++i) {
    const Way way = trial.next();
    if (trial.measures() && i != 5 && i != 14) trial.note(way, way == Way::kApart ? 1.0 : 2.0);
  }
  EXPECT_EQ(trial.winner(), Way::kApart);
}

TEST(WayTrial, TokensMayBeUnderWay) {
  WayTrial trial;
  run(trial, 1.0, 0.5, 40, 2);
  EXPECT_EQ(trial.winner(), Way::kAtOnce);
}

// Now and then something else holds a device up.
TEST(WayTrial, AFewSlowTokensDoNotCount) {
  WayTrial trial;
  for (uint32_t i = 0; i < 32; ++i) {
    const Way way = trial.next();
    if (trial.measures()) trial.note(way, way == Way::kApart ? 1.0 : i % 8 == 4 ? 50.0 : 0.8);
  }
  EXPECT_EQ(trial.winner(), Way::kAtOnce);
}

}  // namespace
}  // namespace bonsai::cuda
