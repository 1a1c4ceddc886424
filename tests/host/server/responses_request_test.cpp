// What is read from the JSON of the Responses API, and what is refused, in which words.
#include "host/server/responses/request.h"

#include <gtest/gtest.h>

#include <string>

#include "host/server/responses/store.h"

namespace bonsai::server {
namespace {

ResponseRequest read(const std::string &body) {
  const ResponseStore store(0);
  return read_response_request(body, {}, store);
}

std::string refused(const std::string &fields) {
  try {
    read("{" + fields + "}");
    return "nothing";
  } catch (const ApiError &error) {
    return (error.status() == 400 ? "" : std::to_string(error.status()) + " ") + error.what();
  }
}
std::string refused_with_input(const std::string &fields) { return refused(R"("input": "x", )" + fields); }

TEST(ResponsesRequest, ItemsOfAnAnswerAreOneMessage) {
  const ResponseRequest request = read(R"({"instructions": "Be kind.", "input": [
      {"role": "developer", "content": "Be short."},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "h"}, {"type": "input_text", "text": "i"}]},
      {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "a"}], "encrypted_content": "?"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "b"}]},
      {"type": "message", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "So", "annotations": []}, {"type": "refusal", "refusal": "no."}]},
      {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"x\": 1}"},
      {"type": "function_call", "call_id": "2", "name": "g", "arguments": ""},
      {"type": "function_call_output", "call_id": "2", "output": [{"type": "input_text", "text": "two"}]},
      {"type": "function_call_output", "call_id": "1", "output": "one"},
      {"role": "assistant", "content": "Done."},
      {"role": "assistant", "content": "Really."},
      {"type": "function_call", "call_id": "3", "name": "f"},
      {"type": "reasoning", "summary": [], "encrypted_content": "?"},
      {"type": "reasoning", "summary": [{"type": "summary_text", "text": "c"}]},
      {"role": "assistant", "content": "Again."}]})");
  const auto &messages = request.messages;
  ASSERT_EQ(messages.size(), 9u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "Be kind.");
  EXPECT_EQ(messages[1].role, "system");
  EXPECT_EQ(messages[2].content, "h\ni");
  EXPECT_EQ(messages[3].role, "assistant");
  EXPECT_EQ(messages[3].reasoning, "ab");
  EXPECT_EQ(messages[3].content, "So\nno.");
  EXPECT_EQ(Json::parse(messages[3].tool_calls),
            Json::parse(R"([{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
                            {"id": "2", "type": "function", "function": {"name": "g", "arguments": {}}}])"));
  EXPECT_EQ(messages[4].role, "tool");  // in the order of the calls, with the functions' names
  EXPECT_EQ(messages[4].content, "one");
  EXPECT_EQ(messages[4].tool_calls, R"([{"id":"1","name":"f"}])");
  EXPECT_EQ(messages[5].content, "two");
  EXPECT_EQ(messages[6].content, "Done.");
  EXPECT_EQ(messages[7].content, "Really.");
  EXPECT_NE(messages[7].tool_calls, "");
  EXPECT_EQ(messages[8].content, "Again.");
  EXPECT_EQ(messages[8].tool_calls, "");
  EXPECT_EQ(messages[8].reasoning, "c");
  EXPECT_EQ(request.items.size(), 15u);  // without the instructions, which are this response's only
  EXPECT_TRUE(request.store);
}

TEST(ResponsesRequest, FieldsGoByTheNamesOfThisApi) {
  const ResponseRequest request = read(
      R"({"input": "x", "max_output_tokens": 7, "temperature": 0.25, "stream": true, "store": false,
          "reasoning": {"effort": "none", "summary": "auto"}, "include": ["reasoning.encrypted_content"],
          "text": {"format": {"type": "json_object"}, "verbosity": "low"}, "truncation": "disabled", "metadata": {"a": "b"},
          "service_tier": "auto", "prompt_cache_key": "k", "safety_identifier": "s", "background": false,
          "tools": [{"type": "function", "name": "f", "strict": true, "parameters": {"type": "object"}}],
          "tool_choice": {"type": "function", "name": "f"}, "parallel_tool_calls": false})");
  EXPECT_EQ(request.options.max_tokens, 7u);
  EXPECT_EQ(request.options.json_schema, R"({"type": "object"})");
  EXPECT_EQ(request.chat.enable_thinking, false);
  EXPECT_TRUE(request.stream);
  EXPECT_FALSE(request.store);
  EXPECT_FALSE(request.parallel_calls);
  EXPECT_EQ(
      Json::parse(request.chat.tools),
      Json::parse(
          R"([{"type": "function", "function": {"name": "f", "strict": true, "parameters": {"type": "object"}}}])"));
  EXPECT_NE(request.call_schema, "");
  EXPECT_EQ(request.settings["temperature"], 0.25);
  EXPECT_EQ(request.settings["metadata"], Json::parse(R"({"a": "b"})"));
  EXPECT_EQ(request.settings["tool_choice"], Json::parse(R"({"type": "function", "name": "f"})"));
  EXPECT_EQ(read(R"({"input": "x", "max_tokens": 3})").options.max_tokens, 3u);
}

// Text may stand between calls, and thoughts: results are in the order of all of them.
TEST(ResponsesRequest, ResultsAreInTheOrderOfTheCallsOfAWholeAnswer) {
  for (const std::string between : {R"({"role": "assistant", "content": "and"})",
                                    R"({"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]})"}) {
    const auto messages = read(R"({"input": [{"role": "user", "content": "x"},
        {"type": "function_call", "call_id": "1", "name": "f"}, )" +
                               between + R"(,
        {"type": "function_call", "call_id": "2", "name": "f"}, {"role": "assistant", "content": "."},
        {"type": "function_call_output", "call_id": "2", "output": "B"},
        {"type": "function_call_output", "call_id": "1", "output": "A"}]})")
                              .messages;
    ASSERT_GE(messages.size(), 4u);
    EXPECT_EQ(messages[messages.size() - 2].content, "A") << between;
    EXPECT_EQ(messages.back().content, "B") << between;
  }
  const auto messages = read(R"({"input": [{"type": "function_call", "call_id": "1", "name": "f"},
      {"role": "assistant", "content": "and"}, {"type": "function_call", "call_id": "1", "name": "g"},
      {"type": "function_call_output", "call_id": "1", "output": "B"}]})")
                            .messages;
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].content, "and");
  EXPECT_EQ(messages[1].tool_calls, R"([{"id":"1","name":"g"}])");  // ids may be used again: the last call counts
}

TEST(ResponsesRequest, OnlySoMuchIsGoneOnFrom) {
  ResponseStore store(8000);
  const Json item = {{"id", "i"}, {"type", "message"}, {"role", "assistant"}, {"content", std::string(200, 'c')}};
  store.keep({{"id", "r"}, {"output", {item}}}, Json::array({item}));
  const auto said = [&](int n) {
    Json input = Json::array();
    for (int i = 0; i < n; ++i) input.push_back({{"type", "item_reference"}, {"id", "i"}});
    try {
      return std::to_string(read_response_request(Json{{"input", input}}.dump(), {}, store).messages.size());
    } catch (const ApiError &error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(said(3), "3");
  EXPECT_EQ(said(5), "input[3].id: the conversation is longer than 1000 bytes");
}

// As Codex sends them.
TEST(ResponsesRequest, FunctionsMayLieInANamespaceAndWhatOpenAisServerRunsIsLeftOut) {
  const ResponseRequest request = read(
      R"({"input": [{"role": "user", "content": "x"},
                    {"type": "function_call", "namespace": "s", "name": "f", "call_id": "1", "arguments": "{}"}],
          "tools": [{"type": "web_search", "external_web_access": false}, {"type": "function", "name": "f"},
                    {"type": "namespace", "name": "s", "tools": [{"type": "function", "name": "f", "strict": false}]}],
          "tool_choice": {"type": "function", "namespace": "s", "name": "f"}})");
  EXPECT_EQ(Json::parse(request.chat.tools), Json::parse(R"([{"type": "function", "function": {"name": "f"}},
      {"type": "function", "function": {"name": "s.f", "strict": false}}])"));
  EXPECT_EQ(request.settings["tools"].size(), 2u);
  EXPECT_EQ(request.settings["tools"][1]["type"], "namespace");
  ASSERT_EQ(request.form.functions.size(), 1u);
  EXPECT_EQ(request.form.functions.at("s.f").space, "s");
  EXPECT_EQ(request.form.functions.at("s.f").name, "f");
  EXPECT_NE(request.call_schema.find(R"("const":"s.f")"), std::string::npos) << request.call_schema;
  EXPECT_EQ(Json::parse(request.messages[1].tool_calls)[0]["function"]["name"], "s.f");
  EXPECT_EQ(read(R"({"input": "x", "tools": [{"type": "web_search"}]})").chat.tools, "");
}

TEST(ResponsesRequest, SomeOfTheToolsMayBeAllowed) {
  const std::string tools = R"({"input": "x", "tools": [{"type": "function", "name": "f"}, {"type": "web_search"},
      {"type": "namespace", "name": "s", "tools": [{"type": "function", "name": "g"}]}], "tool_choice":
      {"type": "allowed_tools", "tools": [{"type": "web_search"}, {"type": "function", "namespace": "s", "name": "g"}],
       "mode": )";
  const ResponseRequest forced = read(tools + R"("required"}})");
  EXPECT_NE(forced.chat.tools.find(R"("name":"f")"), std::string::npos) << "prompts begin alike";
  EXPECT_EQ(Json::parse(forced.call_schema)["anyOf"].size(), 1u);
  EXPECT_NE(forced.call_schema.find(R"("const":"s.g")"), std::string::npos) << forced.call_schema;
  EXPECT_EQ(forced.settings["tool_choice"]["type"], "allowed_tools");
  const ResponseRequest free = read(tools + R"("auto"}})");
  EXPECT_EQ(free.call_schema, "");
  ASSERT_EQ(Json::parse(free.chat.tools).size(), 1u);
  EXPECT_EQ(Json::parse(free.chat.tools)[0]["function"]["name"], "s.g");
}

TEST(ResponsesRequest, SchemasAreKnownByTheFieldsThatTheyCameIn) {
  const ResponseRequest request = read(
      R"({"input": "x", "tool_choice": "required", "text": {"format": {"type": "json_schema", "schema": true}},
          "tools": [{"type": "web_search"}, {"type": "function", "name": "f", "parameters": {"type": "array"}},
                    {"type": "namespace", "name": "s", "tools": [{"type": "function", "name": "g",
                                                                  "parameters": {"type": "string"}}]}]})");
  EXPECT_EQ(request.schema_field, "text.format.schema");
  ASSERT_EQ(request.parameters.size(), 2u);
  EXPECT_EQ(request.parameters[0].field, "tools[1].parameters");
  EXPECT_EQ(request.parameters[1].field, "tools[2].tools[0].parameters");
  EXPECT_EQ(request.parameters[1].places.front(), "#/$defs/1");
}

TEST(ResponsesRequest, SaysWhatIsWrong) {
  EXPECT_EQ(refused(""), "input is missing");
  EXPECT_EQ(refused(R"("input": [])"), "input: expected at least one item, found none");
  EXPECT_EQ(refused(R"("input": 1)"), "input: expected a text or an array of items, found 1");
  EXPECT_EQ(refused(R"("input": [{"type": "reasoning", "summary": []}])"),
            "input: expected at least one item, found none");
  EXPECT_EQ(refused(R"("input": ["x"])"), "input[0]: expected an object, found \"x\"");
  EXPECT_EQ(refused(R"("input": [{"role": "user"}])"), "input[0].content is missing");
  EXPECT_EQ(refused(R"("input": [{"content": "x"}])"), "input[0].role is missing");
  EXPECT_EQ(refused(R"("input": [{"role": "user", "content": [{"type": "input_image"}]}])"),
            "input[0].content[0].type: expected input_text, found 'input_image'");
  EXPECT_EQ(refused(R"("input": [{"type": "computer_call"}])"),
            "input[0].type: expected message, reasoning, function_call or function_call_output, found 'computer_call'");
  EXPECT_EQ(refused(R"("input": [{"type": "function_call", "name": "f"}])"), "input[0].call_id is missing");
  EXPECT_EQ(refused(R"("input": [{"type": "function_call", "name": "f", "call_id": "1", "arguments": 1}])"),
            "input[0].arguments: expected a JSON object as text, found 1");
  EXPECT_EQ(refused(R"("input": [{"type": "function_call_output", "call_id": "1"}])"), "input[0].output is missing");
  EXPECT_EQ(refused(R"("input": [{"type": "item_reference", "id": "msg_1"}])"),
            "404 input[0].id: there is no item 'msg_1', or it is not kept any more: send what it says instead");
  EXPECT_EQ(refused(R"("input": [{"type": "item_reference"}])"), "input[0].id is missing");
  EXPECT_EQ(refused_with_input(R"("previous_response_id": 1)"), "previous_response_id: expected a string, found 1");
  EXPECT_EQ(refused_with_input(R"("background": true)"), "background: not supported");
  EXPECT_EQ(refused_with_input(R"("truncation": "auto")"), "truncation: not supported");
  EXPECT_EQ(refused_with_input(R"("n": 2)"), "n: not supported");
  EXPECT_EQ(refused_with_input(R"("top_logprobs": 2)"), "top_logprobs: not supported");
  EXPECT_EQ(refused_with_input(R"("include": ["message.output_text.logprobs"])"),
            "include: message.output_text.logprobs is not supported (/v1/chat/completions has logprobs)");
  EXPECT_EQ(refused_with_input(R"("include": 1)"), "include: expected an array, found 1");
  EXPECT_EQ(refused_with_input(R"("tools": [{"type": "custom"}])"),
            "tools[0].type: expected function or namespace, found 'custom'");
  EXPECT_EQ(refused_with_input(R"("tools": [{"type": "namespace", "name": "s"}])"), "tools[0].tools is missing");
  EXPECT_EQ(refused_with_input(R"("tools": [{"type": "namespace", "name": "s", "tools": [{"type": "custom"}]}])"),
            "tools[0].tools[0].type: expected function, found 'custom'");
  EXPECT_EQ(refused_with_input(R"("tools": [{"type": "function", "name": "s.f"},
                {"type": "namespace", "name": "s", "tools": [{"type": "function", "name": "f"}]}])"),
            "tools[1].tools[0].name: another tool is called 's.f', too");
  EXPECT_EQ(refused_with_input(R"("tools": [{"type": "web_search"}], "tool_choice": "required")"),
            "tool_choice: there are no tools to choose from");
  EXPECT_EQ(refused_with_input(R"("tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"})"),
            "tool_choice.type: expected function, found 'web_search'");
  EXPECT_EQ(refused_with_input(R"("tools": [{"type": "function"}])"), "tools[0].name is missing");
  EXPECT_EQ(refused_with_input(R"("tools": 1)"), "tools: expected an array, found 1");
  EXPECT_EQ(refused_with_input(R"("tool_choice": "required")"), "tool_choice: there are no tools to choose from");
  EXPECT_EQ(refused_with_input(
                R"("tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "function", "name": "g"})"),
            "tool_choice: none of the tools is called 'g'");
  const std::string allowed = R"("tools": [{"type": "function", "name": "f"}],
                                 "tool_choice": {"type": "allowed_tools", )";
  EXPECT_EQ(refused_with_input(allowed + R"("mode": "auto"})"), "tool_choice.tools is missing");
  EXPECT_EQ(refused_with_input(allowed + R"("tools": []})"), "tool_choice.mode is missing");
  EXPECT_EQ(refused_with_input(allowed + R"("mode": "some", "tools": []})"),
            "tool_choice: expected the mode auto or required, found 'some'");
  EXPECT_EQ(refused_with_input(allowed + R"("mode": "auto", "tools": [{"type": "custom", "name": "f"}]})"),
            "tool_choice.tools[0].type: expected function, found 'custom'");
  EXPECT_EQ(refused_with_input(allowed + R"("mode": "required", "tools": [{"type": "web_search"}]})"),
            "tool_choice: there are no tools to choose from");
  EXPECT_EQ(refused_with_input(R"("text": 1)"), "text: expected an object, found 1");
  EXPECT_EQ(refused_with_input(R"("text": {"format": {"type": "xml"}})"),
            "text.format.type: expected text, json_object or json_schema, found 'xml'");
  EXPECT_EQ(refused_with_input(R"("text": {"format": {"type": "json_schema", "name": "x"}})"),
            "text.format.schema is missing");
  EXPECT_EQ(refused_with_input(R"("text": {"format": {"type": "json_object"}}, "grammar": "root ::= \"x\"")"),
            "text.format and another field both give the form: choose one");
  EXPECT_EQ(refused_with_input(R"("max_output_tokens": 0)"),
            "max_output_tokens: expected a whole number >= 1, or -1, found 0");
}

Json kept(const std::string &id, size_t bytes) {
  return {{"id", "resp_" + id}, {"output", {{{"id", "msg_" + id}, {"text", std::string(bytes, 'x')}}}}};
}

TEST(ResponseStore, TheOldestGoWhereThereIsNoMoreRoom) {
  ResponseStore store(8000);
  const Json conversation = Json::array({{{"role", "user"}}});
  const auto keep = [&](const std::string &id, size_t bytes) { store.keep(kept(id, bytes), conversation); };
  for (const char *id : {"a", "b", "c", "d", "e", "f", "g", "h"}) keep(id, 420);
  EXPECT_EQ(store.conversation("resp_a"), conversation.dump());
  EXPECT_EQ(Json::parse(*store.item("msg_b"))["id"], "msg_b");
  EXPECT_FALSE(store.item("msg_i"));
  keep("i", 420);
  EXPECT_FALSE(store.response("resp_a"));
  EXPECT_FALSE(store.item("msg_a"));
  EXPECT_TRUE(store.response("resp_b"));
  keep("j", 600);  // more than one may take: nothing else goes for it
  EXPECT_FALSE(store.response("resp_j"));
  EXPECT_TRUE(store.response("resp_b"));
  EXPECT_TRUE(store.drop("resp_c"));
  EXPECT_FALSE(store.drop("resp_c"));
  EXPECT_FALSE(store.conversation("resp_c"));
  keep("k", 420);  // in its place
  EXPECT_TRUE(store.response("resp_b"));
  EXPECT_TRUE(store.response("resp_k"));
}

}  // namespace
}  // namespace bonsai::server
