// bonsai::Chat on a tiny random model: what it says is noise, what it is given is not.
#include <bonsai/batch_engine.h>
#include <bonsai/chat.h>
#include <bonsai/chat_format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/engine/session_file.h"
#include "tests/host/engine/seedling.h"
#include "tests/model/tiny_model.h"

namespace bonsai {
namespace {

constexpr const char *kTemplate =
    "{% if tools %}<|im_start|>tools{{ tools | tojson }}<|im_end|>{% endif %}"
    "{% for m in messages %}{% if m.role == 'king' %}{{ raise_exception('no kings') }}{% endif %}"
    "<|im_start|>{{ m.role }}:{{ m.content }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>a:{% if enable_thinking is defined and not enable_thinking %}"
    "<think></think>{% endif %}{% endif %}";

test::TinyModel model_with(const char *chat_template) {
  test::TinyModel model;
  model.metadata = [chat_template](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template", chat_template);
  };
  return model;
}

class ChatTest : public testing::Test {
 protected:
  static Engine load(const test::TinyModelFile &file) {
    EngineOptions options;
    options.model = file.path();
    return Engine::load(options);
  }

  // Greedy and never ending, so that every answer has text.
  static GenerateOptions talk(uint32_t max_tokens = 8) {
    GenerateOptions options = greedy(max_tokens);
    options.ignore_eos = true;
    return options;
  }

  const test::TinyModelFile file_{model_with(kTemplate)};
  const Engine engine_ = load(file_);
  Chat chat_{engine_};
};

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

// A file of the running test's own, gone with it.
class ChatOnDisk : public ChatTest {
 protected:
  ~ChatOnDisk() override { std::filesystem::remove(path_); }
  const std::string path_ = testing::TempDir() + "/bonsai-chat-" + std::to_string(getpid()) + ".session";
};

TEST_F(ChatOnDisk, GoesOnWithoutComputingItsTokensAgain) {
  chat_.set_system("S");
  chat_.set_enable_thinking(false);
  chat_.send("a first message, which is long enough", talk());
  chat_.save_session(path_);
  const ChatReply expected = chat_.send("more", talk());

  const Engine engine = load(file_);  // as on another day
  Chat other(engine, {.system = "of no use"});
  other.send("nor is this", talk());
  other.load_session(path_);
  EXPECT_EQ(other.options().system, "S");
  EXPECT_EQ(other.options().enable_thinking, false);
  EXPECT_EQ(other.messages().size(), 2u);
  const ChatReply reply = other.send("more", talk());
  EXPECT_EQ(reply.generation.tokens, expected.generation.tokens);
  EXPECT_GT(expected.reused_tokens, 40u);
  EXPECT_EQ(reply.reused_tokens, expected.reused_tokens);
  EXPECT_EQ(reply.generation.stats.prompt_tokens, expected.generation.stats.prompt_tokens);
  EXPECT_EQ(other.save(), chat_.save());
}

TEST_F(ChatOnDisk, MayBeSavedBeforeAnythingWasSaid) {
  chat_.set_system("S");
  chat_.save_session(path_);
  Chat other(engine_);
  other.load_session(path_);
  EXPECT_EQ(other.options().system, "S");
  EXPECT_EQ(other.send("hi", talk()).generation.tokens, chat_.send("hi", talk()).generation.tokens);
}

// The conversation stays as it was, and so does what is computed of it.
TEST_F(ChatOnDisk, IsRefusedWhereItMeansNothing) {
  const std::string seedling_chat = path_ + ".seedling";
  Chat(load_seedling()).save_session(seedling_chat);
  engine_.new_session().save(path_);
  chat_.send("a first message", talk());
  const std::string before = chat_.save();
  EXPECT_EQ(thrown_by([&] { chat_.load_session(path_); }).message,
            path_ + ": a session without a conversation, expected one that a chat has saved");
  const Thrown other_model = thrown_by([&] { chat_.load_session(seedling_chat); });
  EXPECT_EQ(other_model.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(other_model.message,
            seedling_chat + ": a session of another model: its keys and values would mean nothing here");
  EXPECT_EQ(thrown_by([&] { chat_.load_session("/nowhere/x"); }).message,
            "/nowhere/x: cannot open: No such file or directory");
  EXPECT_EQ(thrown_by([&] { chat_.load_session(file_.path()); }).message, file_.path() + ": not a session file");
  EXPECT_EQ(thrown_by([&] { chat_.save_session("/nowhere/x"); }).message,
            "/nowhere/x: cannot create a file in /nowhere: No such file or directory");
  EXPECT_EQ(chat_.save(), before);
  EXPECT_GT(chat_.send("more", talk()).reused_tokens, 15u);
  std::filesystem::remove(seedling_chat);
}

TEST_F(ChatOnDisk, IsRefusedWhereItIsDamaged) {
  chat_.send("hi", talk());
  chat_.save_session(path_);
  std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-20, std::ios::end);
  file.put('#');
  file.close();
  const std::string message = thrown_by([&] { chat_.load_session(path_); }).message;
  EXPECT_TRUE(message.starts_with(path_ + ": session file is damaged: checksum ")) << message;
}

// Its tokens are a text like any other's.
TEST_F(ChatOnDisk, IsASessionToo) {
  const ChatReply reply = chat_.send("hi", talk());
  chat_.save_session(path_);
  Session session = engine_.new_session();
  session.load(path_);
  const auto answer = session.tokens().last(reply.generation.tokens.size());
  EXPECT_EQ(std::vector<int32_t>(answer.begin(), answer.end()), reply.generation.tokens);
}

// A file whose checksum is right, of a program that keeps something else with its sessions.
TEST_F(ChatOnDisk, IsRefusedWhereItsConversationIsNone) {
  host::SessionFile file;
  chat_.save_session(path_);
  std::vector<std::byte> bytes(std::filesystem::file_size(path_));
  std::ifstream(path_, std::ios::binary)
      .read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file = *host::parse_session_file(bytes);
  file.note = R"({"format": "bonsai-chat", "version": 2, "messages": []})";
  ASSERT_TRUE(host::write_session_file(path_, file));
  EXPECT_EQ(thrown_by([&] { chat_.load_session(path_); }).message, path_ + ": version is 2; this program knows 1");
  EXPECT_EQ(chat_.messages().size(), 0u);
  file.tokens.push_back(-5);
  ASSERT_TRUE(host::write_session_file(path_, file));
  EXPECT_EQ(thrown_by([&] { chat_.load_session(path_); }).message,
            path_ + ": token id -5 is outside the vocabulary of 272");
}

TEST_F(ChatTest, ToolsReachTheTemplateInTheirOrder) {
  Chat chat(engine_, {.tools = R"([{"name": "f", "a": 1}])"});
  EXPECT_EQ(chat.rendered(), "<|im_start|>tools[{\"name\": \"f\", \"a\": 1}]<|im_end|><|im_start|>a:");
  EXPECT_EQ(thrown_by([&] { Chat(engine_, {.tools = "{}"}); }).message, "tools: expected a JSON array, found object");
  EXPECT_EQ(thrown_by([&] { Chat(engine_, {.tools = "["}); }).message, "tools: not JSON");
}

// As Qwen's templates show tools, calls and results.
constexpr const char *kToolTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}:{{ m.content }}"
    "{% for call in m.tool_calls %}{% if call.function %}{% set call = call.function %}{% endif %}"
    "{{ '\\n' if m.content or not loop.first }}<tool_call>\n{\"name\": \"{{ "
    "call.name }}\", \"arguments\": {{ call.arguments | tojson }}}\n</tool_call>{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant:{% endif %}";

// A text that says nothing else.
GenerateOptions saying(const std::string &text) {
  GenerateOptions options = greedy(200);
  options.grammar = "root ::= " + nlohmann::json(text).dump();
  return options;
}

TEST(Chat, CallsOfToolsAreNoContentAndAreShownToTheModelAsItWroteThem) {
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"town\": \"Rome\", \"days\": 2}}\n</tool_call>";
  const std::string json = R"({"name":"weather","arguments":{"town":"Rome","days":2}})";
  const test::TinyModelFile file(model_with(kToolTemplate));
  EngineOptions engine_options;
  engine_options.model = file.path();
  const Engine engine = Engine::load(engine_options);
  Chat chat(engine, {.tools = R"([{"name": "weather"}])"});
  std::string pieces;
  const ChatReply reply = chat.send("hi", saying("I see.\n" + call), [&](ChatPiece kind, std::string_view text) {
    pieces += kind == ChatPiece::kToolCall ? "T(" + std::string(text) + ")" : std::string(text);
    return true;
  });
  EXPECT_EQ(reply.message.content, "I see.");
  EXPECT_EQ(reply.message.tool_calls, "[" + json + "]");
  EXPECT_EQ(reply.generation.text, "I see.\n" + call);
  EXPECT_EQ(pieces, "I see.T(" + json + ")");
  const std::string before = R"([{"name": "weather"}]<|im_start|>user:hi<|im_end|><|im_start|>assistant:)";
  EXPECT_EQ(chat.rendered(), before + "I see.\n" + call + "<|im_end|><|im_start|>assistant:");

  const ChatReply next = chat.send({.role = "tool", .content = "sunny"}, saying("Sun."));
  EXPECT_EQ(next.message.content, "Sun.");
  EXPECT_EQ(next.message.tool_calls, "");
  EXPECT_EQ(chat.messages()[2].role, "tool");
  // What the model has written was there already, as far as its tokens are those that the text itself gives.
  EXPECT_GT(next.reused_tokens, reply.generation.stats.prompt_tokens);

  Chat loaded(engine);
  loaded.load(chat.save());
  EXPECT_EQ(loaded.rendered(), chat.rendered());
}

std::string rendered_by(const char *chat_template, std::initializer_list<ChatMessage> messages) {
  const test::TinyModelFile file(model_with(chat_template));
  EngineOptions options;
  options.model = file.path();
  const Engine engine = Engine::load(options);
  Chat chat(engine);
  for (const ChatMessage &message : messages) chat.add(message);
  return chat.rendered();
}

// What a model has called, as its answer or an older file has it, and as OpenAI's API does.
constexpr const char *kOwnCalls = R"([{"name":"f","arguments":{"a":"b"}}])";
constexpr const char *kCalls = R"([{"id":"c1","type":"function","function":{"name":"f","arguments":{"a":"b"}}}])";

TEST(Chat, TemplatesGetCallsInOpenAisForm) {
  const char *shows = "{% for m in messages %}{{ m | tojson }}{% endfor %}";
  EXPECT_EQ(rendered_by(shows, {{.role = "assistant", .content = "", .tool_calls = kOwnCalls}}),
            R"({"role": "assistant", "content": "", "tool_calls": )"
            R"([{"type": "function", "function": {"name": "f", "arguments": {"a": "b"}}}]})");
  EXPECT_EQ(rendered_by(shows, {{.role = "assistant", .content = "", .tool_calls = kCalls}}),
            R"({"role": "assistant", "content": "", "tool_calls": )"
            R"([{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {"a": "b"}}}]})");
  EXPECT_EQ(rendered_by(shows, {{.role = "tool", .content = "r", .tool_calls = R"([{"id":"c1","name":"f"}])"},
                                {.role = "tool", .content = "s", .tool_calls = R"([{"id":"c2"}])"},
                                {.role = "tool", .content = "t"}}),
            R"({"role": "tool", "content": "r", "tool_call_id": "c1", "name": "f"})"
            R"({"role": "tool", "content": "s", "tool_call_id": "c2"}{"role": "tool", "content": "t"})");
}

// As DeepSeek's do.
TEST(Chat, TemplatesThatTakeArgumentsForTextGetText) {
  const char *joins =
      "{% for m in messages %}{% for c in m.tool_calls %}{{ '<' + c.function.arguments + '>' }}"
      "{% endfor %}{% endfor %}";
  for (const char *calls : {kOwnCalls, kCalls})
    EXPECT_EQ(rendered_by(joins, {{.role = "assistant", .content = "", .tool_calls = calls}}), R"(<{"a": "b"}>)");
  // What fails with both is said of the objects.
  const Thrown thrown = thrown_by([&] {
    rendered_by("{{ messages[0].tool_calls[0].function.arguments + 1 }}",
                {{.role = "assistant", .content = "", .tool_calls = kCalls}});
  });
  EXPECT_EQ(thrown.message, "the model's chat template, line 1: cannot use '+' between mapping and integer");
}

// As for Hugging Face's transformers.
TEST(Chat, ToolsThatAreNotThereAreNone) {
  EXPECT_EQ(
      rendered_by("{{ tools is defined }} {{ tools is none }} {{ documents is none }} {{ enable_thinking is none }}",
                  {{.role = "user", .content = "hi"}}),
      "True True True False");
  // None cannot be walked over, and what is undefined can.
  EXPECT_EQ(rendered_by("{% for tool in tools %}{{ tool }}{% endfor %}{{ messages[0].content }}",
                        {{.role = "user", .content = "hi"}}),
            "hi");
}

TEST(Chat, WithoutToolsThereAreNoCalls) {
  const std::string text = "<tool_call>{\"name\": \"f\"}</tool_call>";
  const test::TinyModelFile file(model_with(kToolTemplate));
  EngineOptions engine_options;
  engine_options.model = file.path();
  const Engine engine = Engine::load(engine_options);
  Chat chat(engine);
  const ChatReply reply = chat.send("hi", saying(text));
  EXPECT_EQ(reply.message.content, text);
  EXPECT_EQ(reply.message.tool_calls, "");
}

TEST_F(ChatTest, WhatTheTemplateRefusesIsSaidInItsWords) {
  chat_.add({.role = "king", .content = "x"});
  const Thrown thrown = thrown_by([&] { chat_.respond(talk()); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "the model's chat template, line 1: the template refuses the conversation: 'no kings'");
}

// As Qwen's templates are: what they do not know, they leave out.
TEST(Chat, ARoleThatTheTemplateLeavesOutIsRefused) {
  const test::TinyModelFile file(
      model_with("{% for m in messages %}{% if m.role in ['user', 'assistant', 'narrator'] %}"
                 "{{ m.role }}:{{ m.content }};{% endif %}{% endfor %}"));
  EngineOptions options;
  options.model = file.path();
  const Engine engine = Engine::load(options);
  const ChatFormat format(engine);
  const ChatMessage user = {.role = "user", .content = "hi"};
  const std::string refusal =
      "role: the model's chat template leaves out what 'bogus' says; expected system, user, assistant or tool";
  const ChatMessage bogus = {.role = "bogus", .content = "x"};
  EXPECT_EQ(thrown_by([&] { format.prompt({bogus, user}); }).message, refusal);
  EXPECT_EQ(thrown_by([&] { format.prompt({user, bogus, user, bogus}); }).message, refusal);
  EXPECT_FALSE(format.prompt({{.role = "narrator", .content = "x"}, user}).tokens.empty());
  EXPECT_FALSE(
      format.prompt({{.role = "narrator", .content = "x"}, {.role = "narrator", .content = "xx"}}).tokens.empty());
  EXPECT_FALSE(format.prompt({{.role = "system", .content = "x"}, user}).tokens.empty());
  EXPECT_FALSE(format.prompt({{.role = "bogus", .content = ""}, user}).tokens.empty());
  Chat chat(engine);
  chat.add(user);
  chat.add(bogus);
  EXPECT_EQ(thrown_by([&] { chat.respond(); }).message, refusal);
  std::vector<ChatMessage> crowd;
  for (int i = 0; i < 9; ++i) crowd.push_back({.role = "r" + std::to_string(i), .content = "x"});
  EXPECT_EQ(thrown_by([&] { format.prompt(crowd); }).message,
            "roles: expected at most 8 besides system, user, assistant and tool, found 9");
}

// Also one that is alone, where the template fails without any message, and one of which a part is shown.
TEST(Chat, ARoleIsLeftOutWhereWhatItSaysChangesNothing) {
  const test::TinyModelFile file(
      model_with("{% if messages[0].role == 'system' %}S{% endif %}{% for m in messages %}"
                 "{% if m.role == 'user' %}{{ m.content }}{% elif m.role == 'poet' %}{{ m.content[:2] }}"
                 "{% elif m.role == 'clerk' %}{{ m.content | trim }}{% endif %}{% endfor %}A:"));
  EngineOptions options;
  options.model = file.path();
  const Engine engine = Engine::load(options);
  const ChatFormat format(engine);
  const auto said = [&](const char *role, const char *content) {
    return thrown_by([&] { format.prompt({{.role = role, .content = content}}); }).message;
  };
  EXPECT_EQ(said("User", "Why is the sky blue?"),
            "role: the model's chat template leaves out what 'User' says; expected system, user, assistant or tool");
  EXPECT_EQ(said("user", "Why?"), "nothing was thrown");
  EXPECT_EQ(said("poet", "Why?"), "nothing was thrown");
  EXPECT_EQ(said("clerk", " x "), "nothing was thrown");
}

// Templates that know no calls leave them out, and the results would stand there without what they answer.
TEST(Chat, CallsThatTheTemplateLeavesOutAreRefused) {
  const ChatMessage user = {.role = "user", .content = "hi"};
  const ChatMessage call = {.role = "assistant", .content = "", .tool_calls = kOwnCalls};
  const ChatMessage result = {.role = "tool", .content = "r", .tool_calls = R"([{"id":"c1"}])"};
  const auto said = [&](const char *chat_template, const std::vector<ChatMessage> &messages) {
    const test::TinyModelFile file(model_with(chat_template));
    EngineOptions options;
    options.model = file.path();
    const Engine engine = Engine::load(options);
    return thrown_by([&] { ChatFormat(engine).prompt(messages); }).message;
  };
  const char *leaves_out = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
  const std::string refusal = "tool_calls: the model's chat template knows none";
  EXPECT_EQ(said(leaves_out, {user, call, result}), refusal);
  EXPECT_EQ(said(leaves_out, {user, call, user}), refusal);
  const std::string nothing = "nothing was thrown";
  const ChatMessage no_call = {.role = "assistant", .content = "x", .tool_calls = "[]"};
  EXPECT_EQ(said(leaves_out, {user, no_call, result}), nothing);
  EXPECT_EQ(said("{% for m in messages %}{{ m | tojson }}{% endfor %}", {user, call, result}), nothing);
  EXPECT_EQ(said(kToolTemplate, {user, call, result}), nothing);
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
  EngineOptions options;
  options.model = file.path();
  const Engine engine = Engine::load(options);
  Chat chat(engine);
  GenerateOptions talk = greedy(6);
  talk.ignore_eos = true;
  const ChatReply reply = chat.send("hi", talk);
  EXPECT_EQ(reply.message.content, "");
  EXPECT_FALSE(reply.message.reasoning.empty());
  EXPECT_EQ(chat.messages()[1].reasoning, reply.message.reasoning);
}

// What a batch is given and makes of it is what a conversation with a session of its own is given and makes of it.
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

// What is thought does not have the form that the answer is to have.
TEST(Chat, AnAnswerOfAFormIsNotThoughtAboutWhereTheTemplateWouldBeginWithThat) {
  const test::TinyModelFile file(model_with("{{ messages[-1].content }}<think>\n"));
  EngineOptions options;
  options.model = file.path();
  const Engine engine = Engine::load(options);
  Chat chat(engine);
  const ChatReply reply = chat.send("hi", saying("yes"));
  EXPECT_EQ(reply.message.content, "yes");
  EXPECT_EQ(reply.message.reasoning, "");
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
