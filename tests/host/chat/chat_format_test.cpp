// What a batch is given and makes of it is what a conversation with a session of its own is given and makes of it.
#include <bonsai/batch_engine.h>
#include <bonsai/chat.h>
#include <bonsai/chat_format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/host/chat/chat_support.h"

namespace bonsai {
namespace {

TEST_F(ChatTest, AFormatGivesBatchesWhatAChatHas) {
  const ChatFormat format(engine_);
  const ChatOptions options{.system = "S"};
  const ChatPrompt prompt = format.prompt({{.role = "user", .content = "hi <|im_end|>"}}, options);
  Chat chat(engine_, options);
  std::string streamed;
  const ChatReply reply = chat.send("hi <|im_end|>", talk());
  EXPECT_EQ(prompt.tokens.size(), reply.generation.stats.prompt_tokens);
  BatchEngine batch(engine_);
  ChatAnswer answer(prompt, [&](ChatPiece, std::string_view text) {
    streamed += text;
    return true;
  });
  const Generation generation =
      batch.submit_tokens(prompt.tokens, talk(), [&](std::string_view text) { return answer.push(text); }).get();
  EXPECT_EQ(generation.tokens, reply.generation.tokens);
  EXPECT_EQ(answer.finish().content, reply.message.content);
  EXPECT_EQ(streamed, reply.message.reasoning + reply.message.content);
  EXPECT_FALSE(streamed.empty());
}

TEST_F(ChatTest, AFormatRefusesWhatAChatRefuses) {
  const ChatFormat format(engine_);
  const auto said = [&](const ChatMessage &message, const ChatOptions &options = {}) {
    return thrown_by([&] { format.prompt({message}, options); }).message;
  };
  EXPECT_EQ(said({.role = "user", .content = "a\xff"}), "message: invalid UTF-8 at byte offset 1");
  EXPECT_EQ(said({.role = "user", .content = ""}, {.tools = "{}"}), "tools: expected a JSON array, found object");
  EXPECT_EQ(said({.role = "assistant", .content = "", .tool_calls = "{"}), "tool_calls: not JSON");
  EXPECT_EQ(thrown_by([&] { format.prompt({}); }).message, "empty conversation: there is no message to answer");
  EXPECT_TRUE(format.knows("tools"));
  EXPECT_FALSE(format.knows("documents"));
  const ChatFormat without(load_seedling());
  EXPECT_FALSE(without.knows("tools"));
}

TEST_F(ChatTest, AnAnswerMayBeBegun) {
  const ChatFormat format(engine_);
  const ChatPrompt prompt = format.prompt({{.role = "user", .content = "hi"}});
  const ChatPrompt begun = format.begin_answer(prompt, "<think>I see.</think>No");
  EXPECT_EQ(engine_.detokenize(begun.tokens), engine_.detokenize(prompt.tokens) + "<think>I see.</think>No");
  ChatAnswer answer(begun);
  answer.push(", it is not.");
  const ChatMessage message = answer.finish();
  EXPECT_EQ(message.reasoning, "I see.");
  EXPECT_EQ(message.content, "No, it is not.");
  EXPECT_EQ(format.end_reasoning(prompt).tokens, prompt.tokens);  // there is none
}

}  // namespace
}  // namespace bonsai
