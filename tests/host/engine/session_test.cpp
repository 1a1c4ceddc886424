// Sessions: what they hold, what fits, and that nothing depends on how it came in.
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tests/host/engine/seedling.h"

namespace bonsai {
namespace {

// Some hundred tokens that are no special ones.
std::vector<int32_t> some_tokens(size_t n) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(static_cast<int32_t>((i * 7919 + 13) % 4000));
  return tokens;
}

TEST(Session, BosComesFirstAndOnce) {
  Session session = load_seedling().new_session();
  session.append("Once");
  session.append(" upon");
  EXPECT_EQ(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()),
            (std::vector<int32_t>{4093, 2258, 640}));
  EXPECT_EQ(session.length(), 3u);
  EXPECT_EQ(session.room(), 1021u);
}

TEST(Session, AnEmptyTextIsBosAtTheStartAndNothingLater) {
  Session session = load_seedling().new_session();
  session.append("");
  EXPECT_EQ(session.length(), 1u);
  session.append("");
  EXPECT_EQ(session.length(), 1u);
}

TEST(Session, LogitsDoNotDependOnTheChunksOfAPrompt) {
  const Engine engine = load_seedling();
  const std::vector<int32_t> tokens = some_tokens(700);  // more than one batch
  Session whole = engine.new_session(), pieces = engine.new_session(), rows = engine.new_session();
  whole.append_tokens(tokens);
  const std::vector<float> expected = whole.logits();
  for (size_t at = 0, n = 1; at < tokens.size(); at += n, n = n * 3 % 101) {
    n = std::min(n, tokens.size() - at);
    pieces.append_tokens(std::span(tokens).subspan(at, n));
    pieces.logits();
  }
  EXPECT_EQ(pieces.logits(), expected);
  size_t n_rows = 0;
  rows.evaluate(tokens, [&](size_t index, std::span<const float> logits) {
    EXPECT_EQ(index, n_rows++);
    EXPECT_EQ(logits.size(), 4096u);
  });
  EXPECT_EQ(n_rows, tokens.size());
  EXPECT_EQ(rows.logits(), expected);
}

// A callback runs in the middle of a call that goes on behind it.
TEST(Session, CallbacksMayNotChangeTheirSession) {
  const Engine engine = load_seedling();
  Session session = engine.new_session();
  session.append("Once upon a time");
  const std::string expected = engine.generate("Once upon a time", greedy(6)).text;
  const std::vector<std::pair<const char *, std::function<void()>>> changes = {
      {"append", [&] { session.append("x"); }},
      {"append_tokens", [&] { session.append_tokens(some_tokens(1)); }},
      {"truncate", [&] { session.truncate(0); }},
      {"load", [&] { session.load("nowhere"); }},
      {"save", [&] { session.save("nowhere"); }},
      {"generate", [&] { session.generate(greedy(1)); }},
      {"logits", [&] { session.logits(); }},
      {"evaluate", [&] { session.evaluate(some_tokens(1), [](size_t, std::span<const float>) {}); }}};
  const auto expect_refusals = [&] {
    for (const auto &[name, change] : changes) {
      const Thrown thrown = thrown_by(change);
      EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument) << name;
      EXPECT_EQ(thrown.message, "the session is in the middle of a call, whose callback may not change it") << name;
    }
  };
  const Generation generation = session.generate(greedy(6), [&](std::string_view) {
    expect_refusals();
    return true;
  });
  EXPECT_EQ(generation.text, expected);
  session.evaluate(some_tokens(2), [&](size_t, std::span<const float>) { expect_refusals(); });
  const uint32_t length = session.length();
  EXPECT_THROW(session.generate(greedy(6), [](std::string_view) -> bool { throw std::runtime_error("enough"); }),
               std::runtime_error);
  session.truncate(length);  // it is idle again
}

// Promise: the call goes on as if nothing had happened. What is computed meanwhile would get hold of what the session
// has, were that given back.
TEST(Session, MayBeDestroyedByItsCallback) {
  const Engine engine = load_seedling();
  const std::string expected = engine.generate("Once upon a time", greedy(6)).text;
  const std::string other = engine.generate("The wolf", greedy(6)).text;
  auto session = std::make_unique<Session>(engine.new_session());
  session->append("Once upon a time");
  const Generation generation = session->generate(greedy(6), [&](std::string_view) {
    session.reset();
    EXPECT_EQ(engine.generate("The wolf", greedy(6)).text, other);
    return true;
  });
  EXPECT_EQ(generation.text, expected);

  auto rows = std::make_unique<Session>(engine.new_session());
  std::vector<float> logits;
  rows->evaluate(engine.tokenize("The wolf"), [&](size_t, std::span<const float> row) {
    rows.reset();
    logits.assign(row.begin(), row.end());
  });
  Session whole = engine.new_session();
  whole.append_tokens(engine.tokenize("The wolf"));
  EXPECT_EQ(logits, whole.logits());
}

TEST(Session, MayBeAssignedToByItsCallback) {
  const Engine engine = load_seedling();
  const std::string expected = engine.generate("Once upon a time", greedy(6)).text;
  Session session = engine.new_session();
  session.append("Once upon a time");
  const Generation generation = session.generate(greedy(6), [&](std::string_view) {
    session = engine.new_session();
    return true;
  });
  EXPECT_EQ(generation.text, expected);
  EXPECT_EQ(session.length(), 0u);
  session.append("Once upon a time");
  EXPECT_EQ(session.generate(greedy(6)).text, expected);
}

TEST(Session, TruncatingGoesBackInTime) {
  const Engine engine = load_seedling();
  Session session = engine.new_session();
  session.append("Once upon a time");
  const std::vector<float> before = session.logits();
  const Generation first = session.generate(greedy(20));
  EXPECT_EQ(session.length(), 25u);
  session.truncate(5);
  EXPECT_EQ(session.logits(), before);
  EXPECT_EQ(session.generate(greedy(20)).text, first.text);
  session.truncate(1000);
  EXPECT_EQ(session.length(), 25u);
  session.truncate(0);
  session.append("Once upon a time");
  EXPECT_EQ(session.generate(greedy(20)).text, first.text);
}

TEST(Session, GeneratingInStepsIsGeneratingAtOnce) {
  const Engine engine = load_seedling();
  Session steps = engine.new_session();
  steps.append("Once upon a time");
  std::string text;
  for (int i = 0; i < 6; ++i) text += steps.generate(greedy(4)).text;
  EXPECT_EQ(text, engine.generate("Once upon a time", greedy(24)).text);
}

TEST(Session, ACallbackThatThrowsLeavesItUsable) {
  const Engine engine = load_seedling();
  Session session = engine.new_session();
  EXPECT_THROW(session.evaluate(some_tokens(10), [](size_t, std::span<const float>) { throw 1; }), int);
  Session other = engine.new_session();
  other.append_tokens(some_tokens(10));
  EXPECT_EQ(session.logits(), other.logits());
}

TEST(SessionRefuses, TokensOutsideTheVocabulary) {
  Session session = load_seedling().new_session();
  for (const int32_t token : {4096, -1}) {
    const Thrown thrown = thrown_by([&] { session.append_tokens(std::vector<int32_t>{1, token}); });
    EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(thrown.message, "token id " + std::to_string(token) + " is outside the vocabulary of 4096");
  }
  EXPECT_EQ(session.length(), 0u);
}

TEST(SessionRefuses, AnEmptyBatch) {
  Session session = load_seedling().new_session();
  EXPECT_EQ(thrown_by([&] { session.append_tokens({}); }).message, "no tokens: expected at least one");
}

TEST(SessionRefuses, WhatDoesNotFit) {
  EngineOptions options = seedling_options();
  options.context = 40;
  Session session = Engine::load(options).new_session();
  session.append_tokens(some_tokens(30));
  const Thrown thrown = thrown_by([&] { session.append_tokens(some_tokens(11)); });
  EXPECT_EQ(thrown.kind, ErrorKind::kContextFull);
  EXPECT_EQ(thrown.message, "context full: 11 tokens to add, room for 10 (context 40, used 30)");
  EXPECT_EQ(session.length(), 30u);
  session.append_tokens(some_tokens(10));
  EXPECT_EQ(session.logits().size(), 4096u);
  const Thrown full = thrown_by([&] { session.generate(greedy(1)); });
  EXPECT_EQ(full.kind, ErrorKind::kContextFull);
  EXPECT_EQ(full.message, "context full: all 40 tokens are used, no room to continue");
}

TEST(SessionRefuses, ToContinueNothing) {
  Session session = load_seedling().new_session();
  EXPECT_EQ(thrown_by([&] { session.generate(greedy(1)); }).message, "empty session: there is nothing to continue");
  EXPECT_EQ(thrown_by([&] { session.logits(); }).message, "empty session: there is no token to follow");
}

}  // namespace
}  // namespace bonsai
