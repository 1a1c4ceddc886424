// Sampled text keeps its distribution, whatever is proposed: a chi-square test over every text of three tokens, against
// what the model's probabilities say. That the test would notice is tested, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "host/sampling/sampler.h"
#include "host/speculation/ahead.h"

namespace bonsai::host {
namespace {

constexpr int32_t kVocabulary = 5;
constexpr int kTexts = 20'000;
constexpr size_t kLength = 3;

using Text = std::vector<int32_t>;

// The logits of a model that knows the last token only.
std::vector<float> logits_behind(int32_t token) {
  constexpr float kLogits[kVocabulary][kVocabulary] = {{1.0f, 0.2f, -0.5f, 0.7f, 0.0f},
                                                       {0.1f, 2.0f, 0.3f, -1.0f, 0.4f},
                                                       {0.0f, 0.0f, 0.0f, 0.0f, 0.0f},
                                                       {-0.7f, 0.9f, 0.8f, 0.1f, -0.2f},
                                                       {1.5f, -0.3f, 0.2f, 0.6f, 1.4f}};
  return {std::begin(kLogits[token]), std::end(kLogits[token])};
}

SamplingOptions sampling(uint64_t seed, float presence_penalty) {
  SamplingOptions options;
  options.temperature = 1;
  options.top_k = 0;
  options.top_p = 1;
  options.presence_penalty = presence_penalty;
  options.seed = seed;
  return options;
}

// Two proposals behind the text so far.
using Propose = std::function<Text(const Text &text, const Sampler &sampler)>;
// Whether a proposal is taken, and what stands there else.
using Rule = std::function<int32_t(int32_t proposed, std::vector<float> &logits, Sampler &sampler)>;

int32_t choose(int32_t, std::vector<float> &logits, Sampler &sampler) { return *sampler.sample(logits); }
int32_t trust(int32_t proposed, std::vector<float> &, Sampler &) { return proposed; }
// Takes what was proposed if it is likely, which sounds sensible and is wrong.
int32_t take_if_likely(int32_t proposed, std::vector<float> &logits, Sampler &sampler) {
  const bool is_likely = logits[static_cast<size_t>(proposed)] > 0.3f;
  return is_likely ? proposed : *sampler.sample(logits);
}

// One text: as the engine goes about it, a pass computes what is due and what is proposed, and the text goes along with
// it as far as its own choices do.
Text write(const Propose &propose, const Rule &rule, uint64_t seed, float presence_penalty) {
  Sampler sampler = *Sampler::create(sampling(seed, presence_penalty), kVocabulary);
  Ahead ahead;
  Text text = {0}, proposals;
  sampler.remember(text);
  std::vector<float> logits;
  size_t n_taken = 0;
  while (text.size() < 1 + kLength) {
    if (ahead.goes_on_with(text.back())) {
      logits = ahead.take().logits;
      ++n_taken;
    } else {
      logits = logits_behind(text.back());
      proposals = propose(text, sampler);
      std::vector<Row> rows;
      for (const int32_t token : proposals) rows.push_back({.logits = logits_behind(token), .top = {}});
      ahead.set(proposals, rows);
      n_taken = 0;
    }
    const int32_t proposed = n_taken < proposals.size() ? proposals[n_taken] : -1;
    text.push_back(proposed < 0 ? *sampler.sample(logits) : rule(proposed, logits, sampler));
    sampler.remember({&text.back(), 1});
  }
  return text;
}

double probability(const Text &text, float presence_penalty) {
  double product = 1;
  for (size_t i = 1; i < text.size(); ++i) {
    std::vector<float> logits = logits_behind(text[i - 1]);
    for (int32_t token = 0; token < kVocabulary; ++token)
      if (std::find(text.begin(), text.begin() + static_cast<long>(i), token) != text.begin() + static_cast<long>(i))
        logits[static_cast<size_t>(token)] -= presence_penalty;
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    product *= std::exp(double{logits[static_cast<size_t>(text[i])]}) / sum;
  }
  return product;
}

// The sum over all 125 texts; about 124 if they are as frequent as they should be.
double chi_square(const Propose &propose, const Rule &rule, float presence_penalty = 0) {
  std::map<Text, int> counts;
  for (int seed = 0; seed < kTexts; ++seed)
    ++counts[write(propose, rule, static_cast<uint64_t>(seed), presence_penalty)];
  double sum = 0;
  for (int32_t a = 0; a < kVocabulary; ++a)
    for (int32_t b = 0; b < kVocabulary; ++b)
      for (int32_t c = 0; c < kVocabulary; ++c) {
        const Text text = {0, a, b, c};
        const double expected = kTexts * probability(text, presence_penalty);
        sum += (counts[text] - expected) * (counts[text] - expected) / expected;
      }
  return sum;
}

// 124 degrees of freedom exceed this once in a million times.
constexpr double kBound = 209;

Text always_the_same(const Text &, const Sampler &) { return {1, 4}; }
Text the_likeliest(const Text &text, const Sampler &) {
  const auto best = [](int32_t token) {
    const auto logits = logits_behind(token);
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  };
  return {best(text.back()), best(best(text.back()))};
}
// As a draft model does: with another model's logits, but the numbers that the text's own choices will draw.
Text with_the_same_numbers(const Text &text, const Sampler &sampler) {
  Sampler copy = sampler;
  Text proposals;
  for (int32_t last = text.back(); proposals.size() < 2; last = proposals.back()) {
    std::vector<float> logits = logits_behind(last);
    logits[3] += 0.8f;
    proposals.push_back(*copy.sample(logits));
    copy.remember({&proposals.back(), 1});
  }
  return proposals;
}

TEST(SpeculativeDistribution, IsTheModels) {
  EXPECT_LT(chi_square([](const Text &, const Sampler &) { return Text(); }, choose), kBound);
  EXPECT_LT(chi_square(always_the_same, choose), kBound);
  EXPECT_LT(chi_square(the_likeliest, choose), kBound);
  EXPECT_LT(chi_square(with_the_same_numbers, choose), kBound);
}

TEST(SpeculativeDistribution, IsTheModelsUnderPenalties) {
  EXPECT_LT(chi_square(always_the_same, choose, 1.5f), kBound);
  EXPECT_LT(chi_square(with_the_same_numbers, choose, 1.5f), kBound);
}

TEST(SpeculativeDistribution, TheTestNoticesAWrongRule) {
  EXPECT_GT(chi_square(always_the_same, trust), 10 * kBound);
  EXPECT_GT(chi_square(the_likeliest, take_if_likely), 10 * kBound);
  EXPECT_GT(chi_square(with_the_same_numbers, trust), kBound);
}

// More than the texts' frequencies: every single text is the one that its seed tells without proposals.
TEST(SpeculativeDistribution, EverySeedTellsItsOwnText) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Text alone = write([](const Text &, const Sampler &) { return Text(); }, choose, seed, 0.5f);
    EXPECT_EQ(write(always_the_same, choose, seed, 0.5f), alone);
    EXPECT_EQ(write(with_the_same_numbers, choose, seed, 0.5f), alone);
  }
}

}  // namespace
}  // namespace bonsai::host
