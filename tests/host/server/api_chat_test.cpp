// Conversations over OpenAI's API: what clients get is what the library's Chat gives.
#include <bonsai/chat.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/host/server/talking.h"
#include "tests/model/tiny_model.h"

namespace bonsai::server {
namespace {

TEST_F(Talking, ShowsWhatTheModelWouldRead) {
  const Service service(engine_);
  const json messages = json::array({{{"role", "user"}, {"content", "Once"}}});
  EXPECT_EQ(service.ask("/apply-template", {{"messages", messages}})["prompt"],
            "<|im_start|>user:Once<|im_end|><|im_start|>a:");
  EXPECT_EQ(service.ask("/apply-template", {{"messages", messages}, {"enable_thinking", false}})["prompt"],
            "<|im_start|>user:Once<|im_end|><|im_start|>a:<think></think>");
  const json king = json::array({{{"role", "king"}, {"content", "Once"}}});
  const Response refused = service.post("/apply-template", {{"messages", king}});
  EXPECT_EQ(refused.status, 400);
  EXPECT_NE(refused.body.find("no kings"), std::string::npos) << refused.body;
}

TEST_F(Talking, AnswersAsAConversationOfTheLibraryDoes) {
  const Service service(engine_);
  GenerateOptions options = greedy(24);
  options.ignore_eos = true;
  Chat chat(engine_, {.system = "S"});
  const ChatReply reply = chat.send("hi", options);
  const json messages = {{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "hi"}}};
  const json answer = service.ask(kChat, {{"messages", messages}, {"ignore_eos", true}, {"model", "whatever"}});
  EXPECT_EQ(answer["object"], "chat.completion");
  EXPECT_EQ(answer["model"], "it");
  EXPECT_TRUE(answer["id"].get<std::string>().starts_with("chatcmpl-"));
  ASSERT_EQ(answer["choices"].size(), 1u);
  const json &choice = answer["choices"][0];
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], reply.message.content);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["prompt_tokens"], reply.generation.stats.prompt_tokens);
  EXPECT_EQ(answer["usage"]["completion_tokens"], 24);
  EXPECT_EQ(answer["usage"]["total_tokens"], reply.generation.stats.prompt_tokens + 24);
}

TEST_F(Talking, AStreamsPiecesAreTheWholeAnswer) {
  const Service service(engine_);
  const json request = {{"messages", user("hi")}, {"ignore_eos", true}, {"stream_options", {{"include_usage", true}}}};
  const json whole = service.ask(kChat, request);
  const std::vector<json> events = service.stream(kChat, request);
  ASSERT_GE(events.size(), 4u);
  EXPECT_EQ(events.front()["choices"][0]["delta"], (json{{"role", "assistant"}, {"content", ""}}));
  std::string content;
  std::set<std::string> ids;
  for (const json &event : events) {
    ids.insert(event["id"]);
    EXPECT_EQ(event["object"], "chat.completion.chunk");
    EXPECT_TRUE(event.contains("usage"));
    EXPECT_EQ(event["usage"].is_null(), &event != &events.back());
    if (!event["choices"].empty()) content += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(content, whole["choices"][0]["message"]["content"]);
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_TRUE(events[1]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(events.back()["choices"], json::array());
  EXPECT_EQ(events.back()["usage"]["completion_tokens"], 24);
  EXPECT_GT(events.back()["usage"]["prompt_tokens_details"]["cached_tokens"], 0);  // the first had computed them
}

TEST_F(Talking, ReasoningIsNoContent) {
  const Service service(engine_);
  const json request = {
      {"messages", user("hi")}, {"grammar", only("<think>\nwhy\n</think>\n\nso.")}, {"max_tokens", 90}};
  const json answer = service.ask(kChat, request), &message = answer["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "why");
  const json &usage = answer["usage"];
  EXPECT_GT(usage["completion_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_LT(usage["completion_tokens_details"]["reasoning_tokens"], usage["completion_tokens"]);
  EXPECT_EQ(service.ask(kComplete, {{"prompt", "hi"}})["usage"].count("completion_tokens_details"), 0u);
  EXPECT_EQ(message["content"], "so.");
  std::string reasoning, content;
  for (const json &event : service.stream(kChat, request)) {
    reasoning += event["choices"][0]["delta"].value("reasoning_content", "");
    content += event["choices"][0]["delta"].value("content", "");
  }
  EXPECT_EQ(reasoning, "why");
  EXPECT_EQ(content, "so.");
}

TEST_F(Talking, ThinkingIsTurnedOffByTheTemplatesVariable) {
  const Service service(engine_);
  const auto n_prompt = [&](const json &variables) {
    const json answer = service.ask(kChat, {{"messages", user("hi")}, {"chat_template_kwargs", variables}});
    return answer["usage"]["prompt_tokens"].get<int>();
  };
  EXPECT_GT(n_prompt({{"enable_thinking", false}}), n_prompt({{"enable_thinking", true}}));
  EXPECT_EQ(n_prompt(nullptr), n_prompt({{"enable_thinking", true}}));
}

TEST_F(Talking, CallsOfToolsAreInOpenAisForm) {
  const Service service(engine_);
  const std::string said =
      "I see.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"town\": \"Rome\"}}\n</tool_call>\n"
      "<tool_call>\n{\"name\": \"time\", \"arguments\": {}}\n</tool_call>";
  const json request = {{"messages", user("hi")},
                        {"tools", tools("weather")},
                        {"grammar", only(said)},
                        {"max_tokens", 300},
                        {"tool_choice", "auto"}};
  const json choice = service.ask(kChat, request)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(choice["message"]["content"], "I see.");
  const json &calls = choice["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["type"], "function");
  EXPECT_EQ(calls[0]["function"]["name"], "weather");
  EXPECT_EQ(json::parse(calls[0]["function"]["arguments"].get<std::string>()), (json{{"town", "Rome"}}));
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);

  std::vector<json> streamed;
  for (const json &event : service.stream(kChat, request)) {
    const json &delta = event["choices"][0]["delta"];
    if (delta.contains("tool_calls")) streamed.push_back(delta["tool_calls"][0]);
  }
  ASSERT_EQ(streamed.size(), 2u);
  EXPECT_EQ(streamed[1]["index"], 1);
  EXPECT_EQ(streamed[1]["function"], calls[1]["function"]);

  // And back: what was called and what it gave is a conversation that the template shows to the model.
  const json history = {{{"role", "user"}, {"content", "hi"}},
                        {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", calls}},
                        {{"role", "tool"}, {"tool_call_id", calls[0]["id"]}, {"content", "sunny"}}};
  Chat chat(engine_, {.tools = tools("weather").dump()});
  chat.add({.role = "user", .content = "hi"});
  chat.add({.role = "assistant",
            .content = "",
            .tool_calls = R"([{"name":"weather","arguments":{"town":"Rome"}},{"name":"time","arguments":{}}])"});
  const ChatReply reply = chat.send({.role = "tool", .content = "sunny"}, greedy(5));
  const json answer = service.ask(kChat, {{"messages", history}, {"tools", tools("weather")}, {"max_tokens", 5}});
  EXPECT_EQ(answer["usage"]["prompt_tokens"], reply.generation.stats.prompt_tokens);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], reply.message.content);
  // Not told of tools, what looks like a call is text.
  json untold = request;
  untold["tool_choice"] = "none";
  EXPECT_EQ(service.ask(kChat, untold)["choices"][0]["message"]["content"], said);
}

TEST_F(Talking, ACallCanBeForced) {
  const Service service(engine_);
  json both = tools("weather");
  both[0]["function"]["parameters"] = {{"type", "object"},
                                       {"properties", {{"town", {{"enum", {"Rome", "Oslo"}}}}}},
                                       {"required", {"town"}},
                                       {"additionalProperties", false}};
  both.push_back(tools("time")[0]);
  const json named = {{"type", "function"}, {"function", {{"name", "weather"}}}};
  json request = {{"messages", user("hi")}, {"tools", both}, {"tool_choice", named}, {"max_tokens", 100}};
  const json choice = service.ask(kChat, request)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  ASSERT_EQ(choice["message"]["tool_calls"].size(), 1u);
  const json &function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "weather");
  const json arguments = json::parse(function["arguments"].get<std::string>());
  EXPECT_TRUE(arguments == (json{{"town", "Rome"}}) || arguments == (json{{"town", "Oslo"}})) << arguments;
  for (const json &event : service.stream(kChat, request)) {
    const json &delta = event["choices"][0]["delta"];
    if (delta.contains("tool_calls")) {
      EXPECT_EQ(delta["tool_calls"][0]["function"], function);
    }
    EXPECT_TRUE(!delta.contains("content") || delta["content"].is_null()) << delta;
  }
  request["tool_choice"] = "required";
  request["seed"] = 3;
  request["temperature"] = 1;
  both[1]["function"]["parameters"] = both[0]["function"]["parameters"];
  request["tools"] = both;
  EXPECT_EQ(service.ask(kChat, request)["choices"][0]["finish_reason"], "tool_calls");
}

// A tool that takes whatever there is: the model can pass something, also where the answer has a form otherwise.
TEST_F(Talking, AToolWithoutAFormIsCalledWithAnyArguments) {
  const Service service(engine_);
  json open = tools("note");
  open[0]["function"]["parameters"] = {{"type", "object"}, {"additionalProperties", true}};
  const json format = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", {{"enum", {7}}}}}}};
  const std::vector<json> ways = {{{"tool_choice", "required"}}, {{"response_format", format}}};
  for (const json &way : ways) {
    std::set<bool> empty;
    for (int seed = 0; seed < 40; ++seed) {
      json request = {{"messages", user("hi")},       {"tools", open},    {"seed", seed},
                      {"parallel_tool_calls", false}, {"temperature", 2}, {"max_tokens", 400}};
      request.update(way);
      const json message = service.ask(kChat, request)["choices"][0]["message"];
      if (!message.contains("tool_calls")) continue;
      const json &function = message["tool_calls"][0]["function"];
      empty.insert(json::parse(function["arguments"].get<std::string>()).empty());
    }
    EXPECT_EQ(empty, (std::set<bool>{false, true})) << way;
  }
}

TEST_F(Talking, AnAnswerMayEndBehindItsFirstCall) {
  const Service service(engine_);
  const std::string call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n";
  const json request = {{"messages", user("hi")},
                        {"tools", tools("f")},
                        {"grammar", only(call + call)},
                        {"parallel_tool_calls", false},
                        {"max_tokens", 300}};
  const json choice = service.ask(kChat, request)["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

// What is thought does not have the form that is asked for.
TEST(ApiService, FormsAreForAnswersAndNotForReasoning) {
  test::TinyModel model;
  model.metadata = [](gguf::Writer &writer) {
    writer.set_string("tokenizer.chat_template", "{{ messages[-1].content }}<think>\n");
  };
  const test::TinyModelFile file(model);
  const Engine engine = load(file.path());
  const Service service(engine);
  const json request = {{"messages", user("hi")}, {"grammar", only("yes")}};
  const json message = service.ask(kChat, request)["choices"][0]["message"];
  EXPECT_EQ(message["content"], "yes");
  EXPECT_FALSE(message.contains("reasoning_content"));
  Chat chat(engine);
  GenerateOptions options = greedy(20);
  options.grammar = only("yes");
  EXPECT_EQ(chat.send("hi", options).message.content, "yes");
  const json free = service.ask(kChat, {{"messages", user("hi")}, {"max_tokens", 3}, {"ignore_eos", true}});
  EXPECT_TRUE(free["choices"][0]["message"].contains("reasoning_content"));
}

TEST_F(Talking, AnswersFollowASchema) {
  const Service service(engine_);
  const json schema = {{"type", "object"},
                       {"properties", {{"n", {{"enum", {7}}}}}},
                       {"required", {"n"}},
                       {"additionalProperties", false}};
  const json format = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  const json answer =
      service.ask(kChat, {{"messages", user("hi")}, {"response_format", format}, {"max_completion_tokens", 100}});
  EXPECT_EQ(json::parse(answer["choices"][0]["message"]["content"].get<std::string>()), (json{{"n", 7}}));
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
}

// What agents ask for: a result in a form, or first a call of a tool.
TEST_F(Talking, AnAnswerWithAFormMayBeACallInstead) {
  const Service service(engine_);
  json weather = tools("weather");
  weather[0]["function"]["parameters"] = {
      {"type", "object"}, {"properties", {{"town", {{"enum", {"Rome"}}}}}}, {"required", {"town"}}};
  const json format = {{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", {{"enum", {7, 8}}}}}}};
  std::set<std::string> found;
  for (int seed = 0; seed < 24; ++seed) {
    const json request = {
        {"messages", user("hi")}, {"tools", weather}, {"response_format", format}, {"parallel_tool_calls", false},
        {"seed", seed},           {"temperature", 2}, {"max_tokens", 100}};
    const json choice = service.ask(kChat, request)["choices"][0];
    const json &message = choice["message"];
    if (choice["finish_reason"] == "tool_calls") {
      EXPECT_TRUE(message["content"].is_null()) << message;
      EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], R"({"town":"Rome"})") << message;
      found.insert("a call");
    } else {
      found.insert(message["content"].get<std::string>());
    }
  }
  EXPECT_EQ(found, (std::set<std::string>{"7", "8", "a call"}));
}

TEST_F(Talking, SeveralAnswersDifferAndASeedRepeatsThem) {
  const Service service(engine_);
  const json request = {{"messages", user("hi")}, {"n", 3}, {"temperature", 1.5}, {"seed", 5}, {"ignore_eos", true}};
  const json first = service.ask(kChat, request), second = service.ask(kChat, request);
  ASSERT_EQ(first["choices"].size(), 3u);
  std::set<std::string> texts;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first["choices"][i]["index"], i);
    EXPECT_EQ(first["choices"][i]["message"], second["choices"][i]["message"]);
    texts.insert(first["choices"][i]["message"]["content"]);
  }
  EXPECT_EQ(texts.size(), 3u);
  EXPECT_EQ(first["usage"]["completion_tokens"], 72);
  std::vector<std::string> streamed(3);
  for (const json &event : service.stream(kChat, request)) {
    const json &choice = event["choices"][0];
    streamed[choice["index"].get<size_t>()] += choice["delta"].value("content", "");
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(streamed[static_cast<size_t>(i)], first["choices"][i]["message"]["content"]);
}

TEST_F(Talking, ContentMayComeInParts) {
  const Service service(engine_);
  const json parts = {{{"type", "text"}, {"text", "h"}}, {{"type", "text"}, {"text", "i"}}};
  const json in_parts = {{{"role", "user"}, {"content", parts}}};
  EXPECT_EQ(service.ask(kChat, {{"messages", in_parts}})["choices"],
            service.ask(kChat, {{"messages", user("h\ni")}})["choices"]);
}

// Where it is in what the client sent, and not in what the engine made of it.
TEST_F(Talking, SaysWhichSchemaIsWrong) {
  const Service service(engine_);
  const json bad = json::parse(R"({"type": "object", "properties": {"a": {"not": {}}}})");
  const json good = {{"type", "object"}, {"properties", {{"a", {{"type", "string"}}}}}};
  const auto tool = [](const char *name, const json &parameters) {
    return json{{"type", "function"}, {"function", {{"name", name}, {"parameters", parameters}}}};
  };
  const auto format = [](const json &schema) {
    return json{{"type", "json_schema"}, {"json_schema", {{"name", "x"}, {"schema", schema}}}};
  };
  const auto refused = [&](json request) {
    request["messages"] = user("hi");
    return service.refused(kChat, request);
  };
  const std::string why = ": JSON schema, '#/properties/a': keyword 'not' is not supported";
  const json tools = {tool("f", good), tool("g", bad)};
  EXPECT_EQ(refused({{"response_format", format(bad)}}), "400 response_format.json_schema.schema" + why);
  EXPECT_EQ(refused({{"response_format", {{"type", "json_object"}, {"schema", bad}}}}),
            "400 response_format.schema" + why);
  EXPECT_EQ(refused({{"json_schema", bad}}), "400 json_schema" + why);
  EXPECT_EQ(refused({{"tools", tools}, {"tool_choice", "required"}}), "400 tools[1].function.parameters" + why);
  EXPECT_EQ(refused({{"tools", tools}, {"response_format", format(good)}}), "400 tools[1].function.parameters" + why);
  const json untyped = {tool("f", good), tool("g", {{"properties", bad["properties"]}})};
  EXPECT_EQ(refused({{"tools", untyped}, {"tool_choice", "required"}}), "400 tools[1].function.parameters" + why);
  EXPECT_EQ(refused({{"tools", untyped}, {"response_format", format(good)}}), "400 tools[1].function.parameters" + why);
  EXPECT_EQ(refused({{"tools", tools}, {"response_format", format(bad)}}),
            "400 response_format.json_schema.schema" + why);
  EXPECT_EQ(service.refused(kComplete, {{"prompt", {"a", "b"}}, {"json_schema", bad}}), "400 json_schema" + why);
}

TEST_F(Talking, SaysWhatIsWrongWithAConversation) {
  const Service service(engine_);
  const json kings = {{{"role", "king"}, {"content", "x"}}};
  EXPECT_EQ(service.refused(kChat, {{"messages", kings}}),
            "400 the model's chat template, line 1: the template refuses the conversation: 'no kings'");
  const Response full = service.post(kChat, {{"messages", user(std::string(3000, 'x'))}});
  EXPECT_EQ(full.status, 400);
  EXPECT_EQ(json::parse(full.body)["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}, {"grammar", "root ::= ("}}).substr(0, 4), "400 ");
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}, {"logit_bias", {{"99999", 1}}}}).substr(0, 4), "400 ");
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}, {"n", 65}}),
            "400 n: expected a whole number from 1 to 64, found 65");
  EXPECT_EQ(service.post(kChat, {{"messages", user("hi")}, {"n", 64}, {"max_tokens", 1}}).status, 200);
}

}  // namespace
}  // namespace bonsai::server
