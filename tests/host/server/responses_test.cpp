// The Responses API: answers are those of chat completions, in items.
#include <bonsai/chat.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/host/server/talking.h"

namespace bonsai::server {
namespace {

constexpr const char *kRespond = "/v1/responses";

// Each with a number that is one higher than the last one's.
std::vector<json> events_of(const Service &service, const json &body) {
  std::vector<json> events = service.named_stream(kRespond, body);
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  return events;
}

std::vector<std::string> types_of(const std::vector<json> &events) {
  std::vector<std::string> types;
  for (const json &event : events)
    if (types.empty() || types.back() != event["type"]) types.push_back(event["type"]);
  return types;
}

// All that one kind of events adds to a text.
std::string put_together(const std::vector<json> &events, const std::string &type) {
  std::string text;
  for (const json &event : events)
    if (event["type"] == type) text += event["delta"].get<std::string>();
  return text;
}

std::string text_of(const json &response) {
  std::string text;
  for (const json &item : response["output"])
    if (item["type"] == "message") text += item["content"][0]["text"].get<std::string>();
  return text;
}

json without_ids(json items) {
  for (json &item : items)
    for (const char *name : {"id", "call_id"}) item.erase(name);
  return items;
}

json function_tool(const std::string &name) { return {{"type", "function"}, {"name", name}}; }

TEST_F(Talking, ARespondsAsChatCompletionsDo) {
  const Service service(engine_);
  const json messages = {{{"role", "system"}, {"content", "S"}}, {{"role", "user"}, {"content", "hi"}}};
  const json chat = service.ask(kChat, {{"messages", messages}, {"ignore_eos", true}});
  const json response = service.ask(kRespond, {{"instructions", "S"}, {"input", "hi"}, {"ignore_eos", true}});
  EXPECT_TRUE(response["id"].get<std::string>().starts_with("resp_"));
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["model"], "it");
  EXPECT_EQ(response["instructions"], "S");
  EXPECT_EQ(response["status"], "incomplete");
  EXPECT_EQ(response["incomplete_details"]["reason"], "max_output_tokens");
  ASSERT_EQ(response["output"].size(), 1u);
  const json &item = response["output"][0];
  EXPECT_EQ(item["role"], "assistant");
  EXPECT_EQ(item["status"], "incomplete");
  EXPECT_EQ(item["content"][0]["type"], "output_text");
  EXPECT_EQ(text_of(response), chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(response["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(response["usage"]["output_tokens"], 24);
  EXPECT_EQ(response["usage"]["total_tokens"], chat["usage"]["total_tokens"]);
  EXPECT_GT(response["usage"]["input_tokens_details"]["cached_tokens"], 0);  // the other had computed them
}

TEST_F(Talking, StreamsTheEventsOfATextInOpenAisOrder) {
  const Service service(engine_);
  const json request = {{"input", "hi"}, {"grammar", only("Once upon")}, {"max_output_tokens", 90}};
  const json whole = service.ask(kRespond, request);
  EXPECT_EQ(whole["status"], "completed");
  EXPECT_TRUE(whole["incomplete_details"].is_null());
  EXPECT_EQ(text_of(whole), "Once upon");
  const std::vector<json> events = events_of(service, request);
  EXPECT_EQ(types_of(events),
            (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                      "response.content_part.added", "response.output_text.delta",
                                      "response.output_text.done", "response.content_part.done",
                                      "response.output_item.done", "response.completed"}));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_EQ(events[0]["response"]["output"], json::array());
  EXPECT_EQ(put_together(events, "response.output_text.delta"), "Once upon");
  const json &last = events.back()["response"];
  EXPECT_EQ(last["id"], events[0]["response"]["id"]);
  EXPECT_EQ(without_ids(last["output"]), without_ids(whole["output"]));
  EXPECT_EQ(last["usage"]["output_tokens"], whole["usage"]["output_tokens"]);
  EXPECT_EQ(events[events.size() - 2]["item"], last["output"][0]);
  EXPECT_EQ(events[4]["item_id"], last["output"][0]["id"]);
}

TEST_F(Talking, WhatIsThoughtSaidAndCalledIsAnItemEach) {
  const Service service(engine_);
  const json request = {{"input", "hi"},
                        {"tools", {function_tool("weather"), function_tool("time")}},
                        {"grammar", only(kAnswerOfAll)},
                        {"max_output_tokens", 300}};
  const json whole = service.ask(kRespond, request);
  const json part = {
      {"type", "output_text"}, {"text", "I see."}, {"annotations", json::array()}, {"logprobs", json::array()}};
  const json expected = {
      {{"type", "reasoning"},
       {"status", "completed"},
       {"summary", json::array()},
       {"content", {{{"type", "reasoning_text"}, {"text", "why"}}}}},
      {{"type", "message"}, {"status", "completed"}, {"role", "assistant"}, {"content", {part}}},
      {{"type", "function_call"}, {"status", "completed"}, {"name", "weather"}, {"arguments", R"({"town":"Rome"})"}},
      {{"type", "function_call"}, {"status", "completed"}, {"name", "time"}, {"arguments", "{}"}}};
  EXPECT_EQ(without_ids(whole["output"]), expected);
  EXPECT_NE(whole["output"][2]["call_id"], whole["output"][3]["call_id"]);
  EXPECT_EQ(whole["tools"], request["tools"]);
  const int reasoning = whole["usage"]["output_tokens_details"]["reasoning_tokens"];
  EXPECT_GE(reasoning, 3);  // a token is a byte, but for the tags
  EXPECT_LT(reasoning, whole["usage"]["output_tokens"].get<int>() - 6);

  const std::vector<json> events = events_of(service, request);
  EXPECT_EQ(put_together(events, "response.reasoning_text.delta"), "why");
  EXPECT_EQ(put_together(events, "response.output_text.delta"), "I see.");
  EXPECT_EQ(put_together(events, "response.function_call_arguments.delta"), R"({"town":"Rome"}{})");
  EXPECT_EQ(without_ids(events.back()["response"]["output"]), expected);
  size_t index = 0;
  for (const json &event : events) {
    if (event["type"] != "response.output_item.done") continue;
    EXPECT_EQ(event["output_index"], index);
    EXPECT_EQ(event["item"], events.back()["response"]["output"][index++]);
  }
  EXPECT_EQ(index, 4u);

  // And back, as a client without memory of its server's sends it: the model reads what it does with chat completions.
  json items = json::array({{{"role", "user"}, {"content", "hi"}}});
  items.insert(items.end(), whole["output"].begin(), whole["output"].end());
  items.push_back({{"type", "function_call_output"}, {"call_id", whole["output"][3]["call_id"]}, {"output", "noon"}});
  items.push_back({{"type", "function_call_output"}, {"call_id", whole["output"][2]["call_id"]}, {"output", "sunny"}});
  const json chat = service.ask(kChat, {{"messages", messages_behind_it()}, {"ignore_eos", true}});
  const json next = service.ask(kRespond, {{"input", items}, {"ignore_eos", true}});
  EXPECT_EQ(text_of(next), chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(next["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
}

TEST_F(Talking, AnAnswerGoesOnFromAnEarlierOne) {
  const Service service(engine_);
  const json first = service.ask(kRespond, {{"input", "hi"}, {"grammar", only("Once")}, {"instructions", "S"}});
  const json second =
      service.ask(kRespond, {{"input", "go"}, {"grammar", only("upon")}, {"previous_response_id", first["id"]}});
  const json third = {{"input", "on"}, {"ignore_eos", true}, {"previous_response_id", second["id"]}};
  json messages = {{{"role", "user"}, {"content", "hi"}},
                   {{"role", "assistant"}, {"content", "Once"}},
                   {{"role", "user"}, {"content", "go"}},
                   {{"role", "assistant"}, {"content", "upon"}},
                   {{"role", "user"}, {"content", "on"}}};
  const json chat = service.ask(kChat, {{"messages", messages}, {"ignore_eos", true}});
  const json answer = service.ask(kRespond, third);
  EXPECT_EQ(text_of(answer), chat["choices"][0]["message"]["content"]);
  EXPECT_EQ(answer["usage"]["input_tokens"], chat["usage"]["prompt_tokens"]);
  EXPECT_EQ(answer["previous_response_id"], second["id"]);
  EXPECT_EQ(text_of(events_of(service, third).back()["response"]), text_of(answer));

  // Items may be called by their ids.
  const json reference = {{"type", "item_reference"}, {"id", first["output"][0]["id"]}};
  const json items = {messages[0], reference, messages[2], messages[3], messages[4]};
  EXPECT_EQ(text_of(service.ask(kRespond, {{"input", items}, {"ignore_eos", true}})), text_of(answer));
}

TEST_F(Talking, ResponsesAreKeptUntilTheyAreDropped) {
  const Service service(engine_);
  const json response = service.ask(kRespond, {{"input", "hi"}});
  const std::string path = std::string(kRespond) + "/" + response["id"].get<std::string>();
  EXPECT_EQ(json::parse(service.get(path).body), response);
  const json streamed = events_of(service, {{"input", "hi"}}).back()["response"];
  EXPECT_EQ(json::parse(service.get(std::string(kRespond) + "/" + streamed["id"].get<std::string>()).body), streamed);
  Client client(service.port());
  client.request("DELETE", path);
  EXPECT_EQ(json::parse(client.response().body),
            (json{{"id", response["id"]}, {"object", "response"}, {"deleted", true}}));
  EXPECT_EQ(service.get(path).status, 404);
  client.request("DELETE", path);
  EXPECT_EQ(client.response().status, 404);
  client.request("PUT", path);
  EXPECT_EQ(client.response().header("allow"), "GET, HEAD, DELETE");
  const std::string items = std::string(kRespond) + "/" + streamed["id"].get<std::string>() + "/input_items";
  EXPECT_NE(service.get(items).body.find("no such path: " + items), std::string::npos);
  const json unkept = service.ask(kRespond, {{"input", "hi"}, {"store", false}});
  EXPECT_EQ(service.get(std::string(kRespond) + "/" + unkept["id"].get<std::string>()).status, 404);
  const std::string id = unkept["id"].get<std::string>();
  EXPECT_EQ(service.refused(kRespond, {{"input", "hi"}, {"previous_response_id", id}}),
            "404 previous_response_id: there is no response '" + id +
                "', or it is not kept any more: send what it says instead");
}

TEST_F(Talking, ResponsesHaveTheFormThatIsAskedFor) {
  const Service service(engine_);
  const json schema = {{"type", "object"},
                       {"properties", {{"n", {{"enum", {7}}}}}},
                       {"required", {"n"}},
                       {"additionalProperties", false}};
  const json format = {{"type", "json_schema"}, {"name", "x"}, {"strict", true}, {"schema", schema}};
  const json answer =
      service.ask(kRespond, {{"input", "hi"}, {"text", {{"format", format}}}, {"max_output_tokens", 100}});
  EXPECT_EQ(json::parse(text_of(answer)), (json{{"n", 7}}));
  EXPECT_EQ(answer["text"]["format"], format);

  json weather = function_tool("weather");
  weather["parameters"] = {{"type", "object"},
                           {"properties", {{"town", {{"enum", {"Rome"}}}}}},
                           {"required", {"town"}},
                           {"additionalProperties", false}};
  const json tools = {function_tool("time"), weather};
  const json forced = {
      {"input", "hi"}, {"tools", tools}, {"tool_choice", function_tool("weather")}, {"max_output_tokens", 100}};
  const json call = service.ask(kRespond, forced);
  ASSERT_EQ(call["output"].size(), 1u);
  EXPECT_EQ(call["status"], "completed");
  EXPECT_EQ(call["output"][0]["name"], "weather");
  EXPECT_EQ(call["output"][0]["arguments"], R"({"town":"Rome"})");
  EXPECT_EQ(types_of(events_of(service, forced)),
            (std::vector<std::string>{"response.created", "response.in_progress", "response.output_item.added",
                                      "response.function_call_arguments.delta", "response.function_call_arguments.done",
                                      "response.output_item.done", "response.completed"}));
}

TEST_F(Talking, WhatIsThoughtIsTheSummaryForThoseWhoAskForOne) {
  const Service service(engine_);
  const json request = {{"input", "hi"},
                        {"grammar", only("<think>\nwhy\n</think>\n\nso.")},
                        {"max_output_tokens", 90},
                        {"reasoning", {{"summary", "auto"}}}};
  const std::vector<json> events = events_of(service, request);
  EXPECT_EQ(put_together(events, "response.reasoning_summary_text.delta"), "why");
  EXPECT_EQ(put_together(events, "response.reasoning_text.delta"), "");
  const json reasoning = events.back()["response"]["output"][0];
  EXPECT_EQ(reasoning["summary"], (json{{{"type", "summary_text"}, {"text", "why"}}}));
  EXPECT_FALSE(reasoning.contains("content"));
  EXPECT_EQ(without_ids(service.ask(kRespond, request)["output"])[0], without_ids(json{reasoning})[0]);
}

TEST_F(Talking, CallsAreOfTheFunctionsNamespace) {
  const Service service(engine_);
  const json space = {{"type", "namespace"}, {"name", "sky"}, {"tools", {function_tool("weather")}}};
  const json choice = {{"type", "function"}, {"namespace", "sky"}, {"name", "weather"}};
  const json answer =
      service.ask(kRespond, {{"input", "hi"}, {"tools", {space}}, {"tool_choice", choice}, {"max_output_tokens", 100}});
  ASSERT_EQ(answer["output"].size(), 1u);
  EXPECT_EQ(answer["output"][0]["name"], "weather");
  EXPECT_EQ(answer["output"][0]["namespace"], "sky");
}

TEST_F(Talking, InputIsCountedWithoutAnAnswer) {
  const Service service(engine_);
  const json request = {{"input", "hi"}, {"instructions", "S"}};
  const json counted = service.ask("/v1/responses/input_tokens", request);
  EXPECT_EQ(counted["object"], "response.input_tokens");
  EXPECT_EQ(counted["input_tokens"], service.ask(kRespond, request)["usage"]["input_tokens"]);
}

TEST_F(Talking, AnAnswerThatSaysNothingIsAMessageAllTheSame) {
  const Service service(engine_);
  const json answer = service.ask(kRespond, {{"input", "hi"}, {"grammar", "root ::= \"\""}});
  ASSERT_EQ(answer["output"].size(), 1u);
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "");
}

TEST(ApiService, AResponseThatFailsSaysSoInItsStream) {
  EngineOptions options = seedling_options();
  options.backend_strict = true;
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
  options.backend_options = {{"fail.at", "5"}, {"fail.function", "forward_wait"}};
  const Engine engine = Engine::load(options);
  const Service service(engine);
  const std::vector<json> events = events_of(service, {{"input", "The wolf"}, {"ignore_eos", true}});
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back()["type"], "response.failed");
  const json &response = events.back()["response"];
  EXPECT_EQ(response["status"], "failed");
  EXPECT_EQ(response["error"]["code"], "server_error");
  EXPECT_NE(response["error"]["message"].get<std::string>().find("injected into forward_wait"), std::string::npos);
  EXPECT_EQ(service.get(std::string(kRespond) + "/" + response["id"].get<std::string>()).status, 404);
}

// Each in its API's words.
TEST(ApiService, AStreamThatTheServersEndCutsEndsAsOneThatFails) {
  const Engine engine = load_seedling();
  ApiOptions options = greedy_options();
  options.defaults.ignore_eos = true;
  Service service(engine, options, {.port = 0, .grace = std::chrono::milliseconds(1)});
  Client response(service.port()), message(service.port()), completion(service.port());
  const auto begin = [](Client &client, const std::string &path, json request, const std::string &until) {
    request.update({{"stream", true}, {"max_output_tokens", 900}, {"max_tokens", 900}});
    client.request("POST", path, request.dump());
    EXPECT_TRUE(client.read_until(until));
  };
  begin(response, kRespond, {{"input", "The wolf"}}, "event: response.output_text.delta");
  begin(message, "/v1/messages", {{"messages", user("The wolf")}}, "event: content_block_delta");
  begin(completion, kComplete, {{"prompt", "The wolf"}}, "data: ");
  service.stop();
  const auto last_of = [](Client &client) {
    const Response answer = client.response();
    EXPECT_TRUE(answer.is_complete);
    return json::parse(answer.events().back());
  };
  const std::string why = "the server is ending: the answer took longer than it had left";
  const json failed = last_of(response);
  EXPECT_EQ(failed["type"], "response.failed");
  EXPECT_EQ(failed["response"]["status"], "failed");
  EXPECT_EQ(failed["response"]["error"], (json{{"code", "server_error"}, {"message", why}}));
  EXPECT_GT(failed["sequence_number"], 2);
  for (Client *client : {&message, &completion}) {
    const json error = last_of(*client);
    EXPECT_EQ(error["type"], "error");
    EXPECT_EQ(error["error"]["message"], why);
    EXPECT_EQ(error["error"]["type"], client == &message ? "overloaded_error" : "server_error");
  }
}

}  // namespace
}  // namespace bonsai::server
