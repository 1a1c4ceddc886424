// OpenAI's API over a real connection: what clients get is what the library gives.
#include "host/server/api_service.h"

#include <bonsai/chat.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "host/server/http_server.h"
#include "tests/host/engine/seedling.h"
#include "tests/host/server/client.h"
#include "tests/model/tiny_model.h"

namespace bonsai::server {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

constexpr const char *kTemplate =
    "{% if tools %}{{ tools | tojson }}{% endif %}"
    "{% for m in messages %}{% if m.role == 'king' %}{{ raise_exception('no kings') }}{% endif %}"
    "<|im_start|>{{ m.role }}:{{ m.content }}"
    "{% for call in m.tool_calls %}{{ call.name }}{{ call.arguments | tojson }}{% endfor %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>a:"
    "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}{% endif %}";

test::TinyModel talking_model() {
  test::TinyModel model;
  model.context = 1024;  // a token is a byte
  model.metadata = [](gguf::Writer &writer) { writer.set_string("tokenizer.chat_template", kTemplate); };
  return model;
}

Engine load(const std::string &file) {
  EngineOptions options;
  options.model = file;
  return Engine::load(options);
}

ApiOptions greedy_options() {
  ApiOptions options;
  options.model_name = "it";
  options.defaults = greedy(24);
  options.batch = {.max_sequences = 4, .batch_tokens = 32};
  return options;
}

// A server of one model.
class Service {
 public:
  explicit Service(const Engine &engine, const ApiOptions &options = greedy_options())
      : server_({.port = 0}), service_(engine, options) {
    server_.listen();
    thread_ = std::jthread([this](const std::stop_token &stop) {
      server_.run({.handler =
                       [this](HttpRequest request, std::shared_ptr<Responder> responder) {
                         service_.handle(std::move(request), std::move(responder));
                       },
                   .served = [this](const Served &served) { service_.served(served); }},
                  stop);
    });
  }

  uint16_t port() const { return server_.port(); }
  Response get(const std::string &path, const std::string &headers = "") const {
    return Client(port()).get(path, headers);
  }
  Response post(const std::string &path, const json &body, const std::string &headers = "") const {
    return Client(port()).post(path, body.is_string() ? body.get<std::string>() : body.dump(), headers);
  }
  // The answer as JSON; a failure where it is an error.
  json ask(const std::string &path, const json &body) const {
    const Response response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return json::parse(response.body);
  }
  // The events but for the last, which has to be [DONE].
  std::vector<json> stream(const std::string &path, json body) const {
    body["stream"] = true;
    const Response response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_TRUE(response.is_complete);
    std::vector<std::string> events = response.events();
    if (events.empty() || events.back() != "[DONE]") {
      ADD_FAILURE() << response.body;
      return {};
    }
    events.pop_back();
    std::vector<json> parsed;
    for (const std::string &event : events) parsed.push_back(json::parse(event));
    return parsed;
  }
  // "400 message".
  std::string refused(const std::string &path, const json &body) const {
    const Response response = post(path, body);
    const json error = json::parse(response.body)["error"];
    return std::to_string(response.status) + " " + error["message"].get<std::string>();
  }
  uint64_t metric(const std::string &name) const {
    const std::string text = "\n" + get("/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, text.npos) << name;
    return std::stoull(text.substr(at + name.size() + 2));
  }

 private:
  HttpServer server_;
  ApiService service_;
  std::jthread thread_;  // stops first
};

bool comes_true(const std::function<bool()> &what) {
  for (int i = 0; i < 3000; ++i, std::this_thread::sleep_for(10ms))
    if (what()) return true;
  return false;
}

constexpr const char *kChat = "/v1/chat/completions", *kComplete = "/v1/completions", *kEmbed = "/v1/embeddings";

json user(const std::string &text) { return {{{"role", "user"}, {"content", text}}}; }
// Has the model say exactly this.
std::string only(const std::string &text) { return "root ::= " + json(text).dump(); }

json tools(const std::string &name) { return {{{"type", "function"}, {"function", {{"name", name}}}}}; }

class Talking : public testing::Test {
 protected:
  const test::TinyModelFile file_{talking_model()};
  const Engine engine_ = load(file_.path());
};

class Telling : public testing::Test {
 protected:
  const Engine engine_ = load_seedling();
};

// ---------------------------------------------------------------------------------------------------------------------
// Chat

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
  const json message = service.ask(kChat, request)["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "why");
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
  }
  request["tool_choice"] = "required";
  request["seed"] = 3;
  request["temperature"] = 1;
  both[1]["function"]["parameters"] = both[0]["function"]["parameters"];
  request["tools"] = both;
  EXPECT_EQ(service.ask(kChat, request)["choices"][0]["finish_reason"], "tool_calls");
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
            service.ask(kChat, {{"messages", user("hi")}})["choices"]);
}

// ---------------------------------------------------------------------------------------------------------------------
// Texts

TEST_F(Telling, TextsGoOnAsTheLibraryContinuesThem) {
  const Service service(engine_);
  const std::string prompt = "Once upon a time";
  const Generation generation = engine_.generate(prompt, greedy(12));
  const json answer = service.ask(kComplete, {{"prompt", prompt}, {"max_tokens", 12}});
  EXPECT_EQ(answer["object"], "text_completion");
  EXPECT_EQ(answer["choices"][0]["text"], generation.text);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], generation.stats.prompt_tokens);
  const std::vector<int32_t> tokens = engine_.tokenize_prompt(prompt);
  EXPECT_EQ(service.ask(kComplete, {{"prompt", tokens}, {"max_tokens", 12}})["choices"], answer["choices"]);
  EXPECT_EQ(service.ask(kComplete, {{"prompt", prompt}})["usage"]["completion_tokens"], 16);  // as OpenAI has it
  const json echoed = service.ask(kComplete, {{"prompt", prompt}, {"max_tokens", 12}, {"echo", true}});
  EXPECT_EQ(echoed["choices"][0]["text"], prompt + generation.text);
  std::string streamed;
  for (const json &event : service.stream(kComplete, {{"prompt", prompt}, {"max_tokens", 12}, {"echo", true}}))
    streamed += event["choices"][0]["text"];
  EXPECT_EQ(streamed, prompt + generation.text);
}

TEST_F(Telling, ManyPromptsAreAnsweredInOrder) {
  const Service service(engine_);
  const json prompts = {"Once upon a time", "The wolf", "The King"};
  const json answer = service.ask(kComplete, {{"prompt", prompts}, {"max_tokens", 5}, {"n", 2}});
  ASSERT_EQ(answer["choices"].size(), 6u);
  uint64_t n_prompt = 0;
  for (size_t i = 0; i < 6; ++i) {
    const Generation generation = engine_.generate(prompts[i / 2].get<std::string>(), greedy(5));
    EXPECT_EQ(answer["choices"][i]["index"], i);
    EXPECT_EQ(answer["choices"][i]["text"], generation.text);
    if (i % 2 == 0) n_prompt += generation.stats.prompt_tokens;
  }
  EXPECT_EQ(answer["usage"]["prompt_tokens"], n_prompt);
}

TEST_F(Telling, WhatARequestLeavesOpenIsTheServers) {
  ApiOptions options = greedy_options();
  options.defaults.stop = {" the"};
  const Service service(engine_, options);
  GenerateOptions stopped = greedy(16);
  stopped.stop = {" the"};
  const std::string prompt = "Once upon a time";
  const json answer = service.ask(kComplete, {{"prompt", prompt}});
  EXPECT_EQ(answer["choices"][0]["text"], engine_.generate(prompt, stopped).text);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(service.ask(kComplete, {{"prompt", prompt}, {"stop", json::array()}})["choices"][0]["text"],
            engine_.generate(prompt, greedy(16)).text);
  GenerateOptions other = greedy(16);
  other.sampling.temperature = 0.9f;
  other.sampling.top_k = 7;
  other.sampling.top_p = 0.8f;
  other.sampling.min_p = 0.01f;
  other.sampling.repetition_penalty = 1.2f;
  other.sampling.presence_penalty = 0.3f;
  other.sampling.frequency_penalty = 0.2f;
  other.sampling.logit_bias = {{7, 2.0f}};
  other.sampling.seed = 11;
  const json request = {{"prompt", prompt},
                        {"stop", json::array()},
                        {"temperature", 0.9},
                        {"top_k", 7},
                        {"top_p", 0.8},
                        {"min_p", 0.01},
                        {"repetition_penalty", 1.2},
                        {"presence_penalty", 0.3},
                        {"frequency_penalty", 0.2},
                        {"logit_bias", {{"7", 2}}},
                        {"seed", 11}};
  EXPECT_EQ(service.ask(kComplete, request)["choices"][0]["text"], engine_.generate(prompt, other).text);
}

TEST_F(Telling, LogprobsAreTheLibrarys) {
  const Service service(engine_);
  GenerateOptions options = greedy(6);
  options.logprobs = 2;
  const Generation generation = engine_.generate("The wolf", options);
  const json logprobs =
      service.ask(kComplete, {{"prompt", "The wolf"}, {"max_tokens", 6}, {"logprobs", 2}})["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), 6u);
  std::string text;
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    text += logprobs["tokens"][i].get<std::string>();
    EXPECT_NEAR(logprobs["token_logprobs"][i].get<double>(), generation.logprobs[i].chosen.logprob, 1e-9);
    EXPECT_EQ(logprobs["top_logprobs"][i].size(), 2u);
  }
  EXPECT_EQ(text, generation.text);

  const json chat = {{"messages", user("hi")}, {"max_tokens", 4}, {"logprobs", true}, {"top_logprobs", 3}};
  const json whole = service.ask(kChat, chat)["choices"][0]["logprobs"]["content"];
  ASSERT_EQ(whole.size(), 4u);
  EXPECT_EQ(whole[0]["top_logprobs"].size(), 3u);
  EXPECT_EQ(whole[0]["token"], whole[0]["top_logprobs"][0]["token"]);  // greedy
  json streamed = json::array();
  for (const json &event : service.stream(kChat, chat))
    if (const json &part = event["choices"][0]["logprobs"]; !part.is_null())
      streamed.insert(streamed.end(), part["content"].begin(), part["content"].end());
  EXPECT_EQ(streamed, whole);
  const json none = {{"messages", user("hi")}, {"max_tokens", 4}, {"logprobs", true}};
  EXPECT_EQ(service.ask(kChat, none)["choices"][0]["logprobs"]["content"][0]["top_logprobs"], json::array());
}

// ---------------------------------------------------------------------------------------------------------------------
// Embeddings, models, health

TEST_F(Telling, EmbeddingsAreTheLibrarys) {
  const Service service(engine_);
  const std::vector<float> wolf = engine_.embed("The wolf"), king = engine_.embed("The King");
  const json answer = service.ask(kEmbed, {{"input", {"The wolf", "The King"}}, {"dimensions", wolf.size()}});
  ASSERT_EQ(answer["data"].size(), 2u);
  EXPECT_EQ(answer["data"][0]["embedding"].get<std::vector<float>>(), wolf);
  EXPECT_EQ(answer["data"][1]["embedding"].get<std::vector<float>>(), king);
  EXPECT_EQ(answer["data"][1]["index"], 1);
  EXPECT_EQ(answer["usage"]["prompt_tokens"],
            engine_.tokenize("The wolf").size() + engine_.tokenize("The King").size());
  const std::vector<int32_t> tokens = {5, 6, 7};
  EXPECT_EQ(service.ask(kEmbed, {{"input", tokens}})["data"][0]["embedding"].get<std::vector<float>>(),
            engine_.embed_tokens(tokens));
}

TEST_F(Telling, EmbeddingsComeInBase64) {
  const Service service(engine_);
  const json answer = service.ask(kEmbed, {{"input", "The wolf"}, {"encoding_format", "base64"}});
  const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char c : answer["data"][0]["embedding"].get<std::string>()) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    n_bits += 6;
    if (n_bits >= 8) bytes += static_cast<char>(bits >> (n_bits -= 8));
  }
  const std::vector<float> expected = engine_.embed("The wolf");
  std::vector<float> numbers(bytes.size() / sizeof(float));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(float));
  EXPECT_EQ(numbers, expected);
}

TEST_F(Telling, ModelsHealthAndPageAreThere) {
  const Service service(engine_);
  const json models = json::parse(service.get("/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "it");
  EXPECT_EQ(json::parse(service.get("/v1/models/it").body)["context_length"], engine_.model().context);
  EXPECT_EQ(service.get("/v1/models/i%74").status, 200);
  EXPECT_EQ(service.get("/v1/models/other").status, 404);
  EXPECT_EQ(service.get("/v1/models/it%").status, 404);
  EXPECT_EQ(service.get("/health").body, "{\"status\": \"ok\"}\n");
  const Response page = service.get("/");
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page.body.find("v1/chat/completions"), std::string::npos);
  EXPECT_NE(page.header("content-security-policy").find("default-src 'none'"), std::string::npos);
}

TEST_F(Telling, MetricsCountWhatWasDone) {
  const Service service(engine_);
  service.ask(kComplete, {{"prompt", "The wolf"}, {"max_tokens", 5}});
  service.ask(kEmbed, {{"input", "The wolf"}});
  service.get("/nowhere");
  service.get("/nowhere/else");
  EXPECT_EQ(service.metric("bonsai_generated_tokens_total"), 5u);
  EXPECT_EQ(service.metric("bonsai_prompt_tokens_total"), engine_.tokenize_prompt("The wolf").size());
  EXPECT_EQ(service.metric("bonsai_embedded_tokens_total"), engine_.tokenize("The wolf").size());
  EXPECT_EQ(service.metric("bonsai_first_token_seconds_count"), 1u);
  EXPECT_EQ(service.metric("bonsai_texts_running"), 0u);
  EXPECT_TRUE(
      comes_true([&] { return service.metric("bonsai_http_requests_total{route=\"other\",status=\"404\"}") == 2; }));
}

// ---------------------------------------------------------------------------------------------------------------------
// Clients that go, ask for too much, or may not

TEST_F(Telling, ATextEndsWhenItsClientGoes) {
  ApiOptions options = greedy_options();
  options.batch.max_sequences = 1;
  options.max_waiting = 0;
  options.defaults.ignore_eos = true;
  const Service service(engine_, options);
  const json endless = {{"prompt", "The wolf"}, {"max_tokens", 900}, {"stream", true}};
  Client client(service.port());
  client.request("POST", kComplete, endless.dump());
  EXPECT_TRUE(client.read_until("data: "));
  EXPECT_EQ(service.refused(kComplete, {{"prompt", "x"}}), "503 all 1 places are taken: try again later");
  client.close();
  EXPECT_TRUE(comes_true([&] { return service.post(kComplete, {{"prompt", "x"}, {"max_tokens", 1}}).status == 200; }));
  EXPECT_EQ(service.metric("bonsai_texts_running"), 0u);
  EXPECT_LT(service.metric("bonsai_generated_tokens_total"), 900u);
}

// Tells of nothing, but that it is no longer needed.
class Silent final : public Responder {
 public:
  explicit Silent(std::shared_ptr<int> held) : held_(std::move(held)) {}
  void reply(HttpReply) override {}
  void begin_events() override {}
  void event(std::string) override {}
  void end() override {}
  std::stop_token gone() const override { return {}; }

 private:
  std::shared_ptr<int> held_;
};

TEST_F(Telling, WhatIsUnderWayEndsWithTheService) {
  const auto held = std::make_shared<int>();
  {
    ApiOptions options = greedy_options();
    options.batch.max_sequences = 2;  // others wait
    ApiService service(engine_, options);
    const json body = {{"prompt", "The wolf"}, {"max_tokens", 900}, {"ignore_eos", true}};
    for (int i = 0; i < 6; ++i) {
      json request = body;
      request["stream"] = i % 2 == 0;
      service.handle({.method = "POST", .path = kComplete, .body = request.dump()}, std::make_shared<Silent>(held));
    }
    service.handle({.method = "POST", .path = kEmbed, .body = R"({"input": "The wolf"})"},
                   std::make_shared<Silent>(held));
    EXPECT_TRUE(comes_true([&] { return service.n_under_way() > 0; }));
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Telling, AsksForAKeyWhereItHasOne) {
  ApiOptions options = greedy_options();
  options.api_key = "secret";
  const Service service(engine_, options);
  const auto status = [&](const std::string &headers) { return service.get("/v1/models", headers).status; };
  EXPECT_EQ(status(""), 401);
  EXPECT_EQ(status("Authorization: Bearer secreT\r\n"), 401);
  EXPECT_EQ(status("Authorization: Bearer secret2\r\n"), 401);
  EXPECT_EQ(status("Authorization: secret\r\n"), 401);
  EXPECT_EQ(status("Authorization: Bearer secret\r\n"), 200);
  EXPECT_EQ(status("Authorization: bearer secret\r\n"), 200);
  EXPECT_EQ(service.get("/v1/models").header("www-authenticate"), "Bearer");
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}}),
            "401 no API key: expected the header 'Authorization: Bearer KEY'");
  EXPECT_EQ(service.get("/metrics").status, 401);
  EXPECT_EQ(service.get("/health").status, 200);
  EXPECT_EQ(service.get("/").status, 200);
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

TEST_F(Telling, SaysWhatIsWrongWithATextOrWhatItIsToDo) {
  const Service service(engine_);
  EXPECT_EQ(service.refused(kComplete, {{"prompt", {1, 99999}}}),
            "400 token id 99999 is outside the vocabulary of 4096");
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}, {"tools", tools("f")}}),
            "400 tools: the model's chat template knows none");
  EXPECT_EQ(service.refused(kEmbed, {{"input", ""}}), "400 empty text: there is nothing to embed");
  EXPECT_EQ(service.refused(kEmbed, {{"input", "x"}, {"dimensions", 5}}),
            "400 dimensions: expected 256, which this model gives, found 5");
  EXPECT_EQ(service.refused("/v1/nothing", json::object()), "404 no such path: /v1/nothing");
  const Response wrong = Client(service.port()).get(kChat);
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST");
  // Of several prompts one is wrong: none is answered, and the places are free again.
  const std::string long_text(20000, 'x');
  EXPECT_EQ(service.refused(kComplete, {{"prompt", {"The wolf", long_text}}}).substr(0, 4), "400 ");
  EXPECT_TRUE(comes_true([&] { return service.metric("bonsai_texts_running") == 0; }));
}

TEST(ApiService, AModelWithoutATemplateStillContinuesTexts) {
  test::TinyModel model;
  model.without = {"tokenizer.chat_template"};
  model.metadata = [](gguf::Writer &writer) { writer.set_string("tokenizer.chat_template", "{{"); };
  const test::TinyModelFile file(model);
  const Engine engine = load(file.path());
  const Service service(engine);
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}}),
            "400 the model has no chat template: it can continue texts (/v1/completions), not chat");
  EXPECT_EQ(service.post(kComplete, {{"prompt", "the"}}).status, 200);
}

// A backend that fails where the CPU may not take over.
TEST(ApiService, SaysThatABackendHasFailedAlsoWithinAStream) {
  EngineOptions options = seedling_options();
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
  options.backend_strict = true;
  options.backend_options = {{"fail.at", "5"}, {"fail.function", "forward_wait"}};
  const std::string why =
      "failing: injected into forward_wait (internal error); the CPU may not take over from a strictly chosen backend";
  {
    const Engine engine = Engine::load(options);
    const Service service(engine);
    EXPECT_EQ(service.refused(kComplete, {{"prompt", "The wolf"}}), "500 " + why);
    EXPECT_EQ(service.post(kComplete, {{"prompt", "The wolf"}}).status, 200);  // it failed once
  }
  const Engine engine = Engine::load(options);
  const Service service(engine);
  const Response response = service.post(kComplete, {{"prompt", "The wolf"}, {"stream", true}});
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.is_complete);
  const std::vector<std::string> events = response.events();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(json::parse(events.back())["error"]["message"], why);
  EXPECT_EQ(json::parse(events.back())["error"]["type"], "server_error");
}

TEST_F(Telling, EmbeddingsAndTextsAreComputedBesideOneAnother) {
  const Service service(engine_);
  const std::string text = engine_.generate("The wolf", greedy(16)).text;
  const std::vector<float> embedding = engine_.embed("The King");
  std::atomic<int> right = 0;
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 10; ++i)
        right += t % 2 == 0 ? service.ask(kComplete, {{"prompt", "The wolf"}})["choices"][0]["text"] == text
                            : service.ask(kEmbed, {{"input", "The King"}})["data"][0]["embedding"] == json(embedding);
    });
  threads.clear();
  EXPECT_EQ(right, 40);
}

TEST_F(Telling, ManyClientsEachGetTheirOwnText) {
  const Service service(engine_);
  const std::vector<std::string> prompts = {"Once upon a time", "The wolf", "The King", "In the forest"};
  std::vector<std::string> expected;
  for (const std::string &prompt : prompts) expected.push_back(engine_.generate(prompt, greedy(16)).text);
  std::atomic<int> right = 0;
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 4; ++i) {
        const size_t k = (t + i) % prompts.size();
        right += service.ask(kComplete, {{"prompt", prompts[k]}})["choices"][0]["text"] == expected[k];
      }
    });
  threads.clear();
  EXPECT_EQ(right, 32);
}

}  // namespace
}  // namespace bonsai::server
