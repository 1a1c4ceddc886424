// Conversations that the caller keeps, through the C API: answered in a batch, they say what a chat says.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
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

// Starts texts with its first piece until the batch, which is being freed, takes no more, and then a chat.
struct StartingWhileFreed {
  BatchHandle batch;
  std::promise<void> has_begun;
  bool has_tried = false;
  Report report;

  static int32_t go_on(void *, bonsai_piece, const char *, uint64_t) { return 0; }
  static void end(void *, const bonsai_generation *generation, const bonsai_failure *) {
    bonsai_generation_free(generation);
  }

  static int32_t receive(void *context, bonsai_piece, const char *, uint64_t) {
    auto &self = *static_cast<StartingWhileFreed *>(context);
    if (std::exchange(self.has_tried, true)) return 0;
    bonsai_batch_engine *batch = self.batch.get();
    self.has_begun.set_value();
    const bonsai_message message = says("user", "hello");
    const auto start_text = [&] {
      return bonsai_batch_start(batch, kPrompt, BONSAI_TO_NUL, nullptr, go_on, end, nullptr, nullptr);
    };
    while (start_text() == BONSAI_SUCCESS) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    self.report = report_of([&](bonsai_failure *failure) {
      return bonsai_batch_start_chat(batch, &message, 1, nullptr, nullptr, go_on, end, nullptr, failure);
    });
    return 0;
  }
};

// A batch's chat template is there as long as callbacks are, whether it has been read before or not.
TEST(CBatchChat, IsRefusedInACallbackWhileTheBatchIsFreed) {
  const EngineHandle engine = load();
  for (const bool has_read : {false, true}) {
    SCOPED_TRACE(has_read);
    StartingWhileFreed starting = {.batch = new_batch(engine), .has_begun = {}, .report = {}};
    const bonsai_generate_options options = talk();
    const bonsai_message message = says("user", "hello");
    succeed([&](bonsai_failure *failure) {
      if (has_read) {
        return bonsai_batch_start_chat(starting.batch.get(), &message, 1, nullptr, &options,
                                       StartingWhileFreed::receive, StartingWhileFreed::end, &starting, failure);
      }
      return bonsai_batch_start(starting.batch.get(), kPrompt, BONSAI_TO_NUL, &options, StartingWhileFreed::receive,
                                StartingWhileFreed::end, &starting, failure);
    });
    starting.has_begun.get_future().wait();
    bonsai_batch_free(starting.batch.get());
    starting.batch.release();
    EXPECT_EQ(starting.report.outcome, uint32_t{BONSAI_BAD_ARGUMENT});
    EXPECT_EQ(starting.report.message, "the batch engine is being destroyed: it takes no more requests");
  }
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
