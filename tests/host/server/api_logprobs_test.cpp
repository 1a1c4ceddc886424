// How likely the tokens were, as clients of OpenAI's API are told.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/host/server/service.h"

namespace bonsai::server {
namespace {

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

// What evaluation harnesses ask for, and what they make of it: how likely a prompt's continuation is, and whether it is
// what the model would have said.
TEST_F(Telling, LogprobsOfAPromptThatIsEchoed) {
  const Service service(engine_);
  const std::string context = "Once upon a time there was a",
                    prompt = context + engine_.generate(context, greedy(5)).text;
  const std::vector<int32_t> tokens = engine_.tokenize_prompt(prompt);
  const size_t n_context = engine_.tokenize_prompt(context).size();
  ASSERT_EQ(tokens.size(), n_context + 5);
  json request = {{"prompt", {prompt, tokens}}, {"max_tokens", 1}, {"echo", true}, {"logprobs", 1}};
  const json answer = service.ask(kComplete, request);
  EXPECT_EQ(answer["usage"]["prompt_tokens"], 2 * tokens.size());
  const json &logprobs = answer["choices"][0]["logprobs"];
  ASSERT_EQ(logprobs["tokens"].size(), tokens.size() + 1);
  EXPECT_EQ(logprobs["token_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  std::string text;
  Session session = engine_.new_session();
  session.append_tokens({tokens.data(), 1});
  for (size_t i = 1; i <= tokens.size(); ++i) {
    const std::string token = logprobs["tokens"][i];
    EXPECT_EQ(logprobs["text_offset"][i], text.size());
    text += token;
    const std::vector<float> logits = session.logits();
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double{logit});
    const int32_t id = i < tokens.size() ? tokens[i] : engine_.tokenize(token).at(0);
    EXPECT_NEAR(logprobs["token_logprobs"][i].get<double>(), logits[static_cast<size_t>(id)] - std::log(sum), 1e-6);
    const auto by_number = [](const json &a, const json &b) { return a < b; };
    const json &top = logprobs["top_logprobs"][i];
    EXPECT_TRUE(i < n_context || std::max_element(top.begin(), top.end(), by_number).key() == token) << "token " << i;
    session.append_tokens({&id, 1});
  }
  EXPECT_EQ(answer["choices"][0]["text"], text) << "BOS is not in the prompt";
  EXPECT_EQ(answer["choices"][1]["text"], engine_.detokenize({tokens.data(), 1}, true) + text);
  EXPECT_EQ(answer["choices"][1]["logprobs"]["token_logprobs"], logprobs["token_logprobs"]);

  EXPECT_EQ(service.stream(kComplete, request).end()[-2]["choices"][0]["logprobs"], logprobs);

  // Of several answers to a prompt each tells it, and it is computed once.
  request["n"] = 3;
  request["prompt"] = prompt;
  const double computed = service.metric("bonsai_prompt_tokens_total");
  const json three = service.ask(kComplete, request)["choices"];
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(three[i]["logprobs"], logprobs) << i;
  EXPECT_EQ(service.metric("bonsai_prompt_tokens_total") - computed, static_cast<double>(tokens.size()));
  request["n"] = 1;

  // A text that ends at once has the token that ended it: harnesses leave the last one out.
  const int32_t end = engine_.tokenize("<|im_end|>").at(0);
  request["logit_bias"] = {{std::to_string(end), 100}};
  const json ended = service.ask(kComplete, request);
  EXPECT_EQ(ended["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(ended["choices"][0]["text"], prompt);
  EXPECT_EQ(ended["usage"]["completion_tokens"], 0);
  const json &of_end = ended["choices"][0]["logprobs"];
  ASSERT_EQ(of_end["tokens"].size(), tokens.size() + 1);
  EXPECT_EQ(of_end["tokens"].back(), "<|im_end|>");
  EXPECT_EQ(of_end["text_offset"].back(), prompt.size());
  EXPECT_LT(of_end["token_logprobs"].back(), 0);
  request.erase("logit_bias");
  request["max_tokens"] = 0;
  EXPECT_EQ(service.ask(kComplete, request)["choices"][0]["logprobs"]["tokens"].size(), tokens.size());
}

// As with OpenAI: only tokens of what is returned, also where the text to stop at begins within one.
TEST_F(Telling, LogprobsEndWhereAStopTextEndsTheText) {
  const Service service(engine_);
  const auto expect_ends = [](const json &tokens, const std::string &text) {
    std::string all;
    for (const json &token : tokens) {
      EXPECT_LT(all.size(), text.size()) << tokens;
      all += token.get<std::string>();
    }
    EXPECT_TRUE(all.starts_with(text)) << tokens << text;
  };
  json request = {{"prompt", "Once upon a time"}, {"max_tokens", 16}, {"logprobs", 1}};
  const std::string whole = service.ask(kComplete, request)["choices"][0]["text"];
  for (size_t begin = 0; begin < 20; ++begin) {
    request["stop"] = whole.substr(begin, 12);
    const json choice = service.ask(kComplete, request)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "stop");
    EXPECT_EQ(choice["text"], whole.substr(0, whole.find(request["stop"].get<std::string>())));
    expect_ends(choice["logprobs"]["tokens"], choice["text"]);
    EXPECT_EQ(service.stream(kComplete, request).back()["choices"][0]["logprobs"], choice["logprobs"]);
  }
  json chat = {{"messages", user("hi")}, {"max_tokens", 16}, {"logprobs", true}};
  const std::string answer = service.ask(kChat, chat)["choices"][0]["message"]["content"];
  chat["stop"] = answer.substr(9, 12);
  const json choice = service.ask(kChat, chat)["choices"][0];
  json tokens = json::array();
  for (const json &entry : choice["logprobs"]["content"]) tokens.push_back(entry["token"]);
  expect_ends(tokens, choice["message"]["content"]);
  EXPECT_EQ(service.stream(kChat, chat).back()["choices"][0]["logprobs"], choice["logprobs"]);
}

}  // namespace
}  // namespace bonsai::server
