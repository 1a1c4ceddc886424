#include "core/reference/agreement.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace bonsai::reference {
namespace {

Agreement agreement_of(const std::vector<double> &judge, const std::vector<float> &other) {
  AgreementMeter meter;
  meter.add(judge, other);
  return meter.result();
}

TEST(AgreementMeter, EqualLogitsAgreeWholly) {
  const Agreement agreement = agreement_of({1, 4, -2}, {1, 4, -2});
  EXPECT_EQ(agreement.predictions, 1u);
  EXPECT_EQ(agreement.same_choice, 1u);
  EXPECT_NEAR(agreement.mean_divergence, 0, 1e-15);
  EXPECT_EQ(agreement.largest_lead_lost, 0);
  EXPECT_EQ(agreement.logit_error, 0);
}

TEST(AgreementMeter, TheDivergenceIsTheJudgesFromTheOthers) {
  const Agreement agreement = agreement_of({std::log(3.0), 0}, {0, 0});
  EXPECT_NEAR(agreement.mean_divergence, 0.75 * std::log(0.75 / 0.5) + 0.25 * std::log(0.25 / 0.5), 1e-15);
}

TEST(AgreementMeter, LogitsMayAllBeLarger) {
  const Agreement agreement = agreement_of({1000, 1001, 999}, {2000, 2001, 1999});
  EXPECT_EQ(agreement.same_choice, 1u);
  EXPECT_NEAR(agreement.mean_divergence, 0, 1e-9);
  EXPECT_NEAR(agreement.logit_error, 1, 1e-6);
}

TEST(AgreementMeter, WhatTheOtherRulesOutDivergesWithoutEnd) {
  EXPECT_EQ(agreement_of({0, 1}, {-INFINITY, 1}).mean_divergence, INFINITY);
}

TEST(AgreementMeter, WhatBothRuleOutIsNoError) {
  const Agreement same = agreement_of({0, -INFINITY, 1}, {0, -INFINITY, 1});
  EXPECT_EQ(same.logit_error, 0);
  EXPECT_EQ(same.mean_divergence, 0);
  EXPECT_EQ(agreement_of({0, 1, -INFINITY}, {0, 1, 5}).logit_error, INFINITY);
}

TEST(AgreementMeter, OfAllPredictionsTheLargestLeadLostAndTheMeanDivergence) {
  AgreementMeter meter;
  meter.add(std::vector<double>{3, 1, 2.5}, std::vector<float>{0, 0, 1});
  const double of_first = meter.result().mean_divergence;
  EXPECT_DOUBLE_EQ(meter.result().largest_lead_lost, 0.5);
  meter.add(std::vector<double>{0, 2, 1}, std::vector<float>{1, 0, 0});
  meter.add(std::vector<double>{9, 0, 0}, std::vector<float>{9, 0, 0});  // a large lead, which is kept
  const Agreement agreement = meter.result();
  EXPECT_EQ(agreement.predictions, 3u);
  EXPECT_EQ(agreement.same_choice, 1u);
  EXPECT_DOUBLE_EQ(agreement.largest_lead_lost, 1);
  EXPECT_GT(agreement.mean_divergence, of_first / 3);
}

TEST(AgreementMeter, OfEqualLogitsTheFirstIsTheChoice) {
  EXPECT_EQ(agreement_of({2, 2, 1}, {5, 1, 1}).same_choice, 1u);
  EXPECT_EQ(agreement_of({2, 2, 1}, {1, 5, 1}).same_choice, 0u);
}

}  // namespace
}  // namespace bonsai::reference
