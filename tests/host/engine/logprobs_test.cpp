// How likely the model found what it said: against the logits that a session hands out, whatever chose the tokens.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <numeric>
#include <span>
#include <vector>

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

// Of the very tokens whose own logits change.
TEST(LogProbs, AreTheModelsOfATokenThatIsChosenForItsBias) {
  const Engine engine = load_seedling();
  GenerateOptions options = with_logprobs(greedy(24));
  options.sampling.presence_penalty = 2;
  options.sampling.logit_bias = {{700, 40}};
  expect_the_models_own(engine, engine.generate(kPrompt, options));
  BatchEngine batch(engine);
  for (const Generation &generation : batch.generate(std::vector<std::string>(3, kPrompt), options)) {
    EXPECT_EQ(generation.tokens.front(), 700);
    EXPECT_LT(generation.logprobs.front().chosen.logprob, generation.logprobs.front().top.back().logprob);
    expect_the_models_own(engine, generation);
  }
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

// ---------------------------------------------------------------------------------------------------------------------
// Of prompts, which a batch tells

std::vector<int32_t> prompt_of(uint32_t n, int32_t seed) {
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < n; ++i) tokens.push_back((static_cast<int32_t>(i) * 7919 + seed) % 4000);
  return tokens;
}

GenerateOptions scored_from(uint32_t index, uint32_t max_tokens = 1) {
  GenerateOptions options = with_logprobs(greedy(max_tokens));
  options.prompt_logprobs_from = index;
  return options;
}

// Against the rows of a session of the same engine.
void expect_scores(const Engine &engine, const std::vector<int32_t> &prompt, uint32_t from,
                   const std::vector<TokenLogProbs> &found) {
  const uint32_t first = std::max(from, 1u);
  ASSERT_EQ(found.size(), prompt.size() - first);
  Session session = engine.new_session();
  session.evaluate(prompt, [&](size_t index, std::span<const float> logits) {
    if (index + 1 < first || index + 1 == prompt.size()) return;
    const std::vector<double> expected = log_softmax({logits.begin(), logits.end()});
    const TokenLogProbs &place = found[index + 1 - first];
    EXPECT_EQ(place.chosen.token, prompt[index + 1]);
    EXPECT_NEAR(place.chosen.logprob, expected[static_cast<size_t>(prompt[index + 1])], 1e-12) << "token " << index + 1;
    expect_likeliest(place.top, expected);
  });
}

struct Company {
  const char *name, *backend;
  BatchOptions options;
};

class PromptLogProbsInCompany : public testing::TestWithParam<Company> {};

// Among texts that are generated, some of which begin like these prompts, and with hardly any room for all.
TEST_P(PromptLogProbsInCompany, AreThoseOfTheLogits) {
  EngineOptions options = seedling_options();
  options.backend = GetParam().backend;
  const Engine engine = Engine::load(options);
  BatchEngine batch(engine, GetParam().options);
  struct Wanted {
    std::vector<int32_t> prompt;
    uint32_t from;
    std::future<Generation> generation;
  };
  std::vector<Wanted> wanted;
  std::vector<std::future<Generation>> others;
  for (const uint32_t from : {0u, 1u, 30u, 69u}) {
    const std::vector<int32_t> prompt = prompt_of(70, from < 30 ? 13 : 29);
    others.push_back(batch.submit_tokens(std::span(prompt).first(40), greedy(20)));
    wanted.push_back({prompt, from, batch.submit_tokens(prompt, scored_from(from, 5))});
  }
  for (auto &[prompt, from, future] : wanted) {
    const Generation generation = future.get();
    expect_scores(engine, prompt, from, generation.prompt_logprobs);
    Session session = engine.new_session();
    session.append_tokens(prompt);
    EXPECT_EQ(generation.tokens, session.generate(greedy(5)).tokens);
    EXPECT_EQ(generation.logprobs.size(), generation.tokens.size());
  }
  for (auto &other : others) EXPECT_EQ(other.get().tokens.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(
    LogProbs, PromptLogProbsInCompany,
    testing::Values(Company{"WithRoom", "cpu", {.max_sequences = 16}},
                    Company{"WithHardlyAnyCache", "cpu", {.max_sequences = 8, .batch_tokens = 24, .kv_tokens = 128}},
                    Company{"ComposedByTheHost",
                            BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so",
                            {.max_sequences = 4, .batch_tokens = 9, .kv_tokens = 256}}),
    [](const auto &info) { return info.param.name; });

TEST(PromptLogProbs, WhatComesBeforeThemIsNotComputedAgain) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine);
  const std::vector<int32_t> prompt = prompt_of(100, 13);
  batch.submit_tokens(prompt, greedy(1)).get();
  const Generation generation = batch.submit_tokens(prompt, scored_from(90)).get();
  EXPECT_EQ(generation.stats.prompt_tokens, 11u);  // behind the 89th is how likely the 90th is
  expect_scores(engine, prompt, 90, generation.prompt_logprobs);
  EXPECT_EQ(batch.submit_tokens(prompt, scored_from(0)).get().stats.prompt_tokens, 100u);
  EXPECT_TRUE(batch.submit_tokens(std::span(prompt).first(1), scored_from(0)).get().prompt_logprobs.empty());
}

// Once each, though in the middle of the prompt another text takes its place, of whose blocks one is kept.
TEST(PromptLogProbs, GoOnWhereTheyWereBehindAPreemption) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine, {.max_sequences = 4, .batch_tokens = 9, .kv_tokens = 160});
  const std::vector<int32_t> prompt = prompt_of(70, 13);
  std::future<Generation> urgent, scored;
  // From the batch's own thread, so that both come at the same token of the text, however busy the machine is.
  const auto begin_others = [&, n = 0](std::string_view) mutable {
    ++n;
    if (n == 1) scored = batch.submit_tokens(prompt, scored_from(0));
    if (n == 6) urgent = batch.submit_tokens(prompt_of(40, 5), greedy(4), {}, 1);
    return true;
  };
  EXPECT_EQ(batch.submit_tokens(prompt_of(3, 7), greedy(20), begin_others, 1).get().tokens.size(), 20u);
  expect_scores(engine, prompt, 0, scored.get().prompt_logprobs);
  EXPECT_EQ(urgent.get().tokens.size(), 4u);
  EXPECT_GT(batch.stats().preemptions, 0u);
}

// Once each, though the device is lost between two pieces of the prompt.
TEST(PromptLogProbs, GoOnWithTheCpu) {
  const std::vector<int32_t> prompt = prompt_of(100, 13);
  EngineOptions options = seedling_options();
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
  options.backend_strict = false;
  options.backend_options = {{"fail.at", "3"}, {"fail.function", "forward_wait"}, {"fail.status", "lost"}};
  const Engine engine = Engine::load(options);
  BatchEngine batch(engine);
  const Generation generation = batch.submit_tokens(prompt, scored_from(0)).get();
  EXPECT_NE(generation.stats.failed_over, "");
  expect_scores(load_seedling(), prompt, 0, generation.prompt_logprobs);
}

TEST(PromptLogProbs, AreForABatchThatTellsOfTheTextToo) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine);
  const auto refused = [&](const GenerateOptions &options) {
    const Thrown thrown = thrown_by([&] { batch.submit_tokens(prompt_of(4, 1), options); });
    EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
    return thrown.message;
  };
  EXPECT_EQ(refused(scored_from(4)), "prompt_logprobs_from: expected one of the prompt's 4 tokens, found 4");
  GenerateOptions options = scored_from(0);
  options.logprobs = 0;
  EXPECT_EQ(refused(options), "prompt_logprobs_from: expected with logprobs only");
  const Thrown thrown = thrown_by([&] { engine.generate(kPrompt, scored_from(0)); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "prompt_logprobs_from: only texts of a batch engine have it");
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
