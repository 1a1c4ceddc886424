// Anthropic's Messages API: answers are those of chat completions, in blocks.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/server/api_error.h"
#include "tests/host/server/talking.h"

namespace bonsai::server {
namespace {

constexpr const char *kMessages = "/v1/messages";

// What the events of a stream put together, as Anthropic's clients do it.
json message_of(const std::vector<json> &events) {
  json message;
  std::string input;
  for (const json &event : events) {
    const std::string type = event["type"];
    if (type == "message_start") message = event["message"];
    if (type == "content_block_start") {
      EXPECT_EQ(event["index"], message["content"].size());
      message["content"].push_back(event["content_block"]);
      input.clear();
    }
    if (type == "content_block_delta") {
      json &block = message["content"][event["index"].get<size_t>()];
      const json &delta = event["delta"];
      if (delta["type"] == "text_delta")
        block["text"] = block["text"].get<std::string>() + delta["text"].get<std::string>();
      if (delta["type"] == "thinking_delta")
        block["thinking"] = block["thinking"].get<std::string>() + delta["thinking"].get<std::string>();
      if (delta["type"] == "input_json_delta")
        block["input"] = json::parse(input += delta["partial_json"].get<std::string>());
    }
    if (type == "message_delta") {
      message.update(event["delta"]);
      message["usage"] = event["usage"];
    }
  }
  EXPECT_FALSE(events.empty());
  EXPECT_EQ(events.back()["type"], "message_stop");
  return message;
}

json comparable(json message) {
  for (const char *name : {"id", "usage"}) message.erase(name);
  for (json &block : message["content"]) block.erase("id");
  return message;
}

json tool(const std::string &name) { return {{"name", name}, {"input_schema", {{"type", "object"}}}}; }

TEST_F(Talking, MessagesAreAnsweredAsChatCompletionsAre) {
  const Service service(engine_);
  const json messages = {{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "hi"}}};
  const json chat = service.ask(kChat, {{"messages", messages}, {"ignore_eos", true}, {"enable_thinking", false}});
  const json request = {{"system", "S"}, {"messages", user("hi")}, {"max_tokens", 24}, {"ignore_eos", true}};
  const json message = service.ask(kMessages, request);
  EXPECT_TRUE(message["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["model"], "it");
  ASSERT_EQ(message["content"].size(), 1u);
  EXPECT_EQ(message["content"][0]["type"], "text");
  EXPECT_EQ(message["content"][0]["text"], chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_TRUE(message["stop_sequence"].is_null());
  const json &usage = message["usage"];
  EXPECT_EQ(usage["input_tokens"].get<int>() + usage["cache_read_input_tokens"].get<int>(),
            chat["usage"]["prompt_tokens"]);
  EXPECT_GT(usage["cache_read_input_tokens"], 0);  // the other had computed them
  EXPECT_EQ(usage["output_tokens"], 24);
  const std::vector<json> events = service.named_stream(kMessages, request);
  EXPECT_EQ(comparable(message_of(events)), comparable(message));
  EXPECT_EQ(events.front()["message"]["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(service.ask("/v1/messages/count_tokens", request)["input_tokens"], chat["usage"]["prompt_tokens"]);
}

TEST_F(Talking, WhatIsThoughtSaidAndUsedIsABlockEach) {
  const Service service(engine_);
  json request = {{"messages", user("hi")},
                  {"tools", {tool("weather"), tool("time")}},
                  {"grammar", only(kAnswerOfAll)},
                  {"max_tokens", 300}};
  const json message = service.ask(kMessages, request);
  EXPECT_EQ(message["stop_reason"], "tool_use");
  const json expected = {{{"type", "thinking"}, {"thinking", "why"}, {"signature", ""}},
                         {{"type", "text"}, {"text", "I see."}},
                         {{"type", "tool_use"}, {"name", "weather"}, {"input", {{"town", "Rome"}}}},
                         {{"type", "tool_use"}, {"name", "time"}, {"input", json::object()}}};
  EXPECT_EQ(comparable(message)["content"], expected);
  EXPECT_NE(message["content"][2]["id"], message["content"][3]["id"]);
  EXPECT_EQ(comparable(message_of(service.named_stream(kMessages, request))), comparable(message));
  request["thinking"] = {{"type", "adaptive"}, {"display", "omitted"}};
  EXPECT_EQ(comparable(service.ask(kMessages, request))["content"], (json{expected[1], expected[2], expected[3]}));

  // And back: the model reads what it does with chat completions.
  json results = {{{"type", "tool_result"}, {"tool_use_id", message["content"][3]["id"]}, {"content", "noon"}},
                  {{"type", "tool_result"}, {"tool_use_id", message["content"][2]["id"]}, {"content", "sunny"}}};
  const json history = {{{"role", "user"}, {"content", "hi"}},
                        {{"role", "assistant"}, {"content", message["content"]}},
                        {{"role", "user"}, {"content", results}}};
  const json chat = service.ask(kChat, {{"messages", messages_behind_it()}, {"ignore_eos", true}});
  const json next =
      service.ask(kMessages, {{"messages", history}, {"ignore_eos", true}, {"thinking", {{"type", "enabled"}}}});
  EXPECT_EQ(next["content"][0]["text"], chat["choices"][0]["message"]["content"]);
}

// For the prompt to be computed ahead of the request that needs it.
TEST_F(Talking, AMessageMayHaveNoTokens) {
  const Service service(engine_);
  const json request = {{"messages", user("hi")}, {"max_tokens", 0}};
  const json message = service.ask(kMessages, request);
  EXPECT_EQ(message["content"], json::array());
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_EQ(message["usage"]["output_tokens"], 0);
  EXPECT_GT(service.ask(kMessages, request)["usage"]["cache_read_input_tokens"], 0);
  EXPECT_EQ(comparable(message_of(service.named_stream(kMessages, request))), comparable(message));
}

TEST_F(Talking, MessagesSayWhyTheyStop) {
  const Service service(engine_);
  const json endless = {{"messages", user("hi")}, {"ignore_eos", true}, {"max_tokens", 5000}};
  EXPECT_EQ(service.ask(kMessages, endless)["stop_reason"], "model_context_window_exceeded");
  json request = {{"messages", user("hi")}, {"grammar", only("one two")}, {"max_tokens", 90}};
  EXPECT_EQ(service.ask(kMessages, request)["stop_reason"], "end_turn");
  request["stop_sequences"] = {"x", " tw"};
  const json stopped = service.ask(kMessages, request);
  EXPECT_EQ(stopped["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped["stop_sequence"], " tw");
  EXPECT_EQ(stopped["content"][0]["text"], "one");
  json forced = {
      {"messages", user("hi")}, {"tools", {tool("f")}}, {"tool_choice", {{"type", "any"}}}, {"max_tokens", 300}};
  forced["tools"][0]["input_schema"] = {{"type", "object"},
                                        {"properties", {{"town", {{"enum", {"Rome"}}}}}},
                                        {"required", {"town"}},
                                        {"additionalProperties", false}};
  const json call = service.ask(kMessages, forced);
  EXPECT_EQ(call["stop_reason"], "tool_use");
  ASSERT_EQ(call["content"].size(), 1u);
  EXPECT_EQ(call["content"][0]["input"], (json{{"town", "Rome"}}));
}

TEST_F(Talking, ErrorsAreInTheFormOfBothApis) {
  const Service service(engine_);
  const Response response = service.post(kMessages, {{"messages", user("hi")}, {"thread", {{"type", "create"}}}});
  EXPECT_EQ(response.status, 400);
  const json error = json::parse(response.body);
  EXPECT_EQ(error["type"], "error");
  EXPECT_EQ(error["error"]["type"], "invalid_request_error");
  EXPECT_EQ(error["error"]["details"]["error_code"], "thread_unsupported_request");
  EXPECT_EQ(error["error"]["code"], "thread_unsupported_request");
}

TEST(ApiError, HasATypeOfTheApiThatWasAsked) {
  const auto type = [](int status, ErrorTypes types) {
    return json::parse(error_json(ApiError("x", status), types))["error"]["type"].get<std::string>();
  };
  const std::vector<std::pair<int, std::string>> anthropics = {
      {400, "invalid_request_error"}, {401, "authentication_error"},
      {403, "permission_error"},      {404, "not_found_error"},
      {405, "invalid_request_error"}, {413, "request_too_large"},
      {429, "rate_limit_error"},      {500, "api_error"},
      {503, "overloaded_error"},      {529, "overloaded_error"}};
  for (const auto &[status, expected] : anthropics) EXPECT_EQ(type(status, ErrorTypes::kAnthropic), expected);
  EXPECT_EQ(type(404, ErrorTypes::kOpenAi), "invalid_request_error");
  EXPECT_EQ(type(503, ErrorTypes::kOpenAi), "server_error");
  for (const char *path : {"/v1/messages", "/v1/messages/count_tokens"})
    EXPECT_EQ(error_types_of(path), ErrorTypes::kAnthropic) << path;
  for (const char *path : {"", "/v1/messages_of_others", "/v1/chat/completions"})
    EXPECT_EQ(error_types_of(path), ErrorTypes::kOpenAi) << path;
}

// Wherever it is found out that something is wrong.
TEST_F(Talking, ErrorsOfMessagesHaveAnthropicsTypes) {
  ApiOptions options = greedy_options();
  options.api_key = "secret";
  HttpOptions http;
  http.port = 0;
  http.max_body_bytes = 200;
  const Service service(engine_, options, http);
  const std::string key = "x-api-key: secret\r\n";
  const auto told = [&](const std::string &path, const json &body, const std::string &headers) {
    const Response response = service.post(path, body, headers);
    return std::to_string(response.status) + " " + json::parse(response.body)["error"]["type"].get<std::string>();
  };
  EXPECT_EQ(told(kMessages, json::object(), ""), "401 authentication_error");
  EXPECT_EQ(told(kMessages, json::object(), key), "400 invalid_request_error");
  EXPECT_EQ(told("/v1/messages/nothing", json::object(), key), "404 not_found_error");
  EXPECT_EQ(told("/v1/nothing", json::object(), key), "404 invalid_request_error");
  EXPECT_EQ(told(kMessages, json::object(), key + "Origin: https://elsewhere.example\r\n"), "403 permission_error");
  EXPECT_EQ(told(kMessages, json::object(), key + "Content-Encoding: gzip\r\n"), "415 invalid_request_error");
  EXPECT_EQ(told(kMessages, {{"messages", user(std::string(300, 'x'))}}, key), "413 request_too_large");
  EXPECT_EQ(told(kChat, {{"messages", user(std::string(300, 'x'))}}, key), "413 invalid_request_error");
  const json get = json::parse(service.get(kMessages, key).body);
  EXPECT_EQ(get["error"]["type"], "invalid_request_error");
}

TEST_F(Talking, AKeyMayComeInAnthropicsHeader) {
  ApiOptions options = greedy_options();
  options.api_key = "secret";
  const Service service(engine_, options);
  EXPECT_EQ(service.get("/v1/models", "x-api-key: secret\r\n").status, 200);
  EXPECT_EQ(service.get("/v1/models", "x-api-key: secrets\r\n").status, 401);
  EXPECT_EQ(service.get("/v1/models", "x-api-key: secret\r\nAuthorization: Bearer wrong\r\n").status, 200);
}

TEST(ApiService, AMessageThatFailsSaysSoInItsStream) {
  EngineOptions options = seedling_options();
  options.backend_strict = true;
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
  options.backend_options = {{"fail.at", "5"}, {"fail.function", "forward_wait"}};
  const Engine engine = Engine::load(options);
  const Service service(engine);
  const std::vector<json> events =
      service.named_stream(kMessages, {{"messages", user("The wolf")}, {"ignore_eos", true}});
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back()["type"], "error");
  EXPECT_NE(events.back()["error"]["message"].get<std::string>().find("injected into forward_wait"), std::string::npos);
  EXPECT_EQ(events.back()["error"]["type"], "api_error");
  const Engine another = Engine::load(options);  // the first goes on after its failure
  const json whole = {{"messages", user("The wolf")}, {"ignore_eos", true}};
  EXPECT_EQ(json::parse(Service(another).post(kMessages, whole).body)["error"]["type"], "api_error");
}

}  // namespace
}  // namespace bonsai::server
