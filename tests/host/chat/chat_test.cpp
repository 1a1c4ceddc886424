// bonsai::Chat on a tiny random model: what it says is noise, what it is given is not.
#include <bonsai/chat.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tests/host/chat/chat_support.h"

namespace bonsai {
namespace {

TEST_F(ChatTest, TheModelReadsTheWholeConversationInItsTemplate) {
  chat_.set_system("S");
  const ChatReply reply = chat_.send("hi", talk());
  EXPECT_EQ(reply.message.role, "assistant");
  EXPECT_EQ(reply.generation.finish, FinishReason::kLength);
  ASSERT_EQ(chat_.messages().size(), 2u);
  EXPECT_EQ(chat_.messages()[1].content, reply.message.content);
  EXPECT_EQ(chat_.rendered(), "<|im_start|>system:S<|im_end|><|im_start|>user:hi<|im_end|><|im_start|>assistant:" +
                                  reply.message.content + "<|im_end|><|im_start|>a:");
  chat_.reset();
  EXPECT_EQ(chat_.rendered(), "<|im_start|>system:S<|im_end|><|im_start|>a:");
}

TEST_F(ChatTest, PiecesAddUpToTheAnswer) {
  std::string streamed;
  const ChatReply reply = chat_.send("hi", talk(), [&](ChatPiece kind, std::string_view text) {
    EXPECT_EQ(kind, ChatPiece::kContent);
    streamed += text;
    return true;
  });
  EXPECT_EQ(streamed, reply.message.content);
  EXPECT_FALSE(streamed.empty());
}

TEST_F(ChatTest, ThinkingIsTheTemplatesToSwitch) {
  EXPECT_EQ(chat_.rendered(), "<|im_start|>a:");
  chat_.set_enable_thinking(false);
  EXPECT_EQ(chat_.rendered(), "<|im_start|>a:<think></think>");
  chat_.set_enable_thinking(true);
  EXPECT_EQ(chat_.rendered(), "<|im_start|>a:");
}

TEST_F(ChatTest, ThinkingStaysAsItWasWhereAWarningIsThrown) {
  const test::TinyModelFile file(model_with("{{ messages[0].content }}"));  // knows nothing of thinking
  EngineOptions options;
  options.model = file.path();
  bool throws = false;
  options.log = [&](auto...) {
    if (throws) throw std::runtime_error("no more");
  };
  const Engine engine = Engine::load(options);
  Chat chat(engine);
  throws = true;
  EXPECT_THROW(chat.set_enable_thinking(false), std::runtime_error);
  EXPECT_EQ(chat.options().enable_thinking, std::nullopt);
}

TEST_F(ChatTest, WhatTheSessionHoldsIsNotComputedAgainAndChangesNothing) {
  const ChatReply first = chat_.send("a long first message, to be reused", talk());
  EXPECT_EQ(first.reused_tokens, 0u);
  const uint32_t n_first = first.generation.stats.prompt_tokens;
  const ChatReply second = chat_.send("and more", talk());
  // The template opens an answer with "a:" and shows a past one as "assistant:".
  EXPECT_GE(second.reused_tokens, n_first - 3);

  Chat other(engine_);
  for (const ChatMessage &message : chat_.messages().first(3)) other.add(message);
  const ChatReply afresh = other.respond(talk());
  EXPECT_EQ(afresh.reused_tokens, 0u);
  EXPECT_EQ(afresh.generation.stats.prompt_tokens, second.generation.stats.prompt_tokens + second.reused_tokens);
  EXPECT_EQ(afresh.generation.tokens, second.generation.tokens);
}

TEST_F(ChatTest, RegenerateTakesTheAnswersPlace) {
  const ChatReply first = chat_.send("hi", talk());
  const ChatReply again = chat_.regenerate(talk());
  EXPECT_EQ(again.generation.tokens, first.generation.tokens);
  EXPECT_EQ(again.generation.stats.prompt_tokens, 1u);
  EXPECT_EQ(chat_.messages().size(), 2u);
  chat_.reset();
  EXPECT_EQ(thrown_by([&] { chat_.regenerate(talk()); }).message, "empty conversation: there is no message to answer");
}

TEST_F(ChatTest, RegenerateTakesThePlaceOfNoMoreThanTheLastAnswer) {
  chat_.add({.role = "user", .content = "hi"});
  chat_.add({.role = "assistant", .content = "mine"});
  chat_.respond(talk());
  chat_.regenerate(talk());
  ASSERT_EQ(chat_.messages().size(), 3u);
  EXPECT_EQ(chat_.messages()[1].content, "mine");
}

TEST_F(ChatTest, CallbacksMayNotChangeTheirChat) {
  const std::string expected = chat_.send("hi", talk()).message.content;
  chat_.reset();
  const ChatReply reply = chat_.send("hi", talk(), [&](ChatPiece, std::string_view) {
    const std::vector<std::function<void()>> changes = {[&] { chat_.send("x", talk()); },
                                                        [&] { chat_.regenerate(talk()); },
                                                        [&] { chat_.respond(talk()); },
                                                        [&] { chat_.add({.role = "user", .content = "x"}); },
                                                        [&] { chat_.reset(); },
                                                        [&] { chat_.set_system("x"); },
                                                        [&] { chat_.load("{}"); },
                                                        [&] { chat_.set_enable_thinking(false); },
                                                        [&] { chat_.save(); },
                                                        [&] { chat_.save_session("none"); },
                                                        [&] { chat_.load_session("none"); }};
    for (const auto &change : changes) {
      EXPECT_EQ(thrown_by(change).message, "the chat is in the middle of a call, whose callback may not change it");
    }
    return true;
  });
  EXPECT_EQ(reply.message.content, expected);
  EXPECT_EQ(chat_.messages().size(), 2u);
  EXPECT_EQ(chat_.send("more", talk()).message.role, "assistant");
}

TEST_F(ChatTest, MayBeDestroyedOrAssignedToByItsCallback) {
  const std::string expected = Chat(engine_).send("hi", talk()).message.content;
  auto chat = std::make_unique<Chat>(engine_);
  const auto ask = [&](auto &whose, const std::function<void()> &change) {
    return whose
        .send("hi", talk(),
              [&](ChatPiece, std::string_view) {
                change();
                return true;
              })
        .message.content;
  };
  EXPECT_EQ(ask(*chat, [&] { chat.reset(); }), expected);
  EXPECT_EQ(ask(chat_, [&] { chat_ = Chat(engine_); }), expected);
  EXPECT_EQ(chat_.messages().size(), 0u);
  EXPECT_EQ(chat_.send("hi", talk()).message.content, expected);
}

TEST_F(ChatTest, AnAnswerThatIsStoppedStaysAsFarAsItCame) {
  int n_pieces = 0;
  const ChatReply reply = chat_.send("hi", talk(50), [&](ChatPiece, std::string_view) { return ++n_pieces < 3; });
  EXPECT_EQ(reply.generation.finish, FinishReason::kCancelled);
  ASSERT_EQ(chat_.messages().size(), 2u);
  EXPECT_EQ(chat_.messages()[1].content, reply.message.content);
  EXPECT_FALSE(reply.message.content.empty());
}

TEST_F(ChatTest, AMessageThatIsStoppedBeforeItsAnswerIsTakenBack) {
  chat_.send("first", talk());
  std::stop_source stop;
  stop.request_stop();
  GenerateOptions options = talk();
  options.cancel = stop.get_token();
  EXPECT_EQ(chat_.send("second", options).generation.finish, FinishReason::kCancelled);
  EXPECT_EQ(chat_.messages().size(), 2u);
  // Nor does the answer that was to be replaced get lost.
  chat_.regenerate(options);
  EXPECT_EQ(chat_.messages().size(), 2u);
}

TEST_F(ChatTest, AConversationThatDoesNotFitSaysSoInWordsAndStaysAsItWas) {
  chat_.send("hi", talk());
  const std::string before = chat_.save();
  const Thrown thrown = thrown_by([&] { chat_.send(std::string(300, 'z'), talk()); });
  EXPECT_EQ(thrown.kind, ErrorKind::kContextFull);
  EXPECT_EQ(thrown.message.rfind("the conversation is 3", 0), 0u) << thrown.message;
  EXPECT_NE(thrown.message.find(" tokens long with this message, and the context holds 256 with at least one for the "
                                "answer: shorten the message, start a new conversation"),
            std::string::npos)
      << thrown.message;
  EXPECT_EQ(chat_.save(), before);
  EXPECT_EQ(chat_.send("hi", talk()).generation.finish, FinishReason::kLength);
}

TEST_F(ChatTest, TheEndOfTheContextEndsTheAnswer) {
  const ChatReply reply = chat_.send("hi", talk(1000));
  EXPECT_EQ(reply.generation.finish, FinishReason::kContextFull);
  EXPECT_EQ(chat_.messages().size(), 2u);
}

TEST_F(ChatTest, SavedAndLoadedItGoesOnAsBefore) {
  chat_.set_system("S");
  chat_.send("hi", talk());
  Chat other(engine_);
  other.load(chat_.save());
  EXPECT_EQ(other.rendered(), chat_.rendered());
  EXPECT_EQ(other.send("more", talk()).generation.tokens, chat_.send("more", talk()).generation.tokens);
  EXPECT_EQ(thrown_by([&] { other.load("{}"); }).message,
            "not a saved conversation: expected an object with \"format\": \"bonsai-chat\"");
  EXPECT_EQ(other.save(), chat_.save());
}

TEST_F(ChatTest, TextsMustBeUtf8) {
  EXPECT_EQ(thrown_by([&] { chat_.send("a\xff", talk()); }).message, "message: invalid UTF-8 at byte offset 1");
  EXPECT_EQ(thrown_by([&] { chat_.set_system("\xff"); }).message, "system prompt: invalid UTF-8 at byte offset 0");
  EXPECT_TRUE(chat_.messages().empty());
}

TEST(Chat, AModelWithoutTemplateSpeaksChatMlIfItsVocabularyDoes) {
  const Engine engine = load_seedling();
  Chat chat(engine);
  const ChatReply reply = chat.send("Once upon a time", greedy(4));
  EXPECT_EQ(reply.generation.tokens.size(), 4u);
  EXPECT_EQ(chat.rendered(), "<|im_start|>user\nOnce upon a time<|im_end|>\n<|im_start|>assistant\n" +
                                 reply.message.content + "<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(thrown_by([&] { Chat(engine, {.tools = "[]"}); }).message, "tools: the model's chat template knows none");
}

// Between the tags is reasoning, also where the prompt has opened them.
TEST(Chat, AnOpenTagInThePromptBeginsReasoning) {
  const test::TinyModelFile file(model_with("{{ messages[-1].content }}{{ '<think>\\n' }}"));
  const Engine engine = load(file);
  Chat chat(engine);
  const ChatReply reply = chat.send("hi", talk(6));
  EXPECT_EQ(reply.message.content, "");
  EXPECT_FALSE(reply.message.reasoning.empty());
  EXPECT_EQ(chat.messages()[1].reasoning, reply.message.reasoning);
}

// What is thought does not have the form that the answer is to have.
TEST(Chat, AnAnswerOfAFormIsNotThoughtAboutWhereTheTemplateWouldBeginWithThat) {
  const test::TinyModelFile file(model_with("{{ messages[-1].content }}<think>\n"));
  const Engine engine = load(file);
  Chat chat(engine);
  const ChatReply reply = chat.send("hi", saying("yes"));
  EXPECT_EQ(reply.message.content, "yes");
  EXPECT_EQ(reply.message.reasoning, "");
}

}  // namespace
}  // namespace bonsai
