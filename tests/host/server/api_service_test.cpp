// OpenAI's API over a real connection, but for conversations: what clients get is what the library gives.
#include <bonsai/chat.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/host/server/service.h"
#include "tests/model/tiny_model.h"

namespace bonsai::server {
namespace {

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
  const std::vector<int32_t> special = engine_.tokenize("<|im_start|>The wolf");
  const json begun = service.ask(kComplete, {{"prompt", special}, {"max_tokens", 1}, {"echo", true}});
  EXPECT_EQ(begun["choices"][0]["text"].get<std::string>().rfind("<|im_start|>The wolf", 0), 0u);
}

// As OpenAI's reference has it: for the prompt to be read, or echoed.
TEST_F(Telling, ATextMayHaveNoTokens) {
  const Service service(engine_);
  json request = {{"prompt", "The wolf"}, {"max_tokens", 0}};
  const json answer = service.ask(kComplete, request);
  EXPECT_EQ(answer["choices"][0]["text"], "");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 0);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], engine_.tokenize_prompt("The wolf").size());
  request["echo"] = true;
  EXPECT_EQ(service.ask(kComplete, request)["choices"][0]["text"], "The wolf");
  std::string streamed;
  std::vector<json> events = service.stream(kComplete, request);
  for (const json &event : events) streamed += event["choices"][0]["text"];
  EXPECT_EQ(streamed, "The wolf");
  EXPECT_EQ(events.back()["choices"][0]["finish_reason"], "length");
  request = {{"prompt", "The wolf"}, {"max_tokens", 0}, {"logprobs", 1}};
  EXPECT_EQ(service.ask(kComplete, request)["choices"][0]["logprobs"]["tokens"], json::array());
  EXPECT_EQ(service.post(kComplete, {{"prompt", {4096}}, {"max_tokens", 0}}).status, 400);
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
  options.defaults.sampling.logit_bias = {{263, -0.5f}};
  const Service service(engine_, options);
  GenerateOptions stopped = greedy(16);
  stopped.stop = {" the"};
  stopped.sampling.logit_bias = options.defaults.sampling.logit_bias;
  const std::string prompt = "Once upon a time";
  const json answer = service.ask(kComplete, {{"prompt", prompt}});
  EXPECT_EQ(answer["choices"][0]["text"], engine_.generate(prompt, stopped).text);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(
      service.ask(kComplete,
                  {{"prompt", prompt}, {"stop", json::array()}, {"logit_bias", json::object()}})["choices"][0]["text"],
      engine_.generate(prompt, greedy(16)).text);
  GenerateOptions other = greedy(16);
  other.sampling.temperature = 0.9f;
  other.sampling.top_k = 7;
  other.sampling.top_p = 0.8f;
  other.sampling.min_p = 0.01f;
  other.sampling.repetition_penalty = 1.2f;
  other.sampling.presence_penalty = 0.3f;
  other.sampling.frequency_penalty = 0.2f;
  other.sampling.logit_bias = {{7, 2.0f}};  // in the place of the server's
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
            engine_.tokenize_to_embed("The wolf").size() + engine_.tokenize_to_embed("The King").size());
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

TEST_F(Telling, TokensOfATextAndBack) {
  const Service service(engine_);
  const std::string text = "<|im_start|>The wolf";
  EXPECT_EQ(service.ask("/tokenize", {{"content", text}})["tokens"], engine_.tokenize(text));
  EXPECT_EQ(service.ask("/tokenize", {{"content", text}, {"parse_special", false}})["tokens"],
            engine_.tokenize(text, false));
  const json prompt = service.ask("/tokenize", {{"content", text}, {"add_special", true}})["tokens"];
  EXPECT_EQ(prompt, engine_.tokenize_prompt(text));
  EXPECT_EQ(service.ask("/detokenize", {{"tokens", engine_.tokenize(text)}})["content"], text);
  EXPECT_EQ(service.ask("/detokenize", {{"tokens", json::array()}})["content"], "");
  EXPECT_EQ(service.post("/detokenize", {{"tokens", {4096}}}).status, 400);
}

TEST_F(Telling, TheContextIsWhatFitsIntoTheCache) {
  ApiOptions options = greedy_options();
  options.batch.kv_tokens = 100;
  const Service service(engine_, options);
  EXPECT_EQ(json::parse(service.get("/v1/models/it").body)["context_length"], 100);
  EXPECT_EQ(json::parse(service.get("/props").body)["default_generation_settings"]["n_ctx"], 100);
}

TEST_F(Telling, ModelsHealthAndPageAreThere) {
  const Service service(engine_);
  const json models = json::parse(service.get("/v1/models").body);
  EXPECT_EQ(models["data"][0]["id"], "it");
  EXPECT_EQ(json::parse(service.get("/v1/models/it").body)["context_length"], engine_.model().context);
  EXPECT_EQ(service.get("/v1/models/i%74").status, 200);
  EXPECT_EQ(json::parse(service.get("/v1/models/").body), models);
  EXPECT_EQ(service.get("/v1/models/other").status, 404);
  EXPECT_EQ(service.get("/v1/models/it%").status, 404);
  EXPECT_EQ(service.get("/health").body, "{\"status\": \"ok\"}\n");
  const json properties = json::parse(service.get("/props").body);
  EXPECT_EQ(properties["model_alias"], "it");
  EXPECT_EQ(properties["total_slots"], greedy_options().batch.max_sequences);
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
  EXPECT_EQ(service.metric("bonsai_embedded_tokens_total"), engine_.tokenize_to_embed("The wolf").size());
  EXPECT_EQ(service.metric("bonsai_first_token_seconds_count"), 1u);
  EXPECT_EQ(service.metric("bonsai_texts_running"), 0u);
  EXPECT_TRUE(
      comes_true([&] { return service.metric("bonsai_http_requests_total{route=\"other\",status=\"404\"}") == 2; }));
}

// ---------------------------------------------------------------------------------------------------------------------
// Clients that ask for too much, or may not

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
  const std::string basic = "Authorization: Basic dXNlcjpw\r\n", wrong = "Authorization: Bearer x\r\n";
  EXPECT_EQ(status("X-Api-Key: secret\r\n"), 200);
  EXPECT_EQ(status("X-Api-Key: secret2\r\n"), 401);
  EXPECT_EQ(status(basic + "X-Api-Key: secret\r\n"), 200) << "a proxy has a login of its own";
  EXPECT_EQ(status(wrong + "X-Api-Key: secret\r\n"), 200);
  EXPECT_EQ(status("Authorization: Bearer secret\r\nX-Api-Key: x\r\n"), 200);
  EXPECT_EQ(status(wrong + "X-Api-Key: x\r\n"), 401);
  const auto said = [&](const std::string &headers) {
    return json::parse(service.get("/v1/models", headers).body)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(said(basic + "X-Api-Key: x\r\n"), "wrong API key");
  EXPECT_EQ(said(wrong), "wrong API key");
  EXPECT_EQ(said(basic), "no API key: expected the header 'Authorization: Bearer KEY'");
  EXPECT_EQ(service.get("/v1/models").header("www-authenticate"), "Bearer");
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}}),
            "401 no API key: expected the header 'Authorization: Bearer KEY'");
  EXPECT_EQ(service.get("/metrics").status, 401);
  EXPECT_EQ(service.get("/health").status, 200);
  EXPECT_EQ(service.get("/").status, 200);
}

TEST_F(Telling, SaysWhichOfManyTextsIsWrong) {
  const Service service(engine_);
  EXPECT_EQ(service.refused(kEmbed, {{"input", {"a", ""}}}), "400 input[1]: empty text: there is nothing to embed");
  EXPECT_EQ(service.refused(kEmbed, {{"input", ""}}), "400 input: empty text: there is nothing to embed");
  const std::string unknown = "token id 99999 is outside the vocabulary of 4096";
  EXPECT_EQ(service.refused(kComplete, {{"prompt", {{1}, {99999}}}}), "400 prompt[1]: " + unknown);
  EXPECT_EQ(service.refused(kComplete, {{"prompt", {"a", "b"}}, {"logit_bias", {{"99999", 1}}}}),
            "400 logit bias: token 99999 is outside the vocabulary of 4096");
  EXPECT_EQ(service.refused(kComplete, {{"prompt", json::array({{99999}})}}), "400 prompt: " + unknown);
  EXPECT_EQ(service.metric("bonsai_texts_running"), 0u);
}

// What /apply-template says goes on as the conversation would: the model's BOS is not there twice.
TEST_F(Telling, ATemplatesTextIsContinuedAsItsConversationIs) {
  const Service service(engine_);
  const json messages = user("hi");
  const json answer = service.ask(kChat, {{"messages", messages}, {"max_tokens", 8}});
  const std::string prompt = service.ask("/apply-template", {{"messages", messages}})["prompt"];
  EXPECT_TRUE(prompt.starts_with("<|im_start|>")) << prompt;
  const json continued = service.ask(kComplete, {{"prompt", prompt}, {"max_tokens", 8}});
  EXPECT_EQ(continued["usage"]["prompt_tokens"], answer["usage"]["prompt_tokens"]);
  EXPECT_EQ(continued["choices"][0]["text"], answer["choices"][0]["message"]["content"]);
}

// An answer to results without the calls would be one to another conversation. In each API's words.
TEST_F(Telling, CallsThatTheTemplateLeavesOutAreRefused) {
  const Service service(engine_);
  const std::string refusal = "400 tool_calls: the model's chat template knows none";
  const json call = {{"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}};
  const json chat = {{{"role", "user"}, {"content", "hi"}},
                     {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                     {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "r"}}};
  EXPECT_EQ(service.refused(kChat, {{"messages", chat}}), refusal);
  EXPECT_EQ(service.refused("/apply-template", {{"messages", chat}}), refusal);
  const json use = {{"type", "tool_use"}, {"id", "1"}, {"name", "f"}, {"input", json::object()}};
  const json result = {{"type", "tool_result"}, {"tool_use_id", "1"}, {"content", "r"}};
  const json blocks = {{{"role", "user"}, {"content", "hi"}},
                       {{"role", "assistant"}, {"content", {use}}},
                       {{"role", "user"}, {"content", {result}}}};
  EXPECT_EQ(service.refused("/v1/messages", {{"messages", blocks}}), refusal);
  EXPECT_EQ(service.refused("/v1/messages/count_tokens", {{"messages", blocks}}), refusal);
  const json items = {{{"role", "user"}, {"content", "hi"}},
                      {{"type", "function_call"}, {"call_id", "1"}, {"name", "f"}, {"arguments", "{}"}},
                      {{"type", "function_call_output"}, {"call_id", "1"}, {"output", "r"}}};
  EXPECT_EQ(service.refused("/v1/responses", {{"input", items}}), refusal);
}

TEST_F(Telling, SaysWhatIsWrongWithATextOrWhatItIsToDo) {
  const Service service(engine_);
  EXPECT_EQ(service.refused(kComplete, {{"prompt", {1, 99999}}}),
            "400 prompt: token id 99999 is outside the vocabulary of 4096");
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}, {"tools", tools("f")}}),
            "400 tools: the model's chat template knows none");
  EXPECT_EQ(service.refused(kEmbed, {{"input", ""}}), "400 input: empty text: there is nothing to embed");
  EXPECT_EQ(service.refused(kEmbed, {{"input", "x"}, {"dimensions", 5}}),
            "400 dimensions: expected 256, which this model gives, found 5");
  EXPECT_EQ(service.refused("/v1/nothing", json::object()), "404 no such path: /v1/nothing");
  EXPECT_EQ(service.refused("/chat/completions", json::object()),
            "404 no such path: /chat/completions; expected /v1/chat/completions");
  EXPECT_EQ(service.refused("/v1/v1/embeddings", json::object()),
            "404 no such path: /v1/v1/embeddings; expected /v1/embeddings");
  EXPECT_EQ(service.refused("/models/it", json::object()), "404 no such path: /models/it; expected /v1/models/it");
  EXPECT_EQ(service.refused("/v1/v1/nothing", json::object()), "404 no such path: /v1/v1/nothing");
  EXPECT_EQ(service.refused("/v1/tokenize", json::object()), "404 no such path: /v1/tokenize; expected /tokenize");
  EXPECT_EQ(service.refused("/completion", json::object()), "404 no such path: /completion; expected /v1/completions");
  EXPECT_EQ(service.refused("/infill", json::object()), "404 no such path: /infill");
  EXPECT_EQ(service.refused("/v1/embeddings/", json::object()),
            "404 no such path: /v1/embeddings/; expected /v1/embeddings");
  EXPECT_EQ(service.refused("//v1//embeddings", json::object()),
            "404 no such path: //v1//embeddings; expected /v1/embeddings");
  EXPECT_EQ(service.refused("//", json::object()), "404 no such path: //; expected /");
  const Response wrong = Client(service.port()).get(kChat);
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.header("allow"), "POST");
  EXPECT_EQ(service.post("/health", json::object()).header("allow"), "GET, HEAD");
  EXPECT_EQ(service.get("/v1/health").body, service.get("/health").body);
  Client asking(service.port());
  asking.request("OPTIONS", "/v1/responses/x");
  const Response options = asking.response();
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.header("allow"), "GET, HEAD, DELETE, OPTIONS");
  // Of several prompts one is wrong: none is answered, and the places are free again.
  const std::string long_text(20000, 'x');
  EXPECT_EQ(service.refused(kComplete, {{"prompt", {"The wolf", long_text}}}).substr(0, 4), "400 ");
  EXPECT_TRUE(comes_true([&] { return service.metric("bonsai_texts_running") == 0; }));
}

TEST_F(Telling, IsNotMadeWithDefaultsThatEveryRequestWouldBeRefusedFor) {
  ApiOptions options = greedy_options();
  options.defaults.sampling.logit_bias = {{4096, 1.0f}};
  EXPECT_EQ(thrown_by([&] { ApiService(engine_, options); }).message,
            "logit bias: token 4096 is outside the vocabulary of 4096");
  options.defaults.sampling.logit_bias = {};
  options.defaults.stop = {"\xff"};
  EXPECT_EQ(thrown_by([&] { ApiService(engine_, options); }).message, "stop: invalid UTF-8 at byte offset 0");
}

TEST(ApiService, AModelWithoutAUsableTemplateStillContinuesTexts) {
  test::TinyModel model;
  model.without = {"tokenizer.chat_template"};
  model.metadata = [](gguf::Writer &writer) { writer.set_string("tokenizer.chat_template", "{{"); };
  const test::TinyModelFile file(model);
  const Engine engine = load(file.path());
  const Service service(engine);
  EXPECT_EQ(service.refused(kChat, {{"messages", user("hi")}}),
            "400 tokenizer.chat_template: line 1: the tag is never closed: expected '}}' (/v1/completions continues "
            "texts)");
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

TEST(ApiService, TellsWhereTextsAreComputedAlsoAfterAFailure) {
  EngineOptions options = seedling_options();
  options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
  options.backend_options = {{"fail.at", "5"}, {"fail.function", "forward_wait"}};
  const Engine engine = Engine::load(options);
  const Service service(engine);
  const std::string failing = "bonsai_backend_info{backend=\"failing\",device=\"a device that fails\"}";
  EXPECT_EQ(service.metric(failing), 1u);
  EXPECT_EQ(service.metric("bonsai_failed_over"), 0u);
  EXPECT_EQ(service.post(kComplete, {{"prompt", "The wolf"}}).status, 200);
  EXPECT_EQ(service.metric("bonsai_failed_over"), 1u);
  const std::string metrics = service.get("/metrics").body;
  EXPECT_NE(metrics.find("bonsai_backend_info{backend=\"cpu\","), std::string::npos) << metrics;
  EXPECT_EQ(metrics.find(failing), std::string::npos) << metrics;
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
        right += t % 2 == 0
                     ? service.ask(kComplete, {{"prompt", "The wolf"}})["choices"][0]["text"] == text
                     : service.ask(kEmbed, {{"input", "The King"}})["data"][0]["embedding"].get<std::vector<float>>() ==
                           embedding;
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
