#include "host/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace bonsai::host {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Everything off: the plain softmax.
SamplingOptions plain(uint64_t seed = 1) {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.seed = seed;
  return options;
}

SamplingOptions greedy() { return *sampling_preset("greedy"); }

Sampler make(const SamplingOptions &options, size_t vocab) {
  Result<Sampler> sampler = Sampler::create(options, static_cast<uint32_t>(vocab));
  EXPECT_TRUE(sampler) << sampler.error().message;
  return *std::move(sampler);
}

int32_t sample(Sampler &sampler, std::vector<float> logits) {
  const Result<int32_t> token = sampler.sample(logits);
  EXPECT_TRUE(token) << token.error().message;
  return token.value_or(-1);
}

// How often each token was chosen in `n` draws.
std::map<int32_t, int> draw(const SamplingOptions &options, const std::vector<float> &logits, int n = 20'000) {
  Sampler sampler = make(options, logits.size());
  std::map<int32_t, int> counts;
  for (int i = 0; i < n; ++i) ++counts[sample(sampler, logits)];
  return counts;
}

double chi_square(const std::map<int32_t, int> &counts, const std::map<int32_t, double> &probabilities) {
  double n = 0, sum = 0;
  for (const auto &[token, count] : counts) n += count;
  for (const auto &[token, p] : probabilities) {
    const auto found = counts.find(token);
    const double difference = (found == counts.end() ? 0 : found->second) - n * p;
    sum += difference * difference / (n * p);
  }
  return sum;
}

std::vector<float> logs(const std::vector<double> &probabilities) {
  std::vector<float> logits;
  for (const double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

// A large row without order; the largest are at known places.
std::vector<float> scattered(size_t n) {
  std::vector<float> logits(n);
  for (size_t i = 0; i < n; ++i) logits[i] = static_cast<float>((i * 2'654'435'761u) % 100'003u) * -1e-3f;
  return logits;
}

TEST(Greedy, TakesTheLargestLogit) {
  Sampler sampler = make(greedy(), 5);
  EXPECT_EQ(sample(sampler, {0.5f, -1, 3, 2.9f, -kInfinity}), 2);
}

TEST(Greedy, TiesGoToTheLowerId) {
  Sampler sampler = make(greedy(), 4);
  EXPECT_EQ(sample(sampler, {1, 7, 7, 7}), 1);
  std::vector<float> rising(151'936);
  std::iota(rising.begin(), rising.end(), 0.0f);
  rising[100'000] = rising.back();
  Sampler large = make(greedy(), rising.size());
  EXPECT_EQ(sample(large, rising), 100'000);
}

// Logits below those found so far are passed over many at a time: not so the largest, or a NaN of either sign.
TEST(Greedy, FindsWhatLiesBehindManyThatAreSmaller) {
  Sampler sampler = make(greedy(), 1000);
  for (size_t at = 300; at < 1000; ++at) {
    std::vector<float> logits(1000);
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = -static_cast<float>(i);
    logits[at] = 1;
    EXPECT_EQ(sample(sampler, logits), static_cast<int32_t>(at));
    for (const float nan : {kNaN, -kNaN}) {
      logits[at] = nan;
      EXPECT_FALSE(sampler.sample(logits)) << "NaN at " << at;
    }
  }
}

TEST(Sampler, DrawsFromTheSoftmax) {
  const std::vector<double> p = {0.4, 0.3, 0.15, 0.1, 0.05};
  const auto counts = draw(plain(), logs(p));
  EXPECT_LT(chi_square(counts, {{0, p[0]}, {1, p[1]}, {2, p[2]}, {3, p[3]}, {4, p[4]}}), 18.5);  // 99.9 %, 4 degrees
}

TEST(Sampler, TemperatureSharpensAndFlattens) {
  const std::vector<float> logits = logs({0.6, 0.3, 0.1});
  SamplingOptions options = plain();
  options.temperature = 0.5f;  // probabilities squared: 0.36, 0.09, 0.01
  EXPECT_LT(chi_square(draw(options, logits), {{0, 36.0 / 46}, {1, 9.0 / 46}, {2, 1.0 / 46}}), 13.8);
  options.temperature = 2;  // square roots
  const double total = std::sqrt(0.6) + std::sqrt(0.3) + std::sqrt(0.1);
  EXPECT_LT(chi_square(draw(options, logits),
                       {{0, std::sqrt(0.6) / total}, {1, std::sqrt(0.3) / total}, {2, std::sqrt(0.1) / total}}),
            13.8);
}

TEST(Sampler, TopKKeepsTheKLargestAndLowerIdsAmongEquals) {
  SamplingOptions options = plain();
  options.top_k = 2;
  const auto counts = draw(options, logs({0.1, 0.2, 0.2, 0.3, 0.2}));
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_LT(chi_square(counts, {{3, 0.6}, {1, 0.4}}), 10.8);  // 99.9 %, 1 degree
}

TEST(Sampler, TopPKeepsTheFewestThatReachIt) {
  SamplingOptions options = plain();
  options.top_p = 0.75f;
  const auto counts = draw(options, logs({0.05, 0.5, 0.15, 0.3}));  // 0.5 + 0.3 >= 0.75
  EXPECT_EQ(counts.size(), 2u);
  EXPECT_LT(chi_square(counts, {{1, 0.625}, {3, 0.375}}), 10.8);
  options.top_p = 0;  // one token always remains
  EXPECT_EQ(draw(options, logs({0.05, 0.5, 0.15, 0.3}), 100).size(), 1u);
}

TEST(Sampler, MinPIsRelativeToTheLikeliest) {
  SamplingOptions options = plain();
  options.min_p = 0.3f;
  const auto counts = draw(options, logs({0.5, 0.2, 0.14, 0.16}));  // the bar is 0.15
  EXPECT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts.count(2), 0u);
}

// top-p looks at what top-k left, and at probabilities before the temperature.
TEST(Sampler, AppliesTopKThenTopPThenTemperature) {
  SamplingOptions options = plain();
  options.top_k = 2;
  options.top_p = 0.6f;  // of {0.4, 0.2} renormalised, the first alone has 2/3
  EXPECT_EQ(draw(options, logs({0.4, 0.2, 0.2, 0.2}), 1000).size(), 1u);
  options = plain();
  options.top_p = 0.6f;
  options.temperature = 100;  // had it come first, three would be needed to reach 0.6
  EXPECT_EQ(draw(options, logs({0.4, 0.3, 0.2, 0.1}), 1000).size(), 2u);
}

TEST(Sampler, FindsTheSameTokensInALargeVocabularyHoweverItSearches) {
  const std::vector<float> logits = scattered(151'936);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] > logits[b]; });
  for (const uint32_t k : {1u, 40u, 300u}) {
    SamplingOptions options = plain();
    options.top_k = k;
    options.temperature = 1000;  // nearly uniform over what is kept
    const auto counts = draw(options, logits, 60);
    for (const auto &[token, count] : counts)
      EXPECT_LT(std::find(order.begin(), order.end(), token) - order.begin(), static_cast<std::ptrdiff_t>(k));
  }
  SamplingOptions options = plain();
  options.top_p = 0.5f;
  double total = 0, sum = 0;
  for (const float logit : logits) total += std::exp(double{logit});
  std::ptrdiff_t n_kept = 0;
  while (sum < 0.5 * total) sum += std::exp(double{logits[order[n_kept++]]});
  options.temperature = 1000;
  for (const auto &[token, count] : draw(options, logits, 60))
    EXPECT_LT(std::find(order.begin(), order.end(), token) - order.begin(), n_kept);
}

TEST(Sampler, EqualSeedsGiveEqualChoices) {
  const std::vector<float> logits = scattered(5000);
  const auto choices = [&](uint64_t seed) {
    SamplingOptions options = *sampling_preset("creative");
    options.seed = seed;
    Sampler sampler = make(options, logits.size());
    std::vector<int32_t> tokens;
    for (int i = 0; i < 50; ++i) tokens.push_back(sample(sampler, logits));
    return tokens;
  };
  EXPECT_EQ(choices(5), choices(5));
  EXPECT_NE(choices(5), choices(6));
}

// Computed by a script outside this project: another compiler, library or machine must choose the same.
TEST(Sampler, ChoicesAreTheSameOnEveryMachine) {
  SamplingOptions options = plain(2024);
  options.temperature = 0.9f;
  Sampler sampler = make(options, 6);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 12; ++i) tokens.push_back(sample(sampler, {0.1f, 0.9f, -0.3f, 1.2f, 0.4f, 0.7f}));
  EXPECT_EQ(tokens, (std::vector<int32_t>{1, 0, 1, 0, 1, 0, 3, 3, 3, 2, 1, 4}));
}

// Neither the choices nor what bias and penalties make of the logits, here or on a device.
TEST(Sampler, DoesNotDependOnTheCallersRounding) {
  const auto found = [] {
    SamplingOptions options = plain();
    options.top_k = 40;
    options.top_p = 0.9f;
    options.repetition_penalty = 1.3f;
    options.frequency_penalty = 0.1f;
    options.logit_bias = {{7, 0.1f}};
    Sampler sampler = make(options, 300);
    std::vector<float> found;
    for (int i = 0; i < 50; ++i) {
      std::vector<float> logits(300);
      for (size_t j = 0; j < logits.size(); ++j) logits[j] = std::ldexp(static_cast<float>(j * 7919 % 1009), -7);
      const Result<int32_t> token = sampler.sample(logits);
      found.insert(found.end(), logits.begin(), logits.end());
      found.push_back(static_cast<float>(token.value_or(-1)));
      sampler.remember({&*token, 1});
      for (const float add : sampler.selection({.max_k = 40, .adjusts = true}).add) found.push_back(add);
    }
    return found;
  };
  const std::vector<float> expected = found();
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD}) {
    std::fesetround(rounding);
    const std::vector<float> rounded = found();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(rounded, expected);
  }
}

TEST(Sampler, WithoutASeedOneIsDrawnAndTold) {
  SamplingOptions options = plain();
  options.seed.reset();
  const Sampler first = make(options, 3), second = make(options, 3);
  EXPECT_NE(first.seed(), second.seed());
}

// By hand: repetition divides positive logits and multiplies negative ones; then presence once, frequency per count.
TEST(Penalties, FollowTheirFormulas) {
  SamplingOptions options = greedy();
  options.repetition_penalty = 2;
  options.presence_penalty = 0.5f;
  options.frequency_penalty = 0.25f;
  options.penalty_window = -1;
  Sampler sampler = make(options, 4);
  sampler.remember(std::vector<int32_t>{0, 1, 1, 1});
  std::vector<float> logits = {4, -1, 1.2f, -5};
  EXPECT_EQ(sampler.sample(logits).value(), 0);
  EXPECT_FLOAT_EQ(logits[0], 4.0f / 2 - 0.5f - 0.25f);
  EXPECT_FLOAT_EQ(logits[1], -1.0f * 2 - 0.5f - 3 * 0.25f);
  EXPECT_FLOAT_EQ(logits[2], 1.2f);
  EXPECT_FLOAT_EQ(logits[3], -5.0f);
}

TEST(Penalties, ForgetWhatLeavesTheWindow) {
  SamplingOptions options = greedy();
  options.presence_penalty = 10;
  options.penalty_window = 2;
  Sampler sampler = make(options, 3);
  sampler.remember(std::vector<int32_t>{0, 1, 2});
  EXPECT_EQ(sample(sampler, {0.3f, 0.2f, 0.1f}), 0);
  sampler.remember(std::vector<int32_t>{0});  // 1 leaves, 0 is back
  EXPECT_EQ(sample(sampler, {0.3f, 0.2f, 0.1f}), 1);
}

TEST(Penalties, AWindowOfZeroTurnsThemOff) {
  SamplingOptions options = greedy();
  options.presence_penalty = 10;
  options.penalty_window = 0;
  Sampler sampler = make(options, 2);
  sampler.remember(std::vector<int32_t>{0});
  EXPECT_EQ(sample(sampler, {0.3f, 0.2f}), 0);
}

// NaN would be the model's fault, and this is the caller's.
TEST(Penalties, TooLargeForAFloatMakeNoNaN) {
  for (const float repetition : {1e-38f, 1.0f, 3e38f}) {
    SamplingOptions options = greedy();
    options.logit_bias = {{0, -kInfinity}};
    options.frequency_penalty = 3e38f;
    options.repetition_penalty = repetition;
    Sampler falling = make(options, 4);
    falling.remember(std::vector<int32_t>{0, 0, 1, 1, 2, 2});
    EXPECT_EQ(sample(falling, {100, 90, -80, 7}), 3);
    options.frequency_penalty = -3e38f;
    Sampler rising = make(options, 4);
    rising.remember(std::vector<int32_t>{0, 0});
    EXPECT_EQ(sample(rising, {100, 90, -80, 7}), 1);
    rising.remember(std::vector<int32_t>{1, 1, 2, 2});
    std::vector<float> logits = {100, 90, -80, 7};
    EXPECT_EQ(rising.sample(logits).error().message, "the model produced infinite logits");
  }
}

TEST(Bias, IsAddedBeforeThePenalties) {
  SamplingOptions options = greedy();
  options.logit_bias = {{0, 3.0f}, {0, 1.0f}};
  options.repetition_penalty = 2;
  Sampler sampler = make(options, 2);
  sampler.remember(std::vector<int32_t>{0});
  std::vector<float> logits = {-2, 0};
  EXPECT_EQ(sampler.sample(logits).value(), 0);
  EXPECT_FLOAT_EQ(logits[0], (-2.0f + 4) / 2);  // not (-2 * 2) + 4
}

TEST(Bias, MinusInfinityForbidsAToken) {
  SamplingOptions options = plain();
  options.logit_bias = {{0, -kInfinity}};
  EXPECT_EQ(draw(options, {100, 1, 1}, 1000).count(0), 0u);
}

struct BadRow {
  std::string name;
  std::vector<float> logits;
  std::string message;
};
void PrintTo(const BadRow &row, std::ostream *out) { *out << row.name; }

class SamplerRefuses : public testing::TestWithParam<BadRow> {};

TEST_P(SamplerRefuses, RowsThatAreNoDistribution) {
  for (SamplingOptions options : {plain(), greedy(), *sampling_preset("balanced")}) {
    if (options.top_k == 40) options.top_k = 2;
    Sampler sampler = make(options, GetParam().logits.size());
    std::vector<float> logits = GetParam().logits;
    const Result<int32_t> token = sampler.sample(logits);
    ASSERT_FALSE(token);
    EXPECT_EQ(token.error().message, GetParam().message);
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, SamplerRefuses,
                         testing::Values(BadRow{"nan_first", {kNaN, 1, 2, 3}, "the model produced NaN logits"},
                                         BadRow{"nan_last", {1, 2, 3, kNaN}, "the model produced NaN logits"},
                                         BadRow{"nan_below", {3, 2, kNaN, 1}, "the model produced NaN logits"},
                                         BadRow{"infinite", {1, kInfinity, 2, 3}, "the model produced infinite logits"},
                                         BadRow{"nothing_left",
                                                {-kInfinity, -kInfinity, -kInfinity, -kInfinity},
                                                "no token is allowed: every logit is -infinity"}),
                         [](const auto &info) { return info.param.name; });

TEST(Sampler, RefusesOptionsThatMeanNothing) {
  const auto message = [](auto change) {
    SamplingOptions options = plain();
    change(options);
    const Result<Sampler> sampler = Sampler::create(options, 10);
    return sampler ? std::string("accepted") : sampler.error().message;
  };
  using Options = SamplingOptions;
  EXPECT_EQ(message([](Options &o) { o.temperature = -1; }), "temperature: expected a number >= 0, found -1");
  EXPECT_EQ(message([](Options &o) { o.temperature = kNaN; }), "temperature: expected a number >= 0, found nan");
  EXPECT_EQ(message([](Options &o) { o.top_p = 1.5f; }), "top-p: expected a number from 0 to 1, found 1.5");
  EXPECT_EQ(message([](Options &o) { o.min_p = -0.5f; }), "min-p: expected a number from 0 to 1, found -0.5");
  EXPECT_EQ(message([](Options &o) { o.repetition_penalty = 0; }),
            "repetition penalty: expected a number > 0, found 0");
  EXPECT_EQ(message([](Options &o) { o.presence_penalty = kInfinity; }),
            "presence penalty: expected a finite number, found inf");
  EXPECT_EQ(message([](Options &o) { o.frequency_penalty = kNaN; }),
            "frequency penalty: expected a finite number, found nan");
  EXPECT_EQ(message([](Options &o) { o.penalty_window = -2; }), "penalty window: expected a number >= -1, found -2");
  EXPECT_EQ(message([](Options &o) {
              o.logit_bias = {{10, 1}};
            }),
            "logit bias: token 10 is outside the vocabulary of 10");
  EXPECT_EQ(message([](Options &o) {
              o.logit_bias = {{3, kInfinity}};
            }),
            "logit bias: expected a finite number or -inf for token 3, found inf");
}

TEST(Presets, HaveTheirDocumentedValues) {
  const auto values = [](std::string_view name) {
    const SamplingOptions options = sampling_preset(name).value();
    return std::tuple(options.temperature, options.top_k, options.top_p);
  };
  EXPECT_EQ(values("greedy"), std::tuple(0.0f, 0u, 1.0f));
  EXPECT_EQ(values("balanced"), std::tuple(0.7f, 40u, 0.9f));
  EXPECT_EQ(values("creative"), std::tuple(1.0f, 100u, 0.95f));
  EXPECT_EQ(values("code"), std::tuple(0.2f, 10u, 0.8f));
  const SamplingOptions defaults;
  EXPECT_EQ(values("balanced"), std::tuple(defaults.temperature, defaults.top_k, defaults.top_p));
  EXPECT_FALSE(sampling_preset("Balanced"));
}

}  // namespace
}  // namespace bonsai::host
