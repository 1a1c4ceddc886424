// How likely the model found what it said: against the logits that a session hands out, whatever chose the tokens.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/host/engine/seedling.h"

namespace bonsai {
namespace {

constexpr uint32_t kTop = 5;
constexpr const char *kPrompt = "Once upon a time there was a";

// log softmax, in the widest type that there is.
std::vector<double> log_softmax(const std::vector<float> &logits) {
  const long double largest = *std::max_element(logits.begin(), logits.end());
  long double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - largest);
  std::vector<double> result;
  for (const float logit : logits) result.push_back(static_cast<double>(logit - largest - std::log(sum)));
  return result;
}

void expect_likeliest(const std::vector<LogProb> &top, const std::vector<double> &expected) {
  std::vector<int32_t> ids(expected.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return expected[a] > expected[b]; });
  ASSERT_EQ(top.size(), kTop);
  for (size_t i = 0; i < kTop; ++i) {
    EXPECT_EQ(top[i].token, ids[i]);
    EXPECT_NEAR(top[i].logprob, expected[ids[i]], 1e-12);
  }
}

// Goes over the text again, one token after the other.
void expect_the_models_own(const Engine &engine, const Generation &generation) {
  ASSERT_EQ(generation.logprobs.size(), generation.tokens.size());
  Session session = engine.new_session();
  session.append(kPrompt);
  for (size_t i = 0; i < generation.tokens.size(); ++i) {
    const std::vector<double> expected = log_softmax(session.logits());
    const TokenLogProbs &found = generation.logprobs[i];
    EXPECT_EQ(found.chosen.token, generation.tokens[i]);
    EXPECT_NEAR(found.chosen.logprob, expected[static_cast<size_t>(generation.tokens[i])], 1e-12) << "token " << i;
    expect_likeliest(found.top, expected);
    session.append_tokens({&generation.tokens[i], 1});
  }
}

GenerateOptions with_logprobs(GenerateOptions options) {
  options.logprobs = kTop;
  return options;
}

TEST(LogProbs, AreThoseOfTheLogits) {
  const Engine engine = load_seedling();
  const Generation generation = engine.generate(kPrompt, with_logprobs(greedy(24)));
  ASSERT_EQ(generation.tokens.size(), 24u);
  expect_the_models_own(engine, generation);
  for (const TokenLogProbs &place : generation.logprobs) EXPECT_EQ(place.chosen.token, place.top.front().token);
}

TEST(LogProbs, AreTakenBeforeAnythingChangesTheLogits) {
  const Engine engine = load_seedling();
  GenerateOptions options = with_logprobs(greedy(24));
  const int32_t first = engine.generate(kPrompt, options).tokens.front();
  options.sampling = {.temperature = 3,
                      .top_k = 0,
                      .top_p = 1,
                      .repetition_penalty = 1.5f,
                      .presence_penalty = 1,
                      .logit_bias = {{first, -100}},
                      .seed = 3};
  const Generation sampled = engine.generate(kPrompt, options);
  EXPECT_EQ(sampled.logprobs.front().top.front().token, first);
  EXPECT_NE(sampled.tokens.front(), first);
  expect_the_models_own(engine, sampled);

  options.grammar = "root ::= [0-9]+";
  const Generation constrained = engine.generate(kPrompt, options);
  expect_the_models_own(engine, constrained);
  EXPECT_LT(constrained.logprobs.front().chosen.logprob, constrained.logprobs.front().top.back().logprob);
}

TEST(LogProbs, AreTheSameWithGuessesAndInABatch) {
  const Engine engine = load_seedling();
  GenerateOptions options = with_logprobs(greedy(48));
  options.lookup = true;
  expect_the_models_own(engine, engine.generate(kPrompt, options));
  BatchEngine batch(engine);
  for (const Generation &generation : batch.generate(std::vector<std::string>(3, kPrompt), options))
    expect_the_models_own(engine, generation);
}

TEST(LogProbs, AreThereOnlyIfAskedForAndDoNotChangeTheText) {
  const Engine engine = load_seedling();
  GenerateOptions options;
  options.sampling.seed = 5;
  options.max_tokens = 32;
  const Generation without = engine.generate(kPrompt, options);
  EXPECT_TRUE(without.logprobs.empty());
  EXPECT_EQ(engine.generate(kPrompt, with_logprobs(options)).tokens, without.tokens);
}

TEST(LogProbs, AreAtMostTheVocabulary) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(1);
  options.logprobs = 4096;
  const Generation generation = engine.generate(kPrompt, options);
  double sum = 0;
  for (const LogProb &entry : generation.logprobs.front().top) sum += std::exp(entry.logprob);
  EXPECT_NEAR(sum, 1, 1e-12);
  options.logprobs = 4097;
  const Thrown thrown = thrown_by([&] { engine.generate(kPrompt, options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "logprobs: expected at most the vocabulary's 4096, found 4097");
}

}  // namespace
}  // namespace bonsai
