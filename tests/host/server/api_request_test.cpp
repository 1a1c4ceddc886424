// What is read from clients' JSON, and what is refused, in which words.
#include "host/server/api_request.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "host/server/api_error.h"
#include "host/server/origin.h"

namespace bonsai::server {
namespace {

template <class Read>
std::string said(Read read) {
  try {
    read();
    return "nothing";
  } catch (const ApiError &error) {
    return error.status() == 400 ? error.what() : std::to_string(error.status()) + " " + error.what();
  }
}

std::string chat_said(const std::string &fields) {
  return said([&] {
    read_chat_request(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]" + (fields.empty() ? "" : ", " + fields) + "}", {});
  });
}
std::string messages_said(const std::string &messages) {
  return said([&] { read_chat_request("{\"messages\": " + messages + "}", {}); });
}
std::string completion_said(const std::string &body) {
  return said([&] { read_completion_request(body, {}); });
}

TEST(ApiRequest, FieldsThatAreNullOrUnknownChangeNothing) {
  GenerateOptions defaults;
  defaults.max_tokens = 77;
  defaults.sampling.temperature = 0.3f;
  defaults.stop = {"x"};
  const ChatRequest request = read_chat_request(
      R"({"messages": [{"role": "user", "content": "hi", "name": "n"}], "temperature": null, "max_tokens": null,
          "stop": null, "seed": null, "stream": null, "tools": null, "user": "me", "metadata": {"a": 1},
          "store": true, "service_tier": "auto", "functions": null})",
      defaults);
  EXPECT_EQ(request.options.max_tokens, 77u);
  EXPECT_EQ(request.options.sampling.temperature, 0.3f);
  EXPECT_EQ(request.options.stop, std::vector<std::string>{"x"});
  EXPECT_FALSE(request.stream);
  EXPECT_EQ(request.n, 1u);
  EXPECT_FALSE(request.top_logprobs);
  EXPECT_EQ(request.chat.tools, "");
  EXPECT_FALSE(request.chat.enable_thinking);
}

TEST(ApiRequest, TheNewerNameOfMaxTokensCounts) {
  const std::string begin = R"({"messages": [{"role": "user", "content": "hi"}], )";
  EXPECT_EQ(read_chat_request(begin + R"("max_tokens": 5})", {}).options.max_tokens, 5u);
  EXPECT_EQ(read_chat_request(begin + R"("max_tokens": 5, "max_completion_tokens": 6})", {}).options.max_tokens, 6u);
}

TEST(ApiRequest, SeedsAreWholeNumbersAndMinusOneIsAny) {
  const auto seed = [](const std::string &value) {
    GenerateOptions defaults;
    defaults.sampling.seed = 3;
    return read_completion_request("{\"prompt\": \"x\", \"seed\": " + value + "}", defaults).options.sampling.seed;
  };
  EXPECT_EQ(seed("9"), 9u);
  EXPECT_EQ(seed("null"), 3u);
  EXPECT_EQ(seed("-1"), std::nullopt);
  EXPECT_EQ(seed("-2"), std::numeric_limits<uint64_t>::max() - 1);
}

TEST(ApiRequest, MessagesBecomeTheLibrarys) {
  const ChatRequest request = read_chat_request(
      R"({"messages": [{"role": "developer", "content": "be brief"},
                       {"role": "assistant", "reasoning_content": "hm", "tool_calls": [
                          {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": [1]}"}},
                          {"id": "2", "type": "function", "function": {"name": "g", "arguments": ""}}]},
                       {"role": "tool", "tool_call_id": "1", "content": [{"type": "text", "text": "r"}]},
                       {"role": "tool", "tool_call_id": "2", "name": "g", "content": "s"}],
          "tools": [{"type": "function", "function": {"name": "f"}}],
          "chat_template_kwargs": {"enable_thinking": false}})",
      {});
  ASSERT_EQ(request.messages.size(), 4u);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "");
  EXPECT_EQ(request.messages[1].reasoning, "hm");
  EXPECT_EQ(request.messages[1].tool_calls,
            R"([{"id":"1","type":"function","function":{"name":"f","arguments":{"a":[1]}}},)"
            R"({"id":"2","type":"function","function":{"name":"g","arguments":{}}}])");
  EXPECT_EQ(request.messages[2].content, "r");
  EXPECT_EQ(request.messages[2].tool_calls, R"([{"id":"1"}])");
  EXPECT_EQ(request.messages[3].tool_calls, R"([{"id":"2","name":"g"}])");
  EXPECT_EQ(request.chat.tools, R"([{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(request.chat.enable_thinking, false);
}

// As OpenAI has it: the prompt has all tools, where a form holds the calls to those that may be called.
TEST(ApiRequest, SomeOfTheToolsMayBeAllowed) {
  const auto request = [](const std::string &mode, const std::string &more) {
    return read_chat_request(
        R"({"messages": [{"role": "user", "content": "x"}],
            "tools": [{"type": "function", "function": {"name": "f"}}, {"type": "function", "function": {"name": "g"}},
                      {"type": "function", "function": {"name": "h"}}],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": ")" +
            mode + R"(", "tools": [{"type": "function", "function": {"name": "h"}},
                                   {"type": "function", "function": {"name": "f"}}]}})" +
            more + "}",
        {});
  };
  const auto called = [](const std::string &schema) {
    std::string names;
    if (schema.empty()) return names;
    const Json json = Json::parse(schema);
    for (const Json &call : json["anyOf"]) names += call["properties"]["name"]["const"].get<std::string>();
    return names;
  };
  const auto shown = [](const ChatRequest &read) {
    std::string names;
    for (const Json &tool : Json::parse(read.chat.tools)) names += tool["function"]["name"].get<std::string>();
    return names;
  };
  const ChatRequest forced = request("required", "");
  EXPECT_EQ(called(forced.call_schema), "fh");
  EXPECT_EQ(shown(forced), "fgh");
  const ChatRequest in_form = request("auto", R"(, "response_format": {"type": "json_object"})");
  EXPECT_EQ(in_form.call_schema, "");
  EXPECT_EQ(called(in_form.options.call_schema), "fh");
  EXPECT_EQ(shown(in_form), "fgh");
  const ChatRequest free = request("auto", "");
  EXPECT_EQ(free.call_schema + free.options.call_schema, "");
  EXPECT_EQ(shown(free), "fh");
}

TEST(ApiRequest, PartsOfATextAreLines) {
  const ChatRequest request = read_chat_request(
      R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]})",
      {});
  EXPECT_EQ(request.messages[0].content, "a\nb");
}

// The words of OpenAI, Ollama, OpenRouter, Anthropic and the templates themselves for the same thing.
TEST(ApiRequest, ThinkingIsSwitchedInAnyonesWords) {
  const auto thinking = [](const std::string &field) {
    return read_chat_request("{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], " + field + "}", {})
        .chat.enable_thinking;
  };
  for (const char *off :
       {R"("reasoning_effort": "none")", R"("think": false)", R"("reasoning": {"effort": "none"})",
        R"("reasoning": {"enabled": false})", R"("thinking": {"type": "disabled"})", R"("enable_thinking": false)"})
    EXPECT_EQ(thinking(off), false) << off;
  for (const char *on : {R"("think": true)", R"("reasoning": {"enabled": true})",
                         R"("thinking": {"type": "enabled", "budget_tokens": 100})"})
    EXPECT_EQ(thinking(on), true) << on;
  for (const char *open : {R"("reasoning_effort": "low")", R"("think": "high")", R"("reasoning": {"effort": "low"})"})
    EXPECT_EQ(thinking(open), std::nullopt) << open;
}

TEST(ApiRequest, ASchemaMayStandInLlamaCppsPlace) {
  const ChatRequest request = read_chat_request(
      R"({"messages": [{"role": "user", "content": "x"}],
          "response_format": {"type": "json_schema", "schema": {"type": "null"}}})",
      {});
  EXPECT_EQ(request.options.json_schema, R"({"type":"null"})");
}

TEST(ApiRequest, PromptsAreTextsOrTokensOrManyOfThem) {
  const auto prompts = [](const std::string &value) {
    return read_completion_request("{\"prompt\": " + value + "}", {}).prompts;
  };
  EXPECT_EQ(prompts("\"a\""), std::vector<Prompt>{"a"});
  EXPECT_EQ(prompts("[1, 2]"), (std::vector<Prompt>{std::vector<int32_t>{1, 2}}));
  EXPECT_EQ(prompts("[\"a\", [3]]"), (std::vector<Prompt>{"a", std::vector<int32_t>{3}}));
  const EmbeddingRequest request = read_embedding_request(R"({"input": ["a", "b"], "encoding_format": "base64"})");
  EXPECT_EQ(request.inputs.size(), 2u);
  EXPECT_TRUE(request.is_base64);
}

TEST(ApiRequest, TextsAndTokensAreReadAsLlamasServerDoes) {
  const TokenizeRequest plain = read_tokenize_request(R"({"content": "a", "parse_special": false})");
  EXPECT_EQ(plain.content, "a");
  EXPECT_FALSE(plain.begins || plain.has_special);
  const TokenizeRequest prompt = read_tokenize_request(R"({"prompt": "b", "add_special": true})");
  EXPECT_EQ(prompt.content, "b");
  EXPECT_TRUE(prompt.begins && prompt.has_special);
  EXPECT_EQ(read_detokenize_request(R"({"tokens": [1, 2]})"), (std::vector<int32_t>{1, 2}));
  EXPECT_TRUE(read_detokenize_request(R"({"tokens": []})").empty());
  const auto said = [](auto read, const char *body) -> std::string {
    try {
      read(body);
    } catch (const ApiError &error) {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said(read_tokenize_request, "{}"), "content is missing");
  EXPECT_EQ(said(read_tokenize_request, R"({"content": "a", "with_pieces": true})"), "with_pieces: not supported");
  EXPECT_EQ(said(read_tokenize_request, R"({"content": "a", "add_special": true, "parse_special": false})"),
            "add_special: not supported without parse_special");
  EXPECT_EQ(said(read_detokenize_request, "{}"), "tokens is missing");
  EXPECT_EQ(said(read_detokenize_request, R"({"tokens": "a"})"), "tokens: expected token ids, found \"a\"");
  EXPECT_EQ(said(read_detokenize_request, R"({"tokens": [-1]})"), "tokens: expected token ids, found -1");
}

TEST(ApiRequest, FormatsBecomeSchemas) {
  const std::string begin = R"({"prompt": "x", "response_format": )";
  EXPECT_EQ(read_completion_request(begin + R"({"type": "text"}})", {}).options.json_schema, "");
  EXPECT_EQ(read_completion_request(begin + R"({"type": "json_object"}})", {}).options.json_schema,
            R"({"type": "object"})");
  EXPECT_EQ(
      read_completion_request(begin + R"({"type": "json_schema", "json_schema": {"schema": {"b": 1, "a": 2}}}})", {})
          .options.json_schema,
      R"({"b":1,"a":2})");
}

TEST(ApiRequest, WhatMeansNothingIsNotRefused) {
  EXPECT_EQ(chat_said(R"("functions": [], "function_call": "auto", "mirostat": 0, "typical_p": 1.0, "best_of": 1,
      "modalities": ["text"], "stop_token_ids": [], "use_beam_search": false, "add_generation_prompt": true,
      "n_probs": 0, "reasoning_format": "auto", "thinking_budget_tokens": -1, "reasoning_budget": -1,
      "parse_tool_calls": true, "top_n_sigma": -1, "t_max_predict_ms": 0, "skip_special_tokens": true, "lora": [],
      "echo": false, "top_a": 0.0, "include_reasoning": true, "thinking_token_budget": -1, "stop_regex": [],
      "reasoning": {"exclude": false}, "min_new_tokens": 0, "regex": null, "ebnf": "",
      "top_logprobs": 0, "logprobs": false, "reasoning_effort": "low", "parallel_tool_calls": false, "tools": [])"),
            "nothing");
  const CompletionRequest request =
      read_completion_request(R"({"prompt": "x", "stop": ["", "a", ""], "suffix": "", "logprobs": false})", {});
  EXPECT_EQ(request.options.stop, std::vector<std::string>{"a"});
  EXPECT_FALSE(request.top_logprobs);
}

// What of a request is wrong, for a program to read.
TEST(ApiRequest, ErrorsNameTheField) {
  const auto field = [](const std::string &fields) -> std::string {
    try {
      read_chat_request(R"({"messages": [{"role": "user", "content": "x"}, {"role": "user"}], )" + fields + "}", {});
    } catch (const ApiError &error) {
      const Json json = Json::parse(error_json(error));
      return json["error"]["param"].is_null() ? "" : json["error"]["param"].get<std::string>();
    }
    return "nothing";
  };
  EXPECT_EQ(field(R"("temperature": "x")"), "temperature");
  EXPECT_EQ(field(R"("guided_regex": "x")"), "guided_regex");
  EXPECT_EQ(field(R"("stream_options": 3)"), "stream_options");
  EXPECT_EQ(field(R"("response_format": {})"), "response_format.type");
  EXPECT_EQ(field(R"("stop": [3])"), "stop[0]");
}

TEST(ApiRequest, WholeNumbersMayHaveAPoint) {
  const CompletionRequest request = read_completion_request(
      R"({"prompt": [1.0, 2], "n": 2.0, "max_tokens": 20.0, "top_k": 40.0, "seed": 3.0, "repeat_last_n": -1.0})", {});
  EXPECT_EQ(request.prompts, (std::vector<Prompt>{std::vector<int32_t>{1, 2}}));
  EXPECT_EQ(request.n, 2u);
  EXPECT_EQ(request.options.max_tokens, 20u);
  EXPECT_EQ(request.options.sampling.top_k, 40u);
  EXPECT_EQ(request.options.sampling.seed, 3u);
  EXPECT_EQ(request.options.sampling.penalty_window, -1);
}

TEST(ApiRequest, MinusOneIsNoLimit) {
  const auto most = [](const std::string &field) {
    return read_completion_request("{\"prompt\": \"x\", \"" + field + "\": -1, \"top_k\": -1}", {}).options;
  };
  for (const char *field : {"max_tokens", "n_predict", "max_completion_tokens"}) {
    EXPECT_EQ(most(field).max_tokens, std::numeric_limits<uint32_t>::max());
    EXPECT_EQ(most(field).sampling.top_k, 0u);
  }
}

TEST(ApiRequest, ThoseWhoAnswerNeedNotHaveSaidAnything) {
  const ChatRequest request = read_chat_request(
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "refusal": "no"},
                       {"role": "assistant", "content": null, "function_call": null}, {"role": "tool", "content": null},
                       {"role": "assistant", "content": [{"type": "refusal", "refusal": "never"}]}]})",
      {});
  EXPECT_EQ(request.messages[1].content, "no");
  EXPECT_EQ(request.messages[2].content, "");
  EXPECT_EQ(request.messages[3].content, "");
  EXPECT_EQ(request.messages[4].content, "never");
}

TEST(ApiRequest, ArgumentsThatAreNoObjectStayAsTheModelWroteThem) {
  const auto arguments = [](const std::string &value) {
    const std::string call = R"({"function": {"name": "f", "arguments": )" + value + "}}";
    return read_chat_request(R"({"messages": [{"role": "assistant", "tool_calls": [)" + call + "]}]}", {})
        .messages[0]
        .tool_calls;
  };
  const std::string begin = R"([{"type":"function","function":{"name":"f","arguments":)";
  EXPECT_EQ(arguments(R"({"a": 1})"), begin + R"({"a":1}}}])");
  EXPECT_EQ(arguments("\"null\""), begin + "{}}}]");
  EXPECT_EQ(arguments("\"{\\\"a\\\": \""), begin + R"("{\"a\": "}}])");
}

TEST(ApiRequest, ResultsComeInTheOrderOfTheCalls) {
  const std::string call = R"("type": "function", "function": {"name": "f", "arguments": "{}"}})";
  const ChatRequest request =
      read_chat_request(R"({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", )" + call +
                            R"(, {"id": "b", )" + call + R"(, {"id": "c", )" + call + R"(]},
          {"role": "tool", "tool_call_id": "c", "content": "C"}, {"role": "tool", "content": "?"},
          {"role": "tool", "tool_call_id": "a", "content": "A"}, {"role": "tool", "tool_call_id": "b", "content": "B"},
          {"role": "user", "content": "u"}, {"role": "tool", "tool_call_id": "a", "content": "late"}]})",
                        {});
  std::string order;
  for (const ChatMessage &message : request.messages) order += message.content + " ";
  EXPECT_EQ(order, " A B C ? u late ");
}

// As many as a body may hold, the last one first.
TEST(ApiRequest, ManyResultsAreOrderedInLittleTime) {
  constexpr size_t kResults = kMostParts / 14 - 1;  // as many as a body may hold
  std::string calls, results;
  for (size_t i = 0; i < kResults; ++i) {
    calls += fmt::format(R"({}{{"id":"{}","function":{{"name":"f"}}}})", i == 0 ? "" : ",", i);
    results += fmt::format(R"(,{{"role":"tool","tool_call_id":"{0}","content":"{0}"}})", kResults - 1 - i);
  }
  const ChatRequest request =
      read_chat_request(R"({"messages": [{"role": "assistant", "tool_calls": [)" + calls + "]}" + results + "]}", {});
  ASSERT_EQ(request.messages.size(), 1 + kResults);
  for (size_t i = 0; i < kResults; ++i) ASSERT_EQ(request.messages[1 + i].content, std::to_string(i));
}

// Each tool's parameters are a definition, so that what they refer to in themselves stays theirs.
TEST(ApiRequest, AForcedCallIsASchema) {
  const auto schema = [](const std::string &choice, const std::string &parameters) {
    return read_chat_request(R"({"messages": [{"role": "user", "content": "x"}], "tool_choice": )" + choice +
                                 R"(, "tools": [{"type": "function", "function": {"name": "f", "parameters": )" +
                                 parameters + R"(}}, {"type": "function", "function": {"name": "g"}}]})",
                             {})
        .call_schema;
  };
  const auto call = [](const std::string &name, const std::string &arguments) {
    return R"({"type":"object","properties":{"name":{"const":")" + name + R"("},"arguments":)" + arguments +
           R"(},"required":["name","arguments"],"additionalProperties":false})";
  };
  const std::string g = call("g", R"({"type":"object","properties":{}})");
  EXPECT_EQ(schema(R"({"type": "function", "function": {"name": "g"}})", "{}"), R"({"anyOf":[)" + g + "]}");
  const std::string own =
      R"({"type":"object","properties":{"p":{"$ref":"#/$defs/P"},"const":{"$ref":"#"},"r":{"const":{"$ref":"#"}}},)"
      R"("$defs":{"P":{"type":"integer"}}})";
  EXPECT_EQ(
      schema("\"required\"", own),
      R"({"$defs":{"0":{"type":"object","properties":{"p":{"$ref":"#/$defs/0/$defs/P"},"const":{"$ref":"#/$defs/0"},)"
      R"("r":{"const":{"$ref":"#"}}},"$defs":{"P":{"type":"integer"}}}},"anyOf":[)" +
          call("f", R"({"$ref":"#/$defs/0"})") + "," + g + "]}");
  // A call's arguments are an object, whatever else its parameters allow.
  EXPECT_EQ(schema("\"required\"", R"({"type":["object","null"]})"),
            R"({"$defs":{"0":{"type":["object","null"]}},"anyOf":[)" +
                call("f", R"({"allOf":[{"$ref":"#/$defs/0"},{"type":"object"}]})") + "," + g + "]}");
  EXPECT_EQ(schema("\"auto\"", own), "");
}

// As OpenAI has it: who says nothing of parameters has none; who takes any says so.
TEST(ApiRequest, AForcedCallWithoutParametersHasNoArguments) {
  const auto arguments = [](const std::string &function) {
    const std::string schema =
        read_chat_request(R"({"messages": [{"role": "user", "content": "x"}], "tool_choice": "required", "tools": )"
                          R"([{"type": "function", "function": {"name": "f")" +
                              function + "}}]}",
                          {})
            .call_schema;
    return nlohmann::ordered_json::parse(schema)["anyOf"][0]["properties"]["arguments"].dump();
  };
  const std::string none = R"({"type":"object","properties":{}})", some = R"({"$ref":"#/$defs/0"})";
  for (const char *nothing :
       {"", R"(, "parameters": null)", R"(, "parameters": {})", R"(, "parameters": {"type": "object"})",
        R"(, "parameters": {"type": "object", "additionalProperties": null})",
        R"(, "parameters": {"type": "object", "title": "F", "additionalProperties": false})"})
    EXPECT_EQ(arguments(nothing), none) << nothing;
  for (const char *something : {R"(, "parameters": {"type": "object", "properties": {}})",
                                R"(, "parameters": {"type": "object", "additionalProperties": true})",
                                R"(, "parameters": {"additionalProperties": {}, "type": "object"})",
                                R"(, "parameters": {"type": "object", "additionalProperties": {"type": "string"}})"})
    EXPECT_EQ(arguments(something), some) << something;
}

TEST(ApiRequest, ACountWithoutAnEndIsAsLargeAsCanBe) {
  const auto most = [](const char *n) {
    return read_chat_request(
               std::string(R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": )") + n + "}", {})
        .options.max_tokens;
  };
  EXPECT_EQ(most("4294967295"), 4294967295u);
  EXPECT_EQ(most("4294967296"), 4294967295u);
}

TEST(ApiRequestRefuses, WhatIsNoObject) {
  const auto body = [](const std::string &text) { return completion_said(text); };
  EXPECT_EQ(body(""), "empty body: expected a JSON object");
  EXPECT_EQ(body(" \n"), "empty body: expected a JSON object");
  EXPECT_EQ(body("[1]"), "the body is array, expected a JSON object");
  EXPECT_EQ(body("{\"prompt\": }"), "the body is not JSON: wrong at byte 12");
  EXPECT_EQ(body("{\"prompt\": \"\xff\"}"), "the body is not JSON: wrong at byte 13");
  EXPECT_EQ(body({"{\"prompt\": \"a\"}\0x", 17}), "the body is not JSON: wrong at byte 16");
  EXPECT_EQ(body("{\"prompt\": 1e999}"), "the body is not JSON: a number is out of range");
  EXPECT_EQ(body("{\"x\": " + std::string(100'000, '[')), "the body is nested more than 100 deep");
  std::string names = "{\"prompt\": [{\"a\": {}}, {";
  for (int i = 0; i < 513; ++i) names += fmt::format("{}\"{}\": 0", i == 0 ? "" : ", ", i);
  EXPECT_EQ(body(names + "}]}"), "an object in the body has more than 512 names");
}

// As many objects as a body may hold. Anything that looks at all of them for each would not come to an end.
TEST(ApiRequest, ManyObjectsAreReadOneAfterTheOther) {
  std::string body = R"({"prompt": "x", "metadata": [{})";
  for (size_t n = 6; n < kMostParts; ++n) body += ",{}";
  EXPECT_EQ(completion_said(body + "]}"), "nothing");
  EXPECT_EQ(completion_said(body + ",[]]}"), "the body has more than 250000 objects, arrays and texts");
}

// Prompts that fill a context come in the one body.
TEST(ApiRequest, TokenIdsAreAsManyAsThereIsRoomFor) {
  std::string body = R"({"prompt": [1)";
  while (body.size() < (4u << 20) - 4) body += ",1";
  EXPECT_EQ(read_completion_request(body + "]}", {}).prompts.size(), 1u);
}

TEST(ApiRequestRefuses, ValuesOutOfRange) {
  EXPECT_EQ(chat_said(""), "nothing");
  EXPECT_EQ(chat_said("\"temperature\": -1"), "temperature: expected a number >= 0, found -1");
  EXPECT_EQ(chat_said("\"temperature\": \"hot\""), "temperature: expected a number >= 0, found \"hot\"");
  EXPECT_EQ(chat_said("\"top_p\": 1.5"), "top_p: expected a number from 0 to 1, found 1.5");
  EXPECT_EQ(chat_said("\"top_k\": -2"), "top_k: expected a whole number >= 0, or -1, found -2");
  EXPECT_EQ(chat_said("\"repeat_last_n\": -2"), "repeat_last_n: expected a whole number >= -1, found -2");
  EXPECT_EQ(chat_said("\"max_tokens\": -2"), "max_tokens: expected a whole number >= 1, or -1, found -2");
  EXPECT_EQ(chat_said("\"max_tokens\": 1e99"), "max_tokens: expected a whole number >= 1, or -1, found 1e+99");
  EXPECT_EQ(chat_said("\"repeat_penalty\": 0"), "repeat_penalty: expected a number > 0, found 0");
  EXPECT_EQ(chat_said("\"max_tokens\": 0"), "max_tokens: expected a whole number >= 1, or -1, found 0");
  EXPECT_EQ(chat_said("\"max_tokens\": 1.5"), "max_tokens: expected a whole number >= 1, or -1, found 1.5");
  EXPECT_EQ(chat_said("\"n\": 65"), "n: expected a whole number from 1 to 64, found 65");
  EXPECT_EQ(chat_said("\"stream\": 1"), "stream: expected true or false, found 1");
  EXPECT_EQ(chat_said("\"seed\": \"x\""), "seed: expected a whole number, found \"x\"");
  EXPECT_EQ(chat_said("\"stop\": {}"), "stop: expected a string, found object");
  EXPECT_EQ(chat_said("\"stop\": [\"a\", 1]"), "stop[1]: expected a string, found 1");
  EXPECT_EQ(chat_said("\"logit_bias\": {\"x\": 1}"), "logit_bias: expected token ids as names, found 'x'");
  EXPECT_EQ(chat_said("\"logit_bias\": {\"1\": []}"), "logit_bias.1: expected a number, found array");
  EXPECT_EQ(chat_said("\"logit_bias\": {\"1\": 1e300}"),
            "logit_bias.1: expected a number in the range of 32-bit numbers, found 1e+300");
  EXPECT_EQ(chat_said("\"logit_bias\": {\"1\": -1e39}"),
            "logit_bias.1: expected a number in the range of 32-bit numbers, found -1e+39");
  EXPECT_EQ(chat_said("\"top_logprobs\": 2"), "top_logprobs: expected with \"logprobs\": true only");
  EXPECT_EQ(chat_said("\"logprobs\": true, \"top_logprobs\": 21"),
            "top_logprobs: expected a whole number from 0 to 20, found 21");
  EXPECT_EQ(chat_said("\"stream_options\": 3"), "stream_options: expected an object, found 3");
}

TEST(ApiRequestRefuses, WhatItDoesNotKnowAndWouldChangeTheAnswer) {
  EXPECT_EQ(chat_said("\"tool_choice\": \"some\""),
            "tool_choice: expected \"auto\", \"none\", \"required\", a function or allowed_tools, found \"some\"");
  EXPECT_EQ(chat_said("\"tool_choice\": \"required\""), "tool_choice: there are no tools to choose from");
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}], )";
  EXPECT_EQ(chat_said(tools + R"("tool_choice": {"type": "function", "function": {"name": "g"}})"),
            "tool_choice: none of the tools is called 'g'");
  EXPECT_EQ(chat_said(tools + R"("tool_choice": {"type": "function"})"),
            "tool_choice: expected an object with a function");
  EXPECT_EQ(chat_said(tools + R"("tool_choice": "required", "grammar": "root ::= \"a\"")"),
            "tool_choice and grammar both give the form: choose one");
  EXPECT_EQ(chat_said(tools + R"("response_format": {"type": "json_object"})"), "nothing");
  EXPECT_EQ(chat_said(tools + R"("tool_choice": "none", "response_format": {"type": "json_object"})"), "nothing");
  EXPECT_EQ(chat_said(R"("tools": [{"name": "f"}])"), "tools[0]: expected an object with a function");
  EXPECT_EQ(chat_said(R"("tools": [{"function": {}}])"), "tools[0].function.name is missing");
  EXPECT_EQ(chat_said(R"("functions": [{"name": "f"}])"), "functions: not supported");
  EXPECT_EQ(chat_said(R"("modalities": ["text", "audio"])"), "modalities: not supported");
  EXPECT_EQ(chat_said(R"("guided_json": {"type": "object"})"), "guided_json: not supported");
  EXPECT_EQ(chat_said(R"("min_tokens": 3)"), "min_tokens: not supported");
  EXPECT_EQ(chat_said(R"("mirostat": 2)"), "mirostat: not supported");
  EXPECT_EQ(chat_said(R"("typical_p": 0.9)"), "typical_p: not supported");
  EXPECT_EQ(chat_said(R"("typical_p": 0)"), "typical_p: not supported");
  EXPECT_EQ(chat_said(R"("add_generation_prompt": false)"), "add_generation_prompt: not supported");
  EXPECT_EQ(chat_said(R"("skip_special_tokens": false)"), "skip_special_tokens: not supported");
  EXPECT_EQ(chat_said(R"("allowed_token_ids": [5])"), "allowed_token_ids: not supported");
  EXPECT_EQ(chat_said(R"("top_n_sigma": 1.5)"), "top_n_sigma: not supported");
  EXPECT_EQ(chat_said(R"("n_probs": 3)"), "n_probs: not supported");
  EXPECT_EQ(chat_said(R"("parse_tool_calls": false)"), "parse_tool_calls: not supported");
  EXPECT_EQ(chat_said(R"("thinking_budget_tokens": 0)"), "thinking_budget_tokens: not supported");
  EXPECT_EQ(chat_said(R"("reasoning_budget": 100)"), "reasoning_budget: not supported");
  EXPECT_EQ(chat_said(R"("thinking_token_budget": 100)"), "thinking_token_budget: not supported");
  EXPECT_EQ(chat_said(R"("include_reasoning": false)"), "include_reasoning: not supported");
  EXPECT_EQ(chat_said(R"("reasoning": {"max_tokens": 100})"), "reasoning.max_tokens: not supported");
  EXPECT_EQ(chat_said(R"("reasoning": {"exclude": true})"), "reasoning.exclude: not supported");
  EXPECT_EQ(chat_said(R"("echo": true)"), "echo: not supported");
  EXPECT_EQ(chat_said(R"("top_a": 0.2)"), "top_a: not supported");
  EXPECT_EQ(chat_said(R"("regex": "a+")"), "regex: not supported");
  EXPECT_EQ(chat_said(R"("ebnf": "root ::= \"a\"")"), "ebnf: not supported");
  EXPECT_EQ(chat_said(R"("min_new_tokens": 3)"), "min_new_tokens: not supported");
  EXPECT_EQ(chat_said(R"("stop_regex": "a+")"), "stop_regex: not supported");
  EXPECT_EQ(chat_said(R"("reasoning_format": "deepseek")"), "nothing");
  EXPECT_EQ(chat_said(R"("reasoning_format": "none")"), "reasoning_format: expected auto or deepseek, found 'none'");
  EXPECT_EQ(chat_said(R"("suffix": "x")"), "suffix: not supported");
  EXPECT_EQ(chat_said(R"("format": "json")"), "format: not supported");
  EXPECT_EQ(chat_said(R"("reasoning": "low")"), "reasoning: expected an object, found \"low\"");
  EXPECT_EQ(chat_said(R"("thinking": {"type": "deep"})"),
            "thinking.type: expected enabled, disabled or adaptive, found 'deep'");
  const auto allowed_said = [&](const std::string &allowed) {
    return chat_said(tools + R"("tool_choice": {"type": "allowed_tools", "allowed_tools": )" + allowed + "}");
  };
  EXPECT_EQ(allowed_said("{}"), "tool_choice.allowed_tools.mode is missing");
  EXPECT_EQ(allowed_said("1"), "tool_choice.allowed_tools: expected an object, found 1");
  EXPECT_EQ(allowed_said(R"({"mode": "some"})"), "tool_choice: expected the mode auto or required, found 'some'");
  EXPECT_EQ(allowed_said(R"({"mode": "auto"})"), "tool_choice.allowed_tools.tools is missing");
  EXPECT_EQ(allowed_said(R"({"mode": "auto", "tools": 1})"),
            "tool_choice.allowed_tools.tools: expected an array, found 1");
  EXPECT_EQ(allowed_said(R"({"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]})"),
            "tool_choice: none of the tools is called 'g'");
  EXPECT_EQ(allowed_said(R"({"mode": "required", "tools": []})"), "tool_choice: there are no tools to choose from");
  EXPECT_EQ(chat_said(R"("tools": [{"type": "custom", "custom": {"name": "f"}}])"),
            "tools[0].type: expected function, found 'custom'");
  EXPECT_EQ(chat_said(R"("parallel_tool_calls": "x")"), "parallel_tool_calls: expected true or false, found \"x\"");
  EXPECT_EQ(chat_said(R"("response_format": {})"), "response_format.type is missing");
  EXPECT_EQ(chat_said(R"("temperature": 1e40)"),
            "temperature: expected a number >= 0 in the range of 32-bit numbers, found 1e+40");
  EXPECT_EQ(chat_said("\"chat_template_kwargs\": {\"x\": 1}"),
            "chat_template_kwargs: expected enable_thinking, found 'x'");
  EXPECT_EQ(chat_said("\"response_format\": {\"type\": \"xml\"}"),
            "response_format.type: expected text, json_object or json_schema, found 'xml'");
  EXPECT_EQ(chat_said("\"response_format\": {\"type\": \"json_schema\"}"),
            "response_format.json_schema: expected an object with a schema");
  EXPECT_EQ(chat_said("\"grammar\": \"root ::= \\\"a\\\"\", \"response_format\": {\"type\": \"json_object\"}"),
            "response_format and another field both give the form: choose one");
  EXPECT_EQ(completion_said(R"({"prompt": "x", "suffix": "y"})"), "suffix: not supported");
  EXPECT_EQ(completion_said(R"({"prompt": "x", "best_of": 3})"), "best_of: not supported unless it is n");
}

TEST(ApiRequestRefuses, MessagesThatAreNone) {
  EXPECT_EQ(said([] { read_chat_request("{}", {}); }), "messages is missing");
  EXPECT_EQ(messages_said("[]"), "messages: expected at least one message, found none");
  EXPECT_EQ(messages_said("[7]"), "messages[0]: expected an object, found 7");
  EXPECT_EQ(messages_said("[{\"content\": \"x\"}]"), "messages[0].role is missing");
  EXPECT_EQ(messages_said("[{\"role\": \"user\"}]"), "messages[0].content is missing");
  EXPECT_EQ(messages_said(R"([{"role": "function", "name": "f", "content": "x"}])"),
            "messages[0].role: expected tool, found 'function'");
  EXPECT_EQ(messages_said(R"([{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}])"),
            "messages[0].function_call: not supported, expected tool_calls");
  EXPECT_EQ(messages_said("[{\"role\": \"user\", \"content\": 5}]"),
            "messages[0].content: expected a string or an array of texts, found 5");
  EXPECT_EQ(messages_said("[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]"),
            "messages[0].content[0].type: expected text, found 'image_url'");
  const auto call = [](const std::string &function) {
    return messages_said("[{\"role\": \"assistant\", \"tool_calls\": [" + function + "]}]");
  };
  EXPECT_EQ(call("1"), "messages[0].tool_calls[0]: expected an object with a function");
  EXPECT_EQ(call("{\"function\": {}}"), "messages[0].tool_calls[0].function.name is missing");
  EXPECT_EQ(call("{\"function\": {\"name\": \"f\", \"arguments\": 5}}"),
            "messages[0].tool_calls[0].function.arguments: expected a JSON object as text, found 5");
  EXPECT_EQ(call("{\"id\": 5, \"function\": {\"name\": \"f\"}}"),
            "messages[0].tool_calls[0].id: expected a string, found 5");
}

TEST(ApiRequestRefuses, PromptsThatAreNone) {
  EXPECT_EQ(completion_said("{}"), "prompt is missing");
  EXPECT_EQ(completion_said(R"({"prompt": []})"), "prompt: expected at least one text, found none");
  EXPECT_EQ(completion_said(R"({"prompt": 7})"), "prompt: expected a text, token ids, or an array of these, found 7");
  EXPECT_EQ(messages_said("7"), "messages: expected an array, found 7");
  EXPECT_EQ(completion_said(R"({"prompt": ["a", 1]})"), "prompt[1]: expected a text or token ids, found 1");
  EXPECT_EQ(completion_said(R"({"prompt": [-1]})"), "prompt: expected token ids, found -1");
  EXPECT_EQ(completion_said(R"({"prompt": [1, "a"]})"), "prompt[1]: expected a token id, found \"a\"");
  EXPECT_EQ(completion_said(R"({"prompt": ["a", "b", "c"], "n": 32})"),
            "3 prompts with 32 answers each: expected at most 64 answers in all");
  EXPECT_EQ(completion_said(R"({"prompt": ["a", "b", "c"], "n": 32, "logprobs": 1})"),
            "3 prompts with 32 answers each: expected at most 64 answers in all with 1 logprobs");
  EXPECT_EQ(completion_said(R"({"prompt": ["a", "b", "c"], "n": 3, "logprobs": 20})"),
            "3 prompts with 3 answers each: expected at most 8 answers in all with 20 logprobs");
  EXPECT_EQ(chat_said(R"("n": 29, "logprobs": true, "top_logprobs": 5)"),
            "n: expected at most 28 with 5 logprobs, found 29");
  std::string inputs = "{\"input\": [\"a\"";
  for (int i = 0; i < 2048; ++i) inputs += ", \"a\"";
  EXPECT_EQ(said([&] { read_embedding_request(inputs + "]}"); }), "input: expected at most 2048 texts, found 2049");
  for (const char *name : {"truncate_prompt_tokens\": 1", "truncate\": true", "normalize\": false",
                           "add_special_tokens\": false", "embd_normalize\": -1"}) {
    const std::string field = name;
    EXPECT_EQ(said([&] { read_embedding_request("{\"input\": \"x\", \"" + field + "}"); }),
              field.substr(0, field.find('"')) + ": not supported");
  }
  EXPECT_EQ(read_embedding_request(R"({"input": "x", "truncate": false, "normalize": true, "embd_normalize": 2})")
                .inputs.size(),
            1u);
  EXPECT_EQ(said([] { read_embedding_request(R"({"input": "x", "encoding_format": "hex"})"); }),
            "encoding_format: expected float or base64, found 'hex'");
}

TEST(Origin, PagesOfThisServerAndThoseNamedMayAsk) {
  EXPECT_EQ(judge_origin({"", "", "h"}, {}), OriginVerdict::kOwn);
  EXPECT_EQ(judge_origin({"http://h:8080", "", "h:8080"}, {}), OriginVerdict::kOwn);
  EXPECT_EQ(judge_origin({"https://h", "", "h"}, {}), OriginVerdict::kOwn);
  EXPECT_EQ(judge_origin({"http://h:8081", "", "h:8080"}, {}), OriginVerdict::kRefused);
  EXPECT_EQ(judge_origin({"http://evil", "", "h"}, {}), OriginVerdict::kRefused);
  EXPECT_EQ(judge_origin({"http://", "", ""}, {}), OriginVerdict::kRefused);
  EXPECT_EQ(judge_origin({"null", "", "h"}, {"https://a"}), OriginVerdict::kRefused);
  EXPECT_EQ(judge_origin({"https://a", "same-origin", "h"}, {}), OriginVerdict::kOwn);  // behind a proxy
  for (const char *site : {"same-site", "cross-site", "none", "same-origin2"})
    EXPECT_EQ(judge_origin({"https://a", site, "h"}, {}), OriginVerdict::kRefused) << site;
  EXPECT_EQ(judge_origin({"https://a", "", "h"}, {"https://a"}), OriginVerdict::kAllowed);
  EXPECT_EQ(judge_origin({"https://b", "", "h"}, {"https://a", "*"}), OriginVerdict::kAllowed);
}

}  // namespace
}  // namespace bonsai::server
