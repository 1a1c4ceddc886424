// Generation: how it ends, what it reports, and what it must not depend on.
#include <gtest/gtest.h>

#include <stop_token>

#include "tests/host/engine/seedling.h"

namespace bonsai {
namespace {

TEST(Generate, EndsAfterTheTokensAskedFor) {
  const Generation generation = load_seedling().generate("Once upon a time", greedy(10));
  EXPECT_EQ(generation.finish, FinishReason::kLength);
  EXPECT_EQ(generation.tokens.size(), 10u);
  EXPECT_EQ(generation.stats.prompt_tokens, 5u);
  EXPECT_EQ(generation.stats.decode_steps, 9u);
}

TEST(Generate, EndsBeforeAStopString) {
  GenerateOptions options = greedy(48);
  options.stop = {"lived", "never there"};
  std::string streamed;
  const Generation generation = load_seedling().generate("Once upon a time", options, [&](std::string_view text) {
    streamed += text;
    return true;
  });
  EXPECT_EQ(generation.finish, FinishReason::kStopString);
  EXPECT_EQ(generation.stop, "lived");
  EXPECT_EQ(generation.text, ", in the middle of the forest, there ");
  EXPECT_EQ(streamed, generation.text);
}

// A text that ends within a character shows U+FFFD there.
TEST(Generate, EndsBeforeAStopStringThatItsEndCompletes) {
  const Engine engine = load_seedling();
  const std::vector<int32_t> snowman = engine.tokenize("\u2603");
  ASSERT_GT(snowman.size(), 1u);
  GenerateOptions options = greedy(1);
  options.sampling.logit_bias = {{snowman[0], 1000.0f}};
  const Generation within = engine.generate("Once", options);
  EXPECT_EQ(within.text, "\ufffd");
  EXPECT_EQ(within.finish, FinishReason::kLength);
  EXPECT_EQ(within.stop, "");
  options.stop = {"\ufffd"};
  const Generation stopped = engine.generate("Once", options);
  EXPECT_EQ(stopped.text, "");
  EXPECT_EQ(stopped.finish, FinishReason::kStopString);
  EXPECT_EQ(stopped.stop, "\ufffd");
}

// Biased towards it, the model ends its text at once; told to ignore the end, it cannot choose it.
TEST(Generate, EndsWhereTheModelDoesUnlessToldToIgnoreIt) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(5);
  options.sampling.logit_bias = {{4093, 1000.0f}};
  const Generation ended = engine.generate("Once upon a time", options);
  EXPECT_EQ(ended.finish, FinishReason::kEndOfText);
  EXPECT_EQ(ended.tokens.size(), 0u);
  EXPECT_EQ(ended.text, "");
  options.ignore_eos = true;
  const Generation continued = engine.generate("Once upon a time", options);
  EXPECT_EQ(continued.finish, FinishReason::kLength);
  EXPECT_EQ(continued.tokens, engine.generate("Once upon a time", greedy(5)).tokens);
}

TEST(Generate, EndsWhenTheContextIsFull) {
  EngineOptions options = seedling_options();
  options.context = 40;  // not a whole number of KV blocks
  const Engine engine = Engine::load(options);
  const Generation generation = engine.generate("Once upon a time", greedy(100));
  EXPECT_EQ(generation.finish, FinishReason::kContextFull);
  EXPECT_EQ(generation.tokens.size(), 35u);
  EXPECT_EQ(golden_greedy().text.rfind("Once upon a time" + generation.text, 0), 0u);
}

TEST(Generate, TheCallbackCanEndIt) {
  int n_calls = 0;
  const Generation generation =
      load_seedling().generate("Once upon a time", greedy(48), [&](std::string_view) { return ++n_calls < 3; });
  EXPECT_EQ(generation.finish, FinishReason::kCancelled);
  EXPECT_EQ(n_calls, 3);
  EXPECT_EQ(generation.text, ", in the");
}

TEST(Generate, AStopTokenCanEndItAndTheSessionGoesOn) {
  const Engine engine = load_seedling();
  Session session = engine.new_session();
  session.append("Once upon a time");
  std::stop_source stop;
  GenerateOptions options = greedy(48);
  options.cancel = stop.get_token();
  std::string text;
  const auto cancel_later = [&](std::string_view piece) {
    text += piece;
    if (text.size() > 20) stop.request_stop();
    return true;
  };
  EXPECT_EQ(session.generate(options, cancel_later).finish, FinishReason::kCancelled);
  const Generation at_once = session.generate(options);
  EXPECT_EQ(at_once.finish, FinishReason::kCancelled);
  EXPECT_EQ(at_once.tokens.size(), 0u);
  session.logits();  // which leave nothing to compute before the first token
  EXPECT_EQ(session.generate(options).tokens.size(), 0u);
  EXPECT_EQ("Once upon a time" + text + session.generate(greedy(48 - (session.length() - 5))).text,
            golden_greedy().text);
}

// With guesses and without: what is left of the tokens is counted where these are made.
TEST(Generate, OptionsThatTheCallbackChangesAreThoseOfTheNextOne) {
  const Engine engine = load_seedling();
  for (const bool lookup : {false, true}) {
    GenerateOptions options = greedy(24);
    options.lookup = lookup;
    const Generation expected = engine.generate("the King said to the King said", options);
    const Generation generation = engine.generate("the King said to the King said", options, [&](std::string_view) {
      options = greedy(1);
      return true;
    });
    EXPECT_EQ(generation.tokens, expected.tokens);
    EXPECT_EQ(generation.finish, expected.finish);
  }
}

TEST(Generate, EqualSeedsGiveEqualTextAndTheSeedIsReported) {
  const Engine engine = load_seedling();
  GenerateOptions options;
  options.max_tokens = 30;
  const Generation first = engine.generate("Once upon a time", options);
  options.sampling.seed = first.stats.seed;
  EXPECT_EQ(engine.generate("Once upon a time", options).tokens, first.tokens);
  options.sampling.seed = first.stats.seed + 1;
  EXPECT_NE(engine.generate("Once upon a time", options).tokens, first.tokens);
}

TEST(Generate, PenaltiesSeeThePrompt) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(1);
  const int32_t favourite = engine.generate("Once upon a time", options).tokens[0];
  options.sampling.presence_penalty = 100;
  Session session = engine.new_session();
  session.append_tokens(std::vector<int32_t>{4093, favourite, 2258, 640, 258, 518});
  EXPECT_NE(session.generate(options).tokens[0], favourite);
}

TEST(Generate, BiasAndPenaltiesLeaveTheModelsLogitsAlone) {
  Session session = load_seedling().new_session();
  session.append("Once upon a time");
  const std::vector<float> before = session.logits();
  GenerateOptions options = greedy(1);
  options.sampling.logit_bias = {{7, 50.0f}};
  session.generate(options);
  session.truncate(5);
  EXPECT_EQ(session.logits(), before);
}

TEST(Generate, TextIsWholeCharacters) {
  const Engine engine = load_seedling();
  GenerateOptions options;
  options.max_tokens = 60;
  options.sampling.temperature = 50;  // bytes of every kind
  options.sampling.top_k = 0;
  options.sampling.top_p = 1;
  options.sampling.seed = 3;
  const auto is_whole = [](std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore) ==
           nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  engine.generate("Once", options, [&](std::string_view text) {
    EXPECT_TRUE(is_whole(text)) << text;
    EXPECT_FALSE(text.empty());
    return true;
  });
}

TEST(Generate, RefusesOptionsThatMeanNothing) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(0);
  EXPECT_EQ(thrown_by([&] { engine.generate("x", options); }).message, "max_tokens: expected at least 1, found 0");
  options = {};
  options.sampling.top_p = -1;
  const Thrown thrown = thrown_by([&] { engine.generate("x", options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "top-p: expected a number from 0 to 1, found -1");
  options = {};
  options.stop = {"a", ""};
  EXPECT_EQ(thrown_by([&] { engine.generate("x", options); }).message, "stop: expected a text, found an empty one");
}

TEST(FinishReasons, HaveNames) {
  EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
  EXPECT_EQ(finish_reason_name(FinishReason::kEndOfText), "end_of_text");
  EXPECT_EQ(finish_reason_name(FinishReason::kStopString), "stop_string");
  EXPECT_EQ(finish_reason_name(FinishReason::kContextFull), "context_full");
  EXPECT_EQ(finish_reason_name(FinishReason::kCancelled), "cancelled");
}

}  // namespace
}  // namespace bonsai
