// Sessions through the C API.
#include <gtest/gtest.h>

#include "tests/host/c_api/handles.h"

namespace bonsai::c {
namespace {

std::vector<int32_t> tokens_in(const SessionHandle &session) {
  std::vector<int32_t> tokens(bonsai_session_length(session.get()));
  uint64_t n = 0;
  succeed(
      [&](auto failure) { return bonsai_session_tokens(session.get(), tokens.data(), tokens.size(), &n, failure); });
  EXPECT_EQ(n, tokens.size());
  return tokens;
}

std::vector<float> logits_of(const SessionHandle &session) {
  std::vector<float> logits(4096);
  succeed([&](auto failure) { return bonsai_session_logits(session.get(), logits.data(), logits.size(), failure); });
  return logits;
}

void truncate(const SessionHandle &session, uint32_t length) {
  succeed([&](auto failure) { return bonsai_session_truncate(session.get(), length, failure); });
}

TEST(CSession, GoesOnWhereItWas) {
  const EngineHandle engine = load();
  const SessionHandle session = new_session(engine);
  EXPECT_EQ(bonsai_session_length(session.get()), 0u);
  EXPECT_EQ(bonsai_session_room(session.get()), 1024u);
  succeed([&](auto failure) { return bonsai_session_append(session.get(), "Once", BONSAI_TO_NUL, failure); });
  succeed([&](auto failure) { return bonsai_session_append(session.get(), " upon a time", 12, failure); });
  EXPECT_EQ(tokens_in(session), (std::vector<int32_t>{4093, 2258, 640, 258, 518}));
  std::string text;
  for (int i = 0; i < 6; ++i) text += text_of(generate(session, greedily(4)));
  EXPECT_EQ(text, load_seedling().generate("Once upon a time", greedy(24)).text);
  EXPECT_EQ(bonsai_session_length(session.get()), 29u);
  EXPECT_EQ(bonsai_session_room(session.get()), 995u);
}

TEST(CSession, MayBeFreedByItsCallback) {
  const EngineHandle engine = load();
  SessionHandle session = new_session(engine, "Once upon a time");
  const GenerationHandle generation = generated([&](auto to, auto failure) {
    const bonsai_generate_options options = greedily(6);
    return bonsai_session_generate(session.get(), &options, free_handle<SessionHandle>, &session, to, failure);
  });
  EXPECT_EQ(text_of(generation), load_seedling().generate("Once upon a time", greedy(6)).text);
}

TEST(CSession, TakesTokensAndForgetsThem) {
  const EngineHandle engine = load();
  const SessionHandle session = new_session(engine);
  const std::vector<int32_t> prompt = {4093, 2258, 640, 258, 518};
  succeed(
      [&](auto failure) { return bonsai_session_append_tokens(session.get(), prompt.data(), prompt.size(), failure); });
  const std::string first = text_of(generate(session, greedily(20)));
  truncate(session, 5);
  EXPECT_EQ(tokens_in(session), prompt);
  EXPECT_EQ(text_of(generate(session, greedily(20))), first);
  truncate(session, 1000);
  EXPECT_EQ(bonsai_session_length(session.get()), 25u);
  truncate(session, 0);
  EXPECT_EQ(bonsai_session_length(session.get()), 0u);
}

TEST(CSession, ItsTokensFillWhatThereIsRoomFor) {
  const SessionHandle session = new_session(load(), "Once upon a time");
  uint64_t n = 0;
  succeed([&](auto failure) { return bonsai_session_tokens(session.get(), nullptr, 0, &n, failure); });
  EXPECT_EQ(n, 5u);
  std::vector<int32_t> tokens(7, -1);
  succeed([&](auto failure) { return bonsai_session_tokens(session.get(), tokens.data(), 2, &n, failure); });
  EXPECT_EQ(n, 5u);
  EXPECT_EQ(tokens, (std::vector<int32_t>{4093, 2258, -1, -1, -1, -1, -1}));
}

TEST(CSession, ItsLogitsAreThoseOfTheCxxApi) {
  Session expected = load_seedling().new_session();
  expected.append("Once upon a time");
  const SessionHandle session = new_session(load(), "Once upon a time");
  EXPECT_EQ(logits_of(session), expected.logits());
  std::vector<float> logits(4095);
  expect_failure(BONSAI_BAD_ARGUMENT, "capacity: expected at least 4096, found 4095", [&](auto failure) {
    return bonsai_session_logits(session.get(), logits.data(), logits.size(), failure);
  });
}

TEST(CSession, SavedAndLoadedItComputesNothingAgain) {
  const ScratchFile file("session");
  const EngineHandle engine = load();
  const SessionHandle session = new_session(engine, "Once upon a time");
  generate(session, greedily(40));
  succeed([&](auto failure) { return bonsai_session_save(session.get(), file.c_str(), failure); });
  const std::string expected = text_of(generate(session, greedily(30)));
  const SessionHandle other = new_session(load(), "something else that loading replaces");
  succeed([&](auto failure) { return bonsai_session_load(other.get(), file.c_str(), failure); });
  const GenerationHandle generation = generate(other, greedily(30));
  EXPECT_EQ(text_of(generation), expected);
  EXPECT_EQ(generation->prompt_tokens, 1u);
}

TEST(CSessionRefuses, FilesThatAreNoSessions) {
  const SessionHandle session = new_session(load(), "Once upon a time");
  expect_failure(BONSAI_BAD_ARGUMENT, "/nowhere/x: cannot open: No such file or directory",
                 [&](auto failure) { return bonsai_session_load(session.get(), "/nowhere/x", failure); });
  expect_failure(BONSAI_BAD_ARGUMENT, "/nowhere/x: cannot create a file in /nowhere: No such file or directory",
                 [&](auto failure) { return bonsai_session_save(session.get(), "/nowhere/x", failure); });
  expect_failure(BONSAI_BAD_ARGUMENT, seedling_file() + ": not a session file",
                 [&](auto failure) { return bonsai_session_load(session.get(), seedling_file().c_str(), failure); });
  EXPECT_EQ(bonsai_session_length(session.get()), 5u);
}

TEST(CSessionRefuses, WhatDoesNotFitOrCannotBe) {
  bonsai_engine_options options = seedling();
  options.context = 40;
  const SessionHandle session = new_session(load(options));
  const std::vector<int32_t> tokens(41, 258);
  expect_failure(BONSAI_BAD_ARGUMENT, "empty session: there is nothing to continue", [&](auto failure) {
    return bonsai_session_generate(session.get(), nullptr, nullptr, nullptr, nullptr, failure);
  });
  expect_failure(
      BONSAI_CONTEXT_FULL, "context full: 41 tokens to add, room for 40 (context 40, used 0)",
      [&](auto failure) { return bonsai_session_append_tokens(session.get(), tokens.data(), tokens.size(), failure); });
  expect_failure(BONSAI_BAD_ARGUMENT, "no tokens: expected at least one",
                 [&](auto failure) { return bonsai_session_append_tokens(session.get(), nullptr, 0, failure); });
  const int32_t beyond = 4096;
  expect_failure(BONSAI_BAD_ARGUMENT, "token id 4096 is outside the vocabulary of 4096",
                 [&](auto failure) { return bonsai_session_append_tokens(session.get(), &beyond, 1, failure); });
  expect_failure(BONSAI_BAD_ARGUMENT, "invalid UTF-8 at byte offset 1",
                 [&](auto failure) { return bonsai_session_append(session.get(), "x\xff", 2, failure); });
  EXPECT_EQ(bonsai_session_length(session.get()), 0u);
  succeed([&](auto failure) { return bonsai_session_append_tokens(session.get(), tokens.data(), 40, failure); });
  EXPECT_EQ(bonsai_session_room(session.get()), 0u);
  expect_failure(BONSAI_CONTEXT_FULL, "context full: all 40 tokens are used, no room to continue", [&](auto failure) {
    return bonsai_session_generate(session.get(), nullptr, nullptr, nullptr, nullptr, failure);
  });
}

// The outcome that is left for what has no other; and no exception leaves the library.
TEST(CSessionRefuses, ATextLongerThanAnyMemory) {
  const ChatHandle chat = new_chat(load());
  const Report report =
      report_of([&](auto failure) { return bonsai_chat_add(chat.get(), "user", "x", BONSAI_TO_NUL - 1, failure); });
  EXPECT_EQ(report.outcome, uint32_t{BONSAI_BAD_ARGUMENT}) << report.message;
  EXPECT_NE(report.message, "");
}

}  // namespace
}  // namespace bonsai::c
