// What is read from the JSON of Anthropic's Messages API, and what is refused, in which words.
#include "host/server/anthropic/request.h"

#include <gtest/gtest.h>

#include <string>

#include "host/server/api_error.h"
#include "host/server/json_fields.h"

namespace bonsai::server {
namespace {

// "thread_unsupported_request: ..." where an error has a code.
std::string messages_refused(const std::string &fields) {
  try {
    read_messages_request("{" + fields + "}", {});
    return "nothing";
  } catch (const ApiError &error) {
    EXPECT_EQ(error.status(), 400);
    return (error.code().empty() ? "" : error.code() + ": ") + error.what();
  }
}
std::string with_message(const std::string &fields) {
  return messages_refused(R"("messages": [{"role": "user", "content": "x"}], )" + fields);
}
std::string with_block(const std::string &role, const std::string &block) {
  return messages_refused(R"("messages": [{"role": ")" + role + R"(", "content": [)" + block + "]}]");
}

TEST(AnthropicRequest, BlocksBecomeMessages) {
  const MessagesRequest request = read_messages_request(R"({"max_tokens": 9, "system": [
      {"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "Be short."}],
      "messages": [
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
        {"role": "system", "content": "It is late."},
        {"role": "assistant", "content": [
          {"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "redacted_thinking", "data": "?"},
          {"type": "text", "text": "So."},
          {"type": "tool_use", "id": "1", "name": "f", "input": {"x": 1}}, {"type": "tool_use", "id": "2", "name": "g", "input": {}}]},
        {"role": "user", "content": [
          {"type": "tool_result", "tool_use_id": "2", "content": [{"type": "text", "text": "t"}, {"type": "text", "text": "wo"}]},
          {"type": "tool_result", "tool_use_id": "1", "content": "one", "is_error": true},
          {"type": "text", "text": "Go on."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "3", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "3"}]}]})",
                                                        {});
  const auto &messages = request.messages;
  ASSERT_EQ(messages.size(), 9u);
  EXPECT_EQ(messages[0].role, "system");
  EXPECT_EQ(messages[0].content, "Be kind.\n\nBe short.");
  EXPECT_EQ(messages[1].content, "h\ni");
  EXPECT_EQ(messages[2].role, "system");
  EXPECT_EQ(messages[3].role, "assistant");
  EXPECT_EQ(messages[3].reasoning, "Hm.");
  EXPECT_EQ(messages[3].content, "So.");
  EXPECT_EQ(Json::parse(messages[3].tool_calls),
            Json::parse(R"([{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"x": 1}}},
                            {"id": "2", "type": "function", "function": {"name": "g", "arguments": {}}}])"));
  EXPECT_EQ(messages[4].role, "tool");  // in the order of the calls, with the tools' names
  EXPECT_EQ(messages[4].content, "Error: one");
  EXPECT_EQ(messages[4].tool_calls, R"([{"id":"1","name":"f"}])");
  EXPECT_EQ(messages[5].content, "t\nwo");
  EXPECT_EQ(messages[6].role, "user");
  EXPECT_EQ(messages[6].content, "Go on.");
  EXPECT_EQ(messages[7].content, "");
  EXPECT_EQ(messages[8].role, "tool");
  EXPECT_EQ(messages[8].content, "");
}

TEST(AnthropicRequest, SchemasAreKnownByTheFieldsThatTheyCameIn) {
  const MessagesRequest request = read_messages_request(
      R"({"messages": [{"role": "user", "content": "x"}], "tool_choice": {"type": "any"},
          "tools": [{"name": "f"}, {"name": "g", "input_schema": {"type": "array"}}],
          "output_config": {"format": {"type": "json_schema", "schema": {"type": "string"}}}})",
      {});
  EXPECT_EQ(request.schema_field, "output_config.format.schema");
  ASSERT_EQ(request.parameters.size(), 1u);
  EXPECT_EQ(request.parameters[0].field, "tools[1].input_schema");
  EXPECT_EQ(request.parameters[0].places.front(), "#/$defs/1");
}

TEST(AnthropicRequest, FieldsGoByTheNamesOfThisApi) {
  GenerateOptions defaults;
  defaults.stop = {"x"};
  const MessagesRequest request = read_messages_request(
      R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 7, "temperature": 0.25, "top_k": 5, "stream": true,
          "stop_sequences": ["a", "b"], "thinking": {"type": "adaptive", "display": "omitted"},
          "context_management": {"edits": []}, "metadata": {"user_id": "u"}, "output_config": {"effort": "high"},
          "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}, "defer_loading": true}],
          "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": true}})",
      defaults);
  EXPECT_EQ(request.options.max_tokens, 7u);
  EXPECT_EQ(request.options.sampling.top_k, 5u);
  EXPECT_EQ(request.options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.chat.enable_thinking, true);
  EXPECT_FALSE(request.tells_reasoning);
  EXPECT_FALSE(request.parallel_calls);
  EXPECT_EQ(
      Json::parse(request.chat.tools),
      Json::parse(
          R"([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}])"));
  EXPECT_NE(request.call_schema, "");
  const auto read = [](const std::string &fields) {
    return read_messages_request(R"({"messages": [{"role": "user", "content": "x"}], )" + fields + "}", {});
  };
  EXPECT_FALSE(read(R"("max_tokens": 1)").chat.enable_thinking);
  EXPECT_EQ(read(R"("thinking": {"type": "disabled"})").chat.enable_thinking, false);
  EXPECT_TRUE(read(R"("thinking": {"type": "enabled", "budget_tokens": 99})").tells_reasoning);
  EXPECT_EQ(read(R"("output_format": {"type": "json_schema", "schema": {"enum": [1]}})").options.json_schema,
            R"({"enum":[1]})");
  EXPECT_EQ(
      read(R"("output_config": {"format": {"type": "json_schema", "schema": {"enum": [1]}}})").options.json_schema,
      R"({"enum":[1]})");
  EXPECT_EQ(read(R"("tools": [{"name": "f"}], "tool_choice": {"type": "none"})").chat.tools, "");
  EXPECT_NE(read(R"("tools": [{"name": "f"}], "tool_choice": {"type": "any"})").call_schema, "");
  EXPECT_EQ(read(R"("tools": [{"type": "custom", "name": "f"}], "tool_choice": {"type": "auto"})").call_schema, "");
}

TEST(AnthropicRequest, SaysWhatIsWrong) {
  EXPECT_EQ(messages_refused(""), "messages is missing");
  EXPECT_EQ(messages_refused(R"("messages": [])"), "messages: expected at least one message, found none");
  EXPECT_EQ(messages_refused(R"("messages": [{"role": "user"}])"), "messages[0].content is missing");
  EXPECT_EQ(messages_refused(R"("messages": [{"content": "x"}])"), "messages[0].role is missing");
  EXPECT_EQ(messages_refused(R"("messages": [{"role": "user", "content": 1}])"),
            "messages[0].content: expected a string or an array of blocks, found 1");
  EXPECT_EQ(
      messages_refused(R"("messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])"),
      "messages: expected a last message of the user, found one of the assistant, which is not gone on with");
  EXPECT_EQ(messages_refused(R"("messages": [{"role": "tool", "content": "x"}])"),
            "messages[0].role: expected user, assistant or system, found 'tool'");
  EXPECT_EQ(with_block("user", "1"), "messages[0].content[0]: expected an object, found 1");
  EXPECT_EQ(with_block("user", R"({"text": "x"})"), "messages[0].content[0].type is missing");
  EXPECT_EQ(with_block("user", R"({"type": "text"})"), "messages[0].content[0].text is missing");
  EXPECT_EQ(with_block("user", R"({"type": "image", "source": {}})"),
            "messages[0].content[0].type: expected text or tool_result, found 'image'");
  EXPECT_EQ(with_block("user", R"({"type": "tool_use", "id": "1", "name": "f"})"),
            "messages[0].content[0].type: expected text or tool_result, found 'tool_use'");
  EXPECT_EQ(with_block("assistant", R"({"type": "tool_result"})"),
            "messages[0].content[0].type: expected text, thinking or tool_use, found 'tool_result'");
  EXPECT_EQ(with_block("assistant", R"({"type": "tool_use", "name": "f"})"), "messages[0].content[0].id is missing");
  EXPECT_EQ(with_block("assistant", R"({"type": "tool_use", "id": "1", "name": "f", "input": "x"})"),
            "messages[0].content[0].input: expected an object, found \"x\"");
  EXPECT_EQ(with_block("user", R"({"type": "tool_result"})"), "messages[0].content[0].tool_use_id is missing");
  EXPECT_EQ(with_block("user", R"({"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image"}]})"),
            "messages[0].content[0].content[0].type: expected text, found 'image'");
  EXPECT_EQ(with_message(R"("system": 1)"), "system: expected a string or an array of blocks, found 1");
  EXPECT_EQ(with_message(R"("system": [{"type": "image"}])"), "system[0].type: expected text, found 'image'");
  EXPECT_EQ(with_message(R"("tools": [{"type": "web_search_20250305", "name": "web_search"}])"),
            "tools[0].type: expected custom, found 'web_search_20250305'");
  EXPECT_EQ(with_message(R"("tools": [{"name": "f", "input_schema": "x"}])"),
            "tools[0].input_schema: expected an object, found \"x\"");
  EXPECT_EQ(with_message(R"("output_format": {"type": "json_schema"})"), "output_format.schema is missing");
  EXPECT_EQ(with_message(R"("tools": [{}])"), "tools[0].name is missing");
  EXPECT_EQ(with_message(R"("tool_choice": {"type": "some"})"),
            "tool_choice.type: expected auto, any, tool or none, found 'some'");
  EXPECT_EQ(with_message(R"("tool_choice": {"type": "any"})"), "tool_choice: there are no tools to choose from");
  EXPECT_EQ(with_message(R"("stop_sequences": [1])"), "stop_sequences[0]: expected a string, found 1");
  EXPECT_EQ(with_message(R"("output_config": {"format": {"type": "xml"}})"),
            "output_config.format.type: expected text, json_object or json_schema, found 'xml'");
  EXPECT_EQ(with_message(R"("mcp_servers": [{"url": "x"}])"), "mcp_servers: not supported");
  EXPECT_EQ(with_message(R"("thread": {"type": "create"})"),
            "thread_unsupported_request: thread: not supported, send the whole conversation");
}

}  // namespace
}  // namespace bonsai::server
