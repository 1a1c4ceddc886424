// Log-probabilities of rows of logits whose distribution is known.
#include "host/sampling/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tests/base/refuse_threads.h"

namespace bonsai::host {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<int32_t> ids(const std::vector<LogProb> &top) {
  std::vector<int32_t> result;
  for (const LogProb &entry : top) result.push_back(entry.token);
  return result;
}

TEST(LogProbs, AreThoseOfTheSoftmax) {
  const float logits[] = {std::log(1.0f), std::log(4.0f), std::log(2.0f), std::log(1.0f)};
  const auto logprobs = LogProbs::create(logits, 2);
  ASSERT_TRUE(logprobs);
  const TokenLogProbs found = logprobs->of(3, logits[3]);
  EXPECT_EQ(found.chosen.token, 3);
  EXPECT_NEAR(found.chosen.logprob, std::log(0.125), 1e-7);
  EXPECT_EQ(ids(found.top), (std::vector<int32_t>{1, 2}));
  EXPECT_NEAR(found.top[0].logprob, std::log(0.5), 1e-7);
  EXPECT_NEAR(found.top[1].logprob, std::log(0.25), 1e-7);
}

TEST(LogProbs, StayInRangeForLargeLogits) {
  const float logits[] = {3e38f, -3e38f, -kInfinity, 3e38f};
  const auto logprobs = LogProbs::create(logits, 4);
  ASSERT_TRUE(logprobs);
  EXPECT_DOUBLE_EQ(logprobs->of(0, logits[0]).chosen.logprob, 0);  // log 2 is lost beside 3e38
  EXPECT_LT(logprobs->of(1, logits[1]).chosen.logprob, -1e38);
  EXPECT_EQ(logprobs->of(2, logits[2]).chosen.logprob, -kInfinity);
  const float moderate[] = {-5000, -5000, -5001};
  EXPECT_NEAR(LogProbs::create(moderate, 0)->of(0, moderate[0]).chosen.logprob, -std::log(2 + std::exp(-1.0)), 1e-9);
}

TEST(LogProbs, DoNotDependOnTheCallersRounding) {
  const auto found = [] {
    std::vector<float> logits;
    for (int i = 0; i < 100; ++i) logits.push_back(std::ldexp(static_cast<float>(i * 7919 % 100), -5));
    std::vector<double> found;
    const auto logprobs = LogProbs::create(logits, 3);
    for (const LogProb &entry : logprobs->of(7, logits[7]).top) found.push_back(entry.logprob);
    for (int32_t token = 0; token < 100; ++token)
      found.push_back(logprobs->of(token, logits[static_cast<size_t>(token)]).chosen.logprob);
    return found;
  };
  const std::vector<double> expected = found();
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD}) {
    std::fesetround(rounding);
    const std::vector<double> rounded = found();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(rounded, expected);
  }
}

TEST(LogProbs, RankEqualTokensByIdAndNoMoreThanThereAre) {
  const float logits[] = {1, 2, 1, 2, 1};
  EXPECT_EQ(ids(LogProbs::create(logits, 3)->of(0, logits[0]).top), (std::vector<int32_t>{1, 3, 0}));
  EXPECT_EQ(ids(LogProbs::create(logits, 9)->of(0, logits[0]).top), (std::vector<int32_t>{1, 3, 0, 2, 4}));
  EXPECT_TRUE(LogProbs::create(logits, 0)->of(0, logits[0]).top.empty());
}

TEST(LogProbs, RefuseWhatIsNoDistribution) {
  const float with_nan[] = {1, kNan}, with_infinity[] = {1, kInfinity}, with_nothing[] = {-kInfinity, -kInfinity};
  for (const std::span<const float> logits : {std::span(with_nan), std::span(with_infinity), std::span(with_nothing)}) {
    const auto logprobs = LogProbs::create(logits, 1);
    ASSERT_FALSE(logprobs);
    EXPECT_EQ(logprobs.error().message,
              "logprobs: the logits are no distribution, as they hold NaN or +infinity, or nothing but -infinity");
  }
}

TEST(CreateLogProbs, OfEachRowThatItSays) {
  std::vector<std::vector<float>> rows(40, std::vector<float>(100));
  std::vector<LogProbsRequest> requests;
  for (size_t i = 0; i < rows.size(); ++i) {
    for (size_t k = 0; k < 100; ++k) rows[i][k] = static_cast<float>(i * k % 17);
    requests.push_back({rows[i], static_cast<uint32_t>(i % 6)});
  }
  rows[39][7] = kNan;
  for (const uint32_t n_threads : {1u, 2u, 3u}) {
    const auto results = create_logprobs(requests, n_threads);
    ASSERT_EQ(results.size(), rows.size());
    for (size_t i = 0; i < 39; ++i) {
      ASSERT_TRUE(results[i]);
      const TokenLogProbs found = results[i]->of(5, rows[i][5]);
      const TokenLogProbs expected = LogProbs::create(rows[i], requests[i].n_top)->of(5, rows[i][5]);
      EXPECT_EQ(found.chosen.logprob, expected.chosen.logprob);
      EXPECT_EQ(ids(found.top), ids(expected.top));
    }
    EXPECT_FALSE(results[39]) << "one that is none harms no other";
  }
  EXPECT_TRUE(create_logprobs({}, 2).empty());
}

TEST(CreateLogProbs, WhereTheSystemRefusesThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto create = [] {
    test::refuse_threads();
    const std::vector<float> row(50000, 1.0f);
    const auto results = create_logprobs(std::vector<LogProbsRequest>(40, {row, 5}), 4);
    const bool all = std::all_of(results.begin(), results.end(), [](const auto &result) { return result.has_value(); });
    std::_Exit(all ? 0 : 1);
  };
  EXPECT_EXIT(create(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bonsai::host
