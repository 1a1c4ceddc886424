// What chat templates are given of tools, calls, results and roles, and what is refused where they leave it out.
#include <bonsai/chat.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <string_view>

#include "tests/host/chat/chat_support.h"

namespace bonsai {
namespace {

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

TEST(Chat, CallsOfToolsAreNoContentAndAreShownToTheModelAsItWroteThem) {
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"town\": \"Rome\", \"days\": 2}}\n</tool_call>";
  const std::string json = R"({"name":"weather","arguments":{"town":"Rome","days":2}})";
  const test::TinyModelFile file(model_with(kToolTemplate));
  const Engine engine = load(file);
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
  const Engine engine = load(file);
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

// As some DeepSeek's do. The others get an empty text, which they may cut, join or print.
TEST(Chat, TemplatesThatLookForNullToFindCallsGetNull) {
  const ChatMessage user = {.role = "user", .content = "hi"};
  const ChatMessage call = {.role = "assistant", .content = "", .tool_calls = kOwnCalls};
  const ChatMessage result = {.role = "tool", .content = "", .tool_calls = R"([{"id":"c1"}])"};
  const ChatMessage says_nothing = {.role = "assistant", .content = ""};
  const ChatMessage call_beside_content = {.role = "assistant", .content = "x", .tool_calls = kOwnCalls};
  const std::string head = "{% for m in messages %}{{ m['role'][0] }}", end = ";{% endfor %}";
  const auto rendered = [&](const std::string &body, std::initializer_list<ChatMessage> messages) {
    return rendered_by((head + body + end).c_str(), messages);
  };
  const std::string either =
      "{% if m['content'] is none %}{% for c in m['tool_calls'] %}{{ '!' + c['function']['arguments'] }}{% endfor %}"
      "{% else %}{{ '=' + m['content'] }}{% endif %}";
  EXPECT_EQ(rendered(either, {user, call, result, says_nothing, user}), R"(u=hi;a!{"a": "b"};t=;a=;u=hi;)");
  const std::string joins = "{{ m.content + '' }}{% for c in m.tool_calls %}{{ c.function.name }}{% endfor %}";
  EXPECT_EQ(rendered(joins, {user, call, result, user}), "uhi;af;t;uhi;");
  const std::string cannot_be_tried = "{{ raise_exception('!') if m.role == 'tool' }}{{ m.content is none }}";
  EXPECT_EQ(rendered(cannot_be_tried, {user, call}), "uFalse;aFalse;");
  // What prints null shows no calls with it.
  EXPECT_EQ(rendered("{{ m.content }}", {user, call}), "uhi;a;");

  const test::TinyModelFile file(model_with((head + either + end).c_str()));
  const ChatFormat format(load(file));
  EXPECT_TRUE(format.prompt({user}).tokens.size() < format.prompt({user, call, result}).tokens.size());
  const std::string beside = "tool_calls: the model's chat template leaves out those beside content";
  EXPECT_EQ(thrown_by([&] { format.prompt({user, call_beside_content, result}); }).message, beside);
  EXPECT_EQ(thrown_by([&] { format.prompt({user, call, result, call_beside_content, result}); }).message, beside);
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

// As Phi-4-mini's: what it looks for there nobody hands over, and what is accepted would be left out.
TEST(Chat, ToolsOfAMessageAreNoToolsOfTheConversation) {
  const test::TinyModelFile file(model_with(
      "{% for m in messages %}{{ m['content'] }}{% if 'tools' in m %}{{ m['tools'] }}{% endif %}{% endfor %}"));
  const Engine engine = load(file);
  EXPECT_EQ(thrown_by([&] { Chat(engine, {.tools = "[]"}); }).message, "tools: the model's chat template knows none");
}

TEST(Chat, WithoutToolsThereAreNoCalls) {
  const std::string text = "<tool_call>{\"name\": \"f\"}</tool_call>";
  const test::TinyModelFile file(model_with(kToolTemplate));
  const Engine engine = load(file);
  Chat chat(engine);
  const ChatReply reply = chat.send("hi", saying(text));
  EXPECT_EQ(reply.message.content, text);
  EXPECT_EQ(reply.message.tool_calls, "");
}

// Of some DeepSeek's, Llama's and Granite's, and of those that show messages whole: what counts is what they show.
TEST(Chat, TemplatesMaySpellCallsAsTheyLike) {
  const auto may_call = [](const std::string &calls) {
    const std::string source =
        "{{ tools | tojson }}{% for message in messages %}{{ message['content'] }}" + calls + "{% endfor %}";
    const test::TinyModelFile file(model_with(source.c_str()));
    return ChatFormat(load(file)).prompt({{.role = "user", .content = "hi"}}, {.tools = R"([{"name": "f"}])"});
  };
  for (const char *calls :
       {"{% if message['tool_calls'] is defined %}{% for c in message['tool_calls'] %}"
        "{{ '<call>' + c['function']['name'] + c['function']['arguments'] }}{% endfor %}{% endif %}",
        "{% if 'tool_calls' in message %}{{ message['tool_calls'][0]['function']['name'] }}{% endif %}",
        "{{ message.get('tool_calls', '') }}", "{% for c in message.tool_calls %}{{ c.function.name }}{% endfor %}",
        "{% set key = 'tool_' + 'calls' %}{{ message[key] }}", "{{ message | tojson }}"})
    EXPECT_TRUE(may_call(calls).may_call_tools) << calls;
  EXPECT_FALSE(may_call("").may_call_tools);
  EXPECT_FALSE(may_call("{% if 'tool_calls' in message %}{% endif %}").may_call_tools);
  // Trying a template takes a small part of what rendering may take. One that cannot be tried is believed.
  const std::string takes_long = "{% for i in range(1000) %}{% for k in range(1000) %}{% endfor %}{% endfor %}";
  EXPECT_FALSE(may_call(takes_long + "{{ message | tojson }}").may_call_tools);
  EXPECT_TRUE(may_call("{{ raise_exception('!') if message.tool_calls }}").may_call_tools);
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
  const Engine engine = load(file);
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
  const Engine engine = load(file);
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
  // Also those of some messages alone, whatever the template mentions.
  const ChatMessage call_beside_content = {.role = "assistant", .content = "x", .tool_calls = kOwnCalls};
  const char *one_or_other =
      "{% for m in messages %}{% if m.content %}{{ m.content }}{% else %}{{ m.tool_calls }}{% endif %};{% endfor %}";
  EXPECT_EQ(said(one_or_other, {user, call, result}), nothing);
  const std::string beside = "tool_calls: the model's chat template leaves out those beside content";
  EXPECT_EQ(said(one_or_other, {user, call_beside_content, result}), beside);
  EXPECT_EQ(said(one_or_other, {user, call, result, call_beside_content, result}), beside);
  EXPECT_EQ(said("{% for m in messages %}{{ m.content and m.tool_calls }};{% endfor %}", {user, call, result}),
            "tool_calls: the model's chat template leaves out those without content");
}

}  // namespace
}  // namespace bonsai
