// Conversations that the caller keeps, through the C API: answered in a batch, they say what a chat says.
#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

#include "tests/host/c_api/batch_text.h"
#include "tests/host/c_api/handles.h"
#include "tests/model/tiny_model.h"

namespace bonsai::c {
namespace {

bonsai_message says(const char *role, const char *content) { return {role, content, nullptr, nullptr}; }

bonsai_outcome start(const BatchHandle &batch, const std::vector<bonsai_message> &messages,
                     const bonsai_chat_options *chat, const bonsai_generate_options &options, Text &text,
                     bonsai_failure *failure) {
  return bonsai_batch_start_chat(batch.get(), messages.data(), messages.size(), chat, &options, Text::receive,
                                 Text::done, &text, failure);
}

TEST(CBatchChat, SaysWhatAChatSays) {
  const EngineHandle engine = load();
  bonsai_chat_options options = chat_options();
  options.system = "You tell tales.";
  const ChatHandle chat = new_chat(engine, &options);
  const std::string first = text_of(send(chat, "Once upon a time", talk()));
  const GenerationHandle second = send(chat, "and then?", talk());
  const BatchHandle batch = new_batch(engine);
  Text texts[2];
  const std::vector<bonsai_message> beginning = {says("user", "Once upon a time")};
  std::vector<bonsai_message> whole = beginning;
  whole.insert(whole.end(), {says("assistant", first.c_str()), says("user", "and then?")});
  succeed([&](auto failure) { return start(batch, beginning, &options, talk(), texts[0], failure); });
  succeed([&](auto failure) { return start(batch, whole, &options, talk(), texts[1], failure); });
  ASSERT_NE(texts[0].wait(), nullptr);
  EXPECT_EQ(text_of(texts[0].wait()), first);
  EXPECT_EQ(texts[0].said(), first);
  ASSERT_NE(texts[1].wait(), nullptr);
  EXPECT_EQ(tokens_of(texts[1].wait()), tokens_of(second));
  EXPECT_EQ(texts[1].said(), text_of(second));
}

TEST(CBatchChat, TellsWhatWasThereAlready) {
  const EngineHandle engine = load();
  bonsai_batch_options batch_options = c::batch_options();
  batch_options.kv_tokens = 512;
  const BatchHandle batch = new_batch(engine, &batch_options);
  const std::string question(120, 'a');
  const std::vector<bonsai_message> messages = {says("user", question.c_str())};
  Text first, again;
  succeed([&](auto failure) { return start(batch, messages, nullptr, talk(), first, failure); });
  ASSERT_NE(first.wait(), nullptr);
  succeed([&](auto failure) { return start(batch, messages, nullptr, talk(), again, failure); });
  ASSERT_NE(again.wait(), nullptr);
  EXPECT_EQ(first.wait()->reused_tokens, 0u);
  EXPECT_GT(again.wait()->reused_tokens, 0u);
  EXPECT_EQ(again.wait()->reused_tokens + again.wait()->prompt_tokens, first.wait()->prompt_tokens);
  EXPECT_EQ(tokens_of(again.wait()), tokens_of(first.wait()));
}

constexpr const char *kToolTemplate =
    "{{ tools | tojson }}{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.reasoning_content }}{{ m.content }}"
    "{{ m.tool_calls | tojson if m.tool_calls }}{% endfor %}<|im_start|>";

test::TinyModel with_template(const char *text) {
  test::TinyModel model;
  model.metadata = [text](gguf::Writer &writer) { writer.set_string("tokenizer.chat_template", text); };
  return model;
}

// A tiny model that can only think and call a tool.
TEST(CBatchChat, ReasoningAndCallsArePiecesOfTheirOwn) {
  const test::TinyModelFile file(with_template(kToolTemplate));
  const EngineHandle engine = load(options_for(file.path().c_str()));
  const BatchHandle batch = new_batch(engine);
  bonsai_chat_options chat = chat_options();
  chat.tools = R"([{"name": "f"}])";
  bonsai_generate_options options = greedily(100);
  options.grammar = R"(root ::= "<think>Well.</think>Hm.<tool_call>{\"name\": \"f\"}</tool_call>")";
  Text text;
  succeed([&](auto failure) { return start(batch, {says("user", "go")}, &chat, options, text, failure); });
  const GenerationHandle &generation = text.wait();
  ASSERT_NE(generation, nullptr);
  EXPECT_EQ(text.said(BONSAI_PIECE_TEXT), "Hm.");
  EXPECT_EQ(text.said(BONSAI_PIECE_REASONING), "Well.");
  EXPECT_EQ(text.said(BONSAI_PIECE_TOOL_CALL), R"({"name":"f","arguments":{}})");
  EXPECT_EQ(text_of(generation), "Hm.");
  EXPECT_EQ(reasoning_of(generation), "Well.");
  EXPECT_STREQ(generation->tool_calls, R"([{"name":"f","arguments":{}}])");
}

TEST(CBatchChat, AnAnswerThatHasAFormIsNotThoughtAbout) {
  const test::TinyModelFile file(with_template("{% for m in messages %}{{ m.content }}{% endfor %}<think>"));
  const BatchHandle batch = new_batch(load(options_for(file.path().c_str())));
  bonsai_generate_options options = greedily(100);
  options.grammar = R"(root ::= "Hm.")";
  Text text;
  succeed([&](auto failure) { return start(batch, {says("user", "go")}, nullptr, options, text, failure); });
  ASSERT_NE(text.wait(), nullptr);
  EXPECT_EQ(text_of(text.wait()), "Hm.");
  EXPECT_EQ(reasoning_of(text.wait()), "");
}

TEST(CBatchChat, ACallbackThatWantsNoMoreEndsTheAnswer) {
  const BatchHandle batch = new_batch(load());
  Text text;
  text.end_at = 2;
  succeed([&](auto failure) { return start(batch, {says("user", "Once")}, nullptr, talk(64), text, failure); });
  ASSERT_NE(text.wait(), nullptr);
  EXPECT_EQ(text.wait()->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(text_of(text.wait()), text.said());
}

std::string template_text(const EngineHandle &engine, const std::vector<bonsai_message> &messages,
                          const bonsai_chat_options *options) {
  uint64_t n = 0;
  std::vector<int32_t> tokens;
  for (int call = 0; call < 2; ++call) {
    tokens.resize(n);
    succeed([&](auto failure) {
      return bonsai_engine_apply_template(engine.get(), messages.data(), messages.size(), options, tokens.data(),
                                          tokens.size(), &n, failure);
    });
  }
  std::string text(16 * n + 16, '\0');
  succeed([&](auto failure) {
    return bonsai_engine_detokenize(engine.get(), tokens.data(), tokens.size(), text.data(), text.size(), &n, failure);
  });
  text.resize(n);
  return text;
}

TEST(CBatchChat, ATemplateGetsAllOfTheMessages) {
  const test::TinyModelFile file(with_template(kToolTemplate));
  const EngineHandle engine = load(options_for(file.path().c_str()));
  bonsai_chat_options options = chat_options();
  options.tools = R"([{"name": "f"}])";
  options.system = "be brief";
  const std::vector<bonsai_message> messages = {
      says("user", "go"), {"assistant", "so", "hm", R"([{"name": "f", "arguments": {}}])"}, says("tool", nullptr)};
  EXPECT_EQ(template_text(engine, messages, &options),  // control tokens have no text
            R"([{"name": "f"}]system: be briefuser: goassistant: hmso)"
            R"([{"type": "function", "function": {"name": "f", "arguments": {}}}]tool: )");
}

TEST(CBatchChat, WhatIsWrongIsSaidAtOnce) {
  const EngineHandle engine = load();
  const BatchHandle batch = new_batch(engine);
  Text text;
  const auto refused = [&](const std::string &message, const std::vector<bonsai_message> &messages) {
    expect_failure(BONSAI_BAD_ARGUMENT, message,
                   [&](auto failure) { return start(batch, messages, nullptr, talk(), text, failure); });
  };
  refused("empty conversation: there is no message to answer", {});
  refused("role: expected one, found NULL", {says(nullptr, "hello")});
  refused("message: invalid UTF-8 at byte offset 0", {says("user", "\xff")});
  refused("tool_calls: not JSON", {{"assistant", "", nullptr, "["}});
  expect_failure(BONSAI_BAD_ARGUMENT, "messages: expected 1, found NULL", [&](auto failure) {
    return bonsai_batch_start_chat(batch.get(), nullptr, 1, nullptr, nullptr, nullptr, Text::done, &text, failure);
  });
  const bonsai_message message = says("user", "hello");
  expect_failure(BONSAI_BAD_ARGUMENT, "done: expected one, found NULL", [&](auto failure) {
    return bonsai_batch_start_chat(batch.get(), &message, 1, nullptr, nullptr, nullptr, nullptr, &text, failure);
  });
  expect_failure(BONSAI_BAD_ARGUMENT, "batch: expected one, found NULL", [&](auto failure) {
    return bonsai_batch_start_chat(nullptr, &message, 1, nullptr, nullptr, nullptr, Text::done, &text, failure);
  });
  uint64_t n = 0;
  expect_failure(BONSAI_BAD_ARGUMENT, "engine: expected one, found NULL", [&](auto failure) {
    return bonsai_engine_apply_template(nullptr, &message, 1, nullptr, nullptr, 0, &n, failure);
  });
  expect_failure(BONSAI_BAD_ARGUMENT, "n: expected one, found NULL", [&](auto failure) {
    return bonsai_engine_apply_template(engine.get(), &message, 1, nullptr, nullptr, 0, nullptr, failure);
  });
  EXPECT_FALSE(text.has_ended());
}

}  // namespace
}  // namespace bonsai::c
