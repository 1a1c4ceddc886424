// Promise: what was saved is loaded as it was; anything else is refused with the name of the field.
#include "host/chat/saved_chat.h"

#include <gtest/gtest.h>

namespace bonsai::host {
namespace {

TEST(SavedChat, EverythingComesBack) {
  Conversation conversation;
  conversation.options = {.system = "be \"kind\"\n", .tools = R"([{"name":"f"}])", .enable_thinking = false};
  conversation.messages = {{.role = "user", .content = "K\u00e4se <|im_end|>"},
                           {.role = "assistant", .content = "", .reasoning = "hm", .tool_calls = R"([{"z":1,"a":2}])"},
                           {.role = "tool", .content = "21"},
                           {.role = "developer", .content = "what roles there are is the template's business"}};
  const std::string saved = write_conversation(conversation);
  const auto loaded = read_conversation(saved);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->options.system, conversation.options.system);
  EXPECT_EQ(loaded->options.tools, conversation.options.tools);
  EXPECT_EQ(loaded->options.enable_thinking, false);
  ASSERT_EQ(loaded->messages.size(), 4u);
  EXPECT_EQ(loaded->messages[0].content, conversation.messages[0].content);
  EXPECT_EQ(loaded->messages[1].reasoning, "hm");
  EXPECT_EQ(loaded->messages[1].tool_calls, conversation.messages[1].tool_calls);
  EXPECT_EQ(loaded->messages[2].role, "tool");
  EXPECT_EQ(loaded->messages[3].role, "developer");
  EXPECT_EQ(write_conversation(*loaded), saved);
}

TEST(SavedChat, WhatIsEmptyIsLeftOut) {
  EXPECT_EQ(write_conversation({}), "{\n  \"format\": \"bonsai-chat\",\n  \"version\": 1,\n  \"messages\": []\n}\n");
}

struct BadFile {
  std::string json, message;
};

TEST(SavedChat, WrongFilesAreRefusedByField) {
  const auto chat = [](const std::string &rest) { return R"({"format": "bonsai-chat", "version": 1, )" + rest + "}"; };
  const BadFile kBadFiles[] = {
      {"", "not a saved conversation: not JSON"},
      {"{", "not a saved conversation: not JSON"},
      {{"{}\0", 3}, "not a saved conversation: not JSON"},
      {"[]", "not a saved conversation: expected an object with \"format\": \"bonsai-chat\""},
      {R"({"format": "other"})", "not a saved conversation: expected an object with \"format\": \"bonsai-chat\""},
      {R"({"format": "bonsai-chat"})", "version is missing or no integer; expected 1"},
      {R"({"format": "bonsai-chat", "version": 2})", "version is 2; this program knows 1"},
      {chat(R"("messages": {})"), "messages is missing or no array"},
      {chat(R"("system": 1, "messages": [])"), "system is number; expected a string"},
      {chat(R"("tools": {}, "messages": [])"), "tools is object; expected an array"},
      {chat(R"("enable_thinking": 1, "messages": [])"), "enable_thinking is number; expected true or false"},
      {chat(R"("mesages": [])"), "'mesages' is not a known field"},
      {chat(R"("messages": [1])"), "messages[0] is number; expected an object"},
      {chat(R"("messages": [{"content": "x"}])"), "messages[0].role is missing"},
      {chat(R"("messages": [{"role": "user"}])"), "messages[0].content is missing"},
      {chat(R"("messages": [{"role": "user", "content": 1}])"), "messages[0].content is number; expected a string"},
      {chat(R"("messages": [{"role": 1, "content": ""}])"), "messages[0].role is number; expected a string"},
      {chat(R"("messages": [{"role": "user", "content": "", "name": ""}])"), "messages[0].'name' is not a known field"},
      {chat(R"("messages": [{"role": "assistant", "content": "", "tool_calls": 1}])"),
       "messages[0].tool_calls is number; expected an array"},
  };
  for (const BadFile &file : kBadFiles) {
    const auto loaded = read_conversation(file.json);
    ASSERT_FALSE(loaded.has_value()) << file.json;
    EXPECT_EQ(loaded.error().message, file.message) << file.json;
  }
}

std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// Promise: no file overflows the stack, and what is taken can be saved and loaded again.
TEST(SavedChat, WhatIsNestedTooDeepIsRefused) {
  EXPECT_TRUE(check_json_array("tools", nested(100)).has_value());
  for (const size_t depth : {101u, 1000000u})
    EXPECT_EQ(check_json_array("tools", nested(depth)).error().message, "tools: nested more than 100 deep");

  Conversation conversation;
  conversation.options.tools = nested(100);
  conversation.messages = {{.role = "assistant", .content = "", .tool_calls = nested(100)}};
  const auto loaded = read_conversation(write_conversation(conversation));
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ(loaded->messages[0].tool_calls, nested(100));

  for (const size_t depth : {101u, 1000000u}) {
    const std::string calls = R"({"role": "assistant", "content": "", "tool_calls": )" + nested(depth) + "}";
    const auto refused = read_conversation(R"({"format": "bonsai-chat", "version": 1, "messages": [)" + calls + "]}");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().message, "not a saved conversation: nested more than 103 deep");
  }
}

}  // namespace
}  // namespace bonsai::host
