// The length of proposals follows from what is accepted and what passes cost.
#include "host/speculation/draft_length.h"

#include <gtest/gtest.h>

namespace bonsai::host {
namespace {

constexpr auto kEvidence = Drafter::kFourTokens;

// Passes of n tokens cost 1 + slope * (n - 1) single ones.
struct Machine {
  explicit Machine(double slope) {
    costs.add(1, 1);
    for (const uint32_t n : {2u, 4u, 8u, 16u}) costs.add(n, 1 + slope * (n - 1));
  }
  PassCosts costs;
};

DraftLength after(int n_accepted, int n_refused) {
  DraftLength length;
  for (int i = 0; i < n_accepted; ++i) length.saw(kEvidence, true);
  for (int i = 0; i < n_refused; ++i) length.saw(kEvidence, false);
  return length;
}

TEST(DraftLength, ProposesNothingBeforeASinglePassWasMeasured) {
  EXPECT_EQ(after(100, 0).choose(kEvidence, 15, PassCosts(), 0), 0u);
}

TEST(DraftLength, GrowsWithAcceptanceAndEndsWithoutIt) {
  const Machine machine(0.1);
  EXPECT_EQ(after(100, 0).choose(kEvidence, 15, machine.costs, 0), 15u);
  EXPECT_EQ(after(0, 100).choose(kEvidence, 15, machine.costs, 0), 0u);
  uint32_t last = 15;
  for (int n_refused = 0; n_refused < 60; ++n_refused) {
    const uint32_t length = after(60, n_refused).choose(kEvidence, 15, machine.costs, 0);
    EXPECT_LE(length, last) << n_refused;
    last = length;
  }
  EXPECT_EQ(last, 0u);
}

TEST(DraftLength, WhereALargerPassTakesAsLongAsItsTokensNothingPays) {
  EXPECT_EQ(after(100, 0).choose(kEvidence, 15, Machine(1).costs, 0), 0u);
}

TEST(DraftLength, FindsTheSizeThatTheMachineIsGoodAt) {
  PassCosts costs;
  costs.add(1, 10.2);
  costs.add(2, 15.6);
  costs.add(4, 21.7);
  costs.add(8, 58);
  costs.add(16, 110);
  EXPECT_EQ(after(100, 0).choose(kEvidence, 15, costs, 0), 3u);
}

TEST(DraftLength, KeepsToTheMostAllowed) {
  const Machine machine(0.05);
  for (uint32_t most = 0; most <= 15; ++most) EXPECT_LE(after(100, 0).choose(kEvidence, most, machine.costs, 0), most);
  EXPECT_EQ(after(100, 0).choose(kEvidence, 14, machine.costs, 0), 7u);
  EXPECT_EQ(after(100, 0).choose(kEvidence, 2, machine.costs, 0), 1u);
  EXPECT_EQ(after(100, 0).choose(kEvidence, 0, machine.costs, 0), 0u);
}

TEST(DraftLength, CountsWhatTheDraftItselfTakes) {
  const Machine machine(0.1);
  EXPECT_LT(after(100, 0).choose(kEvidence, 15, machine.costs, 0.4), 15u);
  EXPECT_EQ(after(100, 0).choose(kEvidence, 15, machine.costs, 1), 0u);
}

TEST(DraftLength, EvidenceIsJudgedByItself) {
  DraftLength length = after(0, 100);
  EXPECT_EQ(length.choose(kEvidence, 15, Machine(0.1).costs, 0), 0u);
  for (int i = 0; i < 100; ++i) length.saw(Drafter::kTenTokens, true);
  EXPECT_EQ(length.choose(Drafter::kTenTokens, 15, Machine(0.1).costs, 0), 15u);
  EXPECT_EQ(length.choose(kEvidence, 15, Machine(0.1).costs, 0), 0u);
}

TEST(DraftLength, RecoversWithinAFewTokens) {
  DraftLength length = after(0, 1000);
  int n = 0;
  while (length.choose(kEvidence, 15, Machine(0.1).costs, 0) == 0) {
    length.saw(kEvidence, true);
    ASSERT_LT(++n, 10);
  }
}

}  // namespace
}  // namespace bonsai::host
