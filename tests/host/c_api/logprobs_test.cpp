// How likely tokens were, through the C API: the numbers of the C++ API.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include "tests/host/c_api/handles.h"

namespace bonsai::c {
namespace {

void expect_equal(const bonsai_logprob &found, const LogProb &expected) {
  EXPECT_EQ(found.token, expected.token);
  EXPECT_EQ(found.logprob, expected.logprob);
}
void expect_equal(const bonsai_token_logprobs &found, const TokenLogProbs &expected) {
  expect_equal(found.chosen, expected.chosen);
  ASSERT_EQ(found.n_top, expected.top.size());
  for (size_t i = 0; i < expected.top.size(); ++i) expect_equal(found.top[i], expected.top[i]);
}

TEST(CLogProbs, AreThoseOfTheCxxApi) {
  GenerateOptions cxx = greedy(12);
  cxx.logprobs = 3;
  const Generation expected = load_seedling().generate(kPrompt, cxx);
  ASSERT_EQ(expected.logprobs.size(), 12u);
  bonsai_generate_options options = greedily(12);
  options.n_logprobs = 3;
  const GenerationHandle generation = generate(load(), kPrompt, options);
  ASSERT_EQ(generation->n_tokens, 12u);
  ASSERT_NE(generation->logprobs, nullptr);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(generation->logprobs[i].chosen.token, generation->tokens[i]);
    expect_equal(generation->logprobs[i], expected.logprobs[i]);
  }
  EXPECT_EQ(generation->end_logprobs, nullptr);
  EXPECT_EQ(generation->prompt_logprobs, nullptr);
  EXPECT_EQ(generation->n_prompt_logprobs, 0u);
}

TEST(CLogProbs, AreNotThereUnlessAskedFor) {
  const GenerationHandle generation = generate(load(), kPrompt, greedily(4));
  EXPECT_EQ(generation->logprobs, nullptr);
  EXPECT_EQ(generation->end_logprobs, nullptr);
  EXPECT_EQ(generation->prompt_logprobs, nullptr);
}

// What grammars, bias and penalties do to the choice does not show in them.
TEST(CLogProbs, OfTheTokenThatEndsAText) {
  const int32_t end = 4093;
  const float add = 1000;
  bonsai_generate_options options = greedily(4);
  options.n_logprobs = 1;
  options.n_logit_bias = 1;
  options.bias_tokens = &end;
  options.bias_adds = &add;
  const GenerationHandle generation = generate(load(), kPrompt, options);
  EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_END_OF_TEXT});
  EXPECT_EQ(generation->n_tokens, 0u);
  EXPECT_EQ(generation->logprobs, nullptr);
  ASSERT_NE(generation->end_logprobs, nullptr);
  EXPECT_EQ(generation->end_logprobs->chosen.token, end);
  EXPECT_LT(generation->end_logprobs->chosen.logprob, -1);
  ASSERT_EQ(generation->end_logprobs->n_top, 1u);
  EXPECT_NE(generation->end_logprobs->top[0].token, end);
}

TEST(CLogProbs, OfAPromptComeFromABatchOnly) {
  const EngineHandle engine = load();
  bonsai_generate_options options = greedily(2);
  options.n_logprobs = 2;
  options.has_prompt_logprobs = 1;
  options.prompt_logprobs_from = 1;
  const Report refused = report_of([&](auto failure) {
    return bonsai_engine_generate(engine.get(), kPrompt, BONSAI_TO_NUL, &options, nullptr, nullptr, nullptr, failure);
  });
  EXPECT_EQ(refused.outcome, uint32_t{BONSAI_BAD_ARGUMENT});
  EXPECT_TRUE(refused.message.starts_with("prompt_logprobs_from: ")) << refused.message;

  const Engine same = load_seedling();
  GenerateOptions cxx = greedy(2);
  cxx.logprobs = 2;
  cxx.prompt_logprobs_from = 1;
  const Generation expected = BatchEngine(same).submit(kPrompt, cxx).get();
  ASSERT_EQ(expected.prompt_logprobs.size(), 4u);
  const BatchHandle batch = new_batch(engine);
  const char *const prompts[] = {kPrompt};
  const bonsai_generation *made = nullptr;
  succeed([&](auto failure) { return bonsai_batch_generate(batch.get(), prompts, 1, &options, &made, failure); });
  const GenerationHandle generation(made);
  ASSERT_EQ(generation->n_prompt_logprobs, 4u);
  for (size_t i = 0; i < 4; ++i) expect_equal(generation->prompt_logprobs[i], expected.prompt_logprobs[i]);
  for (size_t i = 0; i < 2; ++i) expect_equal(generation->logprobs[i], expected.logprobs[i]);
}

}  // namespace
}  // namespace bonsai::c
