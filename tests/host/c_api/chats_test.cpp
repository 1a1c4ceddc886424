// Chats through the C API: the seedling speaks ChatML, and a tiny random model has templates of every kind.
#include <bonsai/chat.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/host/c_api/handles.h"
#include "tests/model/tiny_model.h"

namespace bonsai::c {
namespace {

GenerateOptions same_talk(uint32_t max_tokens = 8) {
  GenerateOptions options = greedy(max_tokens);
  options.ignore_eos = true;
  return options;
}

GenerationHandle regenerate(const ChatHandle &chat, const bonsai_generate_options &options) {
  return generated([&](auto made, auto failure) {
    return bonsai_chat_regenerate(chat.get(), &options, nullptr, nullptr, made, failure);
  });
}
GenerationHandle respond(const ChatHandle &chat, const bonsai_generate_options &options, Listener *listener = nullptr) {
  return generated([&](auto made, auto failure) {
    return bonsai_chat_respond(chat.get(), &options, listener == nullptr ? nullptr : &Listener::receive, listener, made,
                               failure);
  });
}
void add(const ChatHandle &chat, const char *role, const std::string &text) {
  succeed([&](auto failure) { return bonsai_chat_add(chat.get(), role, text.data(), text.size(), failure); });
}

TEST(CChat, SaysWhatAChatOfTheCxxApiSays) {
  const Engine same_engine = load_seedling();
  Chat same(same_engine);
  const EngineHandle engine = load();
  const ChatHandle chat = new_chat(engine);
  for (const char *text : {"Once upon a time", "and then?"}) {
    const ChatReply expected = same.send(text, same_talk());
    Listener listener;
    const GenerationHandle reply = send(chat, text, talk(), &listener);
    EXPECT_EQ(text_of(reply), expected.message.content);
    EXPECT_EQ(listener.text, expected.message.content);
    EXPECT_EQ(listener.reasoning, "");
    EXPECT_EQ(reasoning_of(reply), "");
    EXPECT_EQ(tokens_of(reply), expected.generation.tokens);
    EXPECT_EQ(reply->reused_tokens, expected.reused_tokens);
    EXPECT_EQ(reply->prompt_tokens, expected.generation.stats.prompt_tokens);
  }
  const ChatReply expected = same.regenerate(same_talk());
  const GenerationHandle again = regenerate(chat, talk());
  EXPECT_EQ(tokens_of(again), expected.generation.tokens);
  EXPECT_GT(again->reused_tokens, 20u);
}

// A tiny model that can only call a tool.
TEST(CChat, CallsOfToolsComeAsPiecesOfTheirOwn) {
  test::TinyModel model;
  model.metadata = [](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template",
                      "{{ tools | tojson }}{% for m in messages %}<|im_start|>{{ m.content }}{{ m.tool_calls | tojson "
                      "if m.tool_calls }}{% endfor %}<|im_start|>");
  };
  const test::TinyModelFile file(model);
  const bonsai_engine_options engine_options = options_for(file.path().c_str());
  bonsai_chat_options chat_options = bonsai::c::chat_options();
  chat_options.tools = R"([{"name": "f"}])";
  const ChatHandle chat = new_chat(load(engine_options), &chat_options);
  bonsai_generate_options options = greedily(100);
  options.grammar = R"(root ::= "Hm.<tool_call>{\"name\": \"f\"}</tool_call>")";
  std::vector<std::string> pieces;
  const auto receive = [](void *context, bonsai_piece piece, const char *text, uint64_t) -> int32_t {
    if (piece == BONSAI_PIECE_TOOL_CALL) static_cast<std::vector<std::string> *>(context)->emplace_back(text);
    return 0;
  };
  const GenerationHandle reply = generated([&](const bonsai_generation **made, bonsai_failure *failure) {
    return bonsai_chat_send(chat.get(), "go", BONSAI_TO_NUL, &options, receive, &pieces, made, failure);
  });
  EXPECT_EQ(text_of(reply), "Hm.");
  EXPECT_EQ(pieces, std::vector<std::string>{R"({"name":"f","arguments":{}})"});
  EXPECT_STREQ(reply->tool_calls, R"([{"name":"f","arguments":{}}])");
  EXPECT_EQ(reply->n_tool_calls_bytes, std::strlen(reply->tool_calls));
}

TEST(CChat, AnswersAConversationThatWasHeldElsewhere) {
  const EngineHandle engine = load();
  const ChatHandle chat = new_chat(engine), other = new_chat(engine);
  const std::string answer = text_of(send(chat, "Once upon a time", talk()));
  const GenerationHandle expected = send(chat, "and then?", talk());
  add(other, "user", "Once upon a time");
  add(other, "assistant", answer);
  add(other, "user", "and then?");
  Listener listener;
  const GenerationHandle reply = respond(other, talk(), &listener);
  EXPECT_EQ(tokens_of(reply), tokens_of(expected));
  EXPECT_EQ(listener.text, text_of(reply));
  EXPECT_EQ(reply->reused_tokens, 0u);
}

TEST(CChat, ForgetsWhenItIsReset) {
  const ChatHandle chat = new_chat(load());
  const GenerationHandle first = send(chat, "Once upon a time", talk());
  succeed([&](auto failure) { return bonsai_chat_reset(chat.get(), failure); });
  expect_failure(BONSAI_BAD_ARGUMENT, "empty conversation: there is no message to answer", [&](auto failure) {
    return bonsai_chat_regenerate(chat.get(), nullptr, nullptr, nullptr, nullptr, failure);
  });
  expect_failure(BONSAI_BAD_ARGUMENT, "empty conversation: there is no message to answer", [&](auto failure) {
    return bonsai_chat_respond(chat.get(), nullptr, nullptr, nullptr, nullptr, failure);
  });
  EXPECT_EQ(tokens_of(send(chat, "Once upon a time", talk())), tokens_of(first));
}

TEST(CChat, SavedAndLoadedItGoesOnWithoutComputingItsTokensAgain) {
  const ScratchFile file("chat");
  const EngineHandle engine = load();
  bonsai_chat_options options = chat_options();
  options.system = "You tell tales.";
  const ChatHandle chat = new_chat(engine, &options);
  send(chat, "Once upon a time", talk());
  succeed([&](auto failure) { return bonsai_chat_save_session(chat.get(), file.c_str(), failure); });
  const GenerationHandle expected = send(chat, "and then?", talk());
  const ChatHandle other = new_chat(load());
  succeed([&](auto failure) { return bonsai_chat_load_session(other.get(), file.c_str(), failure); });
  const GenerationHandle reply = send(other, "and then?", talk());
  EXPECT_EQ(tokens_of(reply), tokens_of(expected));
  EXPECT_EQ(reply->reused_tokens, expected->reused_tokens);
  EXPECT_GT(reply->reused_tokens, 20u);

  expect_failure(BONSAI_BAD_ARGUMENT, "/nowhere/x: cannot open: No such file or directory",
                 [&](auto failure) { return bonsai_chat_load_session(chat.get(), "/nowhere/x", failure); });
  expect_failure(BONSAI_BAD_ARGUMENT, "/nowhere/x: cannot create a file in /nowhere: No such file or directory",
                 [&](auto failure) { return bonsai_chat_save_session(chat.get(), "/nowhere/x", failure); });
}

// What was thought and what was said come apart, in pieces and in the end.
TEST(CChat, TellsReasoningFromTheAnswer) {
  const EngineHandle engine = load();
  bonsai_generate_options options = greedily(40);
  options.grammar = "root ::= \"<think>\\nthe king? \" (\"no\" | \"so\") \"\\n</think>\\n\\nThe fox.\"";
  const ChatHandle chat = new_chat(engine);
  Listener listener;
  const GenerationHandle reply = send(chat, "Who is it?", options, &listener);
  EXPECT_EQ(reply->finish, uint32_t{BONSAI_FINISH_END_OF_TEXT});
  EXPECT_EQ(text_of(reply), "The fox.");
  EXPECT_TRUE(reasoning_of(reply).starts_with("the king? ")) << reasoning_of(reply);
  EXPECT_EQ(listener.text, text_of(reply));
  EXPECT_EQ(listener.reasoning, reasoning_of(reply));
  std::string whole(200, '#');
  uint64_t n = 0;
  succeed([&](auto failure) {
    return bonsai_engine_detokenize(engine.get(), reply->tokens, reply->n_tokens, whole.data(), whole.size(), &n,
                                    failure);
  });
  EXPECT_EQ(whole.substr(0, n), "<think>\n" + reasoning_of(reply) + "\n</think>\n\nThe fox.");
}

TEST(CChat, AnAnswerThatTheCallbackEndsStaysAsFarAsItCame) {
  const ChatHandle chat = new_chat(load());
  Listener listener;
  listener.end_at = 2;
  const GenerationHandle reply = send(chat, "Once upon a time", talk(50), &listener);
  EXPECT_EQ(reply->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(listener.n_pieces, 2);
  EXPECT_EQ(text_of(reply), listener.text);
}

// The options of a chat are its template's to use, and the same as those of the C++ API.
TEST(CChat, MayBeFreedByItsCallback) {
  const EngineHandle engine = load();
  const std::string expected = text_of(send(new_chat(engine), "hi", talk()));
  ChatHandle chat = new_chat(engine);
  const GenerationHandle generation = generated([&](auto to, auto failure) {
    const bonsai_generate_options options = talk();
    return bonsai_chat_send(chat.get(), "hi", 2, &options, free_handle<ChatHandle>, &chat, to, failure);
  });
  EXPECT_EQ(text_of(generation), expected);
}

TEST(CChat, ItsOptionsReachTheTemplate) {
  test::TinyModel model;
  model.metadata = [](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template",
                      "{% if tools %}tools{{ tools | tojson }}{% endif %}"
                      "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}"
                      "{% if enable_thinking is defined %}{{ 'think' if enable_thinking else 'do not think at all' }}"
                      "{% endif %}a:");
  };
  const test::TinyModelFile file(model);
  const EngineHandle engine = load(options_for(file.path().c_str()));
  const Engine same_engine = Engine::load({.model = file.path()});
  const auto compare = [&](auto change, const ChatOptions &same) {
    bonsai_chat_options options = chat_options();
    change(options);
    const ChatHandle chat = new_chat(engine, &options);
    const ChatReply expected = Chat(same_engine, same).send("hi", same_talk());
    const GenerationHandle reply = send(chat, "hi", talk());
    EXPECT_EQ(tokens_of(reply), expected.generation.tokens);
    EXPECT_EQ(reply->prompt_tokens, expected.generation.stats.prompt_tokens);
    return reply->prompt_tokens;
  };
  const uint32_t automatic = compare([](auto &) {}, {});
  const uint32_t on = compare([](auto &options) { options.thinking = BONSAI_THINKING_ON; }, {.enable_thinking = true});
  const uint32_t off =
      compare([](auto &options) { options.thinking = BONSAI_THINKING_OFF; }, {.enable_thinking = false});
  EXPECT_LT(automatic, on);
  EXPECT_LT(on, off);
  EXPECT_GT(compare([](auto &options) { options.system = "be kind"; }, {.system = "be kind"}), automatic);
  EXPECT_GT(compare([](auto &options) { options.tools = R"([{"name": "f"}])"; }, {.tools = R"([{"name": "f"}])"}),
            automatic);
}

// Begun by the template, reasoning may be all that there is of an answer.
TEST(CChat, AnAnswerMayBeReasoningAlone) {
  test::TinyModel model;
  model.metadata = [](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template", "{{ messages[-1].content }}{{ '<think>\\n' }}");
  };
  const test::TinyModelFile file(model);
  const ChatHandle chat = new_chat(load(options_for(file.path().c_str())));
  Listener listener;
  const GenerationHandle reply = send(chat, "hi", talk(6), &listener);
  EXPECT_EQ(text_of(reply), "");
  EXPECT_NE(reasoning_of(reply), "");
  EXPECT_EQ(listener.reasoning, reasoning_of(reply));
  EXPECT_EQ(listener.text, "");
}

TEST(CChatRefuses, WhatItCannotUse) {
  const EngineHandle engine = load();
  const auto refused = [&](const std::string &message, auto change) {
    bonsai_chat_options options = chat_options();
    change(options);
    const ChatHandle other = new_chat(engine);
    bonsai_chat *chat = other.get();
    expect_failure(BONSAI_BAD_ARGUMENT, message,
                   [&](auto failure) { return bonsai_chat_new(engine.get(), &options, &chat, failure); });
    EXPECT_EQ(chat, nullptr);
  };
  refused("thinking: expected 0 (auto), 1 (on) or 2 (off), found 3", [](auto &options) { options.thinking = 3; });
  refused("system prompt: invalid UTF-8 at byte offset 0", [](auto &options) { options.system = "\xff"; });
  refused("tools: expected a JSON array, found object", [](auto &options) { options.tools = "{}"; });
  refused("tools: the model's chat template knows none", [](auto &options) { options.tools = "[]"; });

  const ChatHandle chat = new_chat(engine);
  expect_failure(BONSAI_BAD_ARGUMENT, "message: invalid UTF-8 at byte offset 1", [&](auto failure) {
    return bonsai_chat_send(chat.get(), "a\xff", 2, nullptr, nullptr, nullptr, nullptr, failure);
  });
  expect_failure(BONSAI_BAD_ARGUMENT, "message: invalid UTF-8 at byte offset 0",
                 [&](auto failure) { return bonsai_chat_add(chat.get(), "user", "\xff", 1, failure); });
}

TEST(CChatRefuses, AConversationThatDoesNotFitAndStaysAsItWas) {
  bonsai_engine_options options = seedling();
  options.context = 64;
  const EngineHandle engine = load(options);
  const ChatHandle chat = new_chat(engine), other = new_chat(engine);
  send(chat, "hi", talk());
  send(other, "hi", talk());
  const std::string much(3000, 'z');
  const bonsai_generation *generation = nullptr;
  const Report report = report_of([&](auto failure) {
    return bonsai_chat_send(chat.get(), much.data(), much.size(), nullptr, nullptr, nullptr, &generation, failure);
  });
  EXPECT_EQ(report.outcome, uint32_t{BONSAI_CONTEXT_FULL});
  EXPECT_TRUE(report.message.starts_with("the conversation is ")) << report.message;
  EXPECT_EQ(generation, nullptr);
  EXPECT_EQ(tokens_of(send(chat, "more", talk())), tokens_of(send(other, "more", talk())));
}

}  // namespace
}  // namespace bonsai::c
