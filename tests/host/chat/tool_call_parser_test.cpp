// Promise: however an answer is cut into pieces, the same calls come out, and what is no call stays as it was written.
#include "host/chat/tool_call_parser.h"

#include <gtest/gtest.h>

namespace bonsai::host {
namespace {

struct Parsed {
  std::string calls, content, streamed;  // streamed: T and C ahead of what each kind of piece adds up to
  bool operator==(const Parsed &) const = default;
};
void PrintTo(const Parsed &parsed, std::ostream *out) {
  *out << "[" << parsed.calls << "][" << parsed.content << "] as " << parsed.streamed;
}

Parsed parse(std::string_view text, size_t piece_bytes) {
  Parsed parsed;
  char last = '\0';
  const ChatCallback callback = [&](ChatPiece kind, std::string_view piece) {
    EXPECT_FALSE(piece.empty());
    const char mark = kind == ChatPiece::kToolCall ? 'T' : 'C';
    if (mark != last || mark == 'T') parsed.streamed += mark;
    last = mark;
    parsed.streamed += piece;
    return true;
  };
  ToolCallParser parser(callback);
  for (size_t at = 0; at < text.size(); at += piece_bytes) EXPECT_TRUE(parser.push(text.substr(at, piece_bytes)));
  EXPECT_TRUE(parser.finish());
  parsed.calls = parser.calls();
  parsed.content = parser.content();
  return parsed;
}

struct Example {
  std::string_view text;
  Parsed expected;
};

Parsed only_content(std::string_view text) {
  return {"", std::string(text), text.empty() ? "" : "C" + std::string(text)};
}

const Example kExamples[] = {
    {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": [2.5, null]}}\n</tool_call>",
     {R"([{"name":"f","arguments":{"b":1,"a":[2.5,null]}}])", "",
      R"(T{"name":"f","arguments":{"b":1,"a":[2.5,null]}})"}},
    {"Let me\nsee.\n\n<tool_call>{\"name\":\"f\"}</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>\n",
     {R"([{"name":"f","arguments":{}},{"name":"g","arguments":{}}])", "Let me\nsee.",
      R"(CLet me
see.T{"name":"f","arguments":{}}T{"name":"g","arguments":{}})"}},
    {"<tool_call>{\"name\":\"f\"}</tool_call>\n\nDone.\n",
     {R"([{"name":"f","arguments":{}}])", "Done.\n", "T{\"name\":\"f\",\"arguments\":{}}CDone.\n"}},
    // Other words for the arguments.
    {"<tool_call>{\"name\": \"f\", \"parameters\": {\"a\": 1}}</tool_call>",
     {R"([{"name":"f","arguments":{"a":1}}])", "", R"(T{"name":"f","arguments":{"a":1}})"}},
    {"<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"a\\\": 1}\"}</tool_call>",
     {R"([{"name":"f","arguments":{"a":1}}])", "", R"(T{"name":"f","arguments":{"a":1}})"}},
    {"<tool_call>{\"id\": 3, \"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>",
     {R"([{"name":"f","arguments":{"a":1}}])", "", R"(T{"name":"f","arguments":{"a":1}})"}},
    {"<tool_call>{\"name\": \"f\", \"arguments\": null}</tool_call>",
     {R"([{"name":"f","arguments":{}}])", "", R"(T{"name":"f","arguments":{}})"}},
    // A model that ends its answer instead of closing the tag.
    {"a\n<tool_call>\n{\"name\": \"f\"}\n",
     {R"([{"name":"f","arguments":{}}])", "a", "CaT{\"name\":\"f\",\"arguments\":{}}"}},
    // A text that holds the tag.
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"a\\\"</tool_call>b\"}}</tool_call>",
     {R"([{"name":"f","arguments":{"x":"a\"</tool_call>b"}}])", "",
      R"(T{"name":"f","arguments":{"x":"a\"</tool_call>b"}})"}},
    {"<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"</tool_call>\"}}",
     {R"([{"name":"f","arguments":{"x":"</tool_call>"}}])", "", R"(T{"name":"f","arguments":{"x":"</tool_call>"}})"}},
    {"a\n\n\n<tool\n\n\n<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"\\\\\"}}</tool</tool_call>",
     only_content("a\n\n\n<tool\n\n\n<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"\\\\\"}}</tool</tool_call>")},
    {"a\n\n\n<tool\n\n\n<tool_call>{\"name\":\"f\",\"arguments\":{\"x\":\"\\\\\"}}</tool_call>",
     {R"([{"name":"f","arguments":{"x":"\\"}}])", "a\n\n\n<tool",
      "Ca\n\n\n<toolT{\"name\":\"f\",\"arguments\":{\"x\":\"\\\\\"}}"}},
    {"<tool_call>\"</tool_call>x", only_content("<tool_call>\"</tool_call>x")},
    {"\u00e4<tool_call>{\"name\":\"\u65e5\"}</tool_call>",
     {"[{\"name\":\"\u65e5\",\"arguments\":{}}]", "\u00e4", "C\u00e4T{\"name\":\"\u65e5\",\"arguments\":{}}"}},
};

// None of these is a call.
constexpr std::string_view kContents[] = {
    "",
    "Hello.",
    "a\n\n",
    "\n",
    "a <tool",
    "a\n<tool_call",
    "a\n<tool_call>",
    "a\n<tool_call>\n{\"name\": \"f\"\n",
    "<tool_call>f()</tool_call>",
    "x\n<tool_call>[{\"name\": \"f\"}]</tool_call>\ny",
    "<tool_call>{\"name\": 1}</tool_call>",
    "<tool_call>{\"name\": \"f\", \"arguments\": \"[]\"}</tool_call>",
    "<tool_call>{\"name\": \"f\", \"arguments\": \"a\"}</tool_call>",
    "<tool_call>{\"name\": \"f\", \"arguments\": 1}</tool_call>",
    "<tool_call>{\"name\": \"f\", \"parameters\": []}</tool_call>",
    "<tool_call>{\"name\": \"f\", \"args\": {\"a\": 1}}</tool_call>",
    "<tool_call>{\"name\": \"f\", \"arguments\": null, \"a\": 1}</tool_call>",
    "<tool_call>{\"arguments\": {}}</tool_call>",
    "<tool_call>{\"name\": \"f\"} {}</tool_call>",
    "<tool_call></tool_call>",
    "</tool_call>\n<tool_call",
    "<tool_call>\n<function=f>\n</function>\n</tool_call>",
};

TEST(ToolCallParser, PiecesOfAnySizeGiveTheSame) {
  for (const Example &example : kExamples) {
    for (size_t bytes = 1; bytes <= example.text.size() + 1; ++bytes)
      EXPECT_EQ(parse(example.text, bytes), example.expected) << example.text << " by " << bytes;
  }
}

TEST(ToolCallParser, WhatIsNoCallStaysAsItWasWritten) {
  for (const std::string_view text : kContents) {
    for (size_t bytes = 1; bytes <= text.size() + 1; ++bytes)
      EXPECT_EQ(parse(text, bytes), only_content(text)) << text << " by " << bytes;
  }
  const std::string deep = "<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": " + std::string(200, '[') +
                           std::string(200, ']') + "}}</tool_call>";
  EXPECT_EQ(parse(deep, 7), only_content(deep));
  const std::string deep_text = "<tool_call>{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": " + std::string(200, '[') +
                                std::string(200, ']') + "}\"}</tool_call>";
  EXPECT_EQ(parse(deep_text, 7), only_content(deep_text));
}

// Work that grew with the square would take hours here.
TEST(ToolCallParser, LongRunsInSmallPieces) {
  const std::string letters(1 << 21, 'x'), line_ends(1 << 21, '\n');
  const std::string call = "{\"name\":\"f\",\"arguments\":{\"x\":\"" + letters + "\"}}";
  EXPECT_EQ(parse("a" + line_ends + "<tool_call>" + call + "</tool_call>", 1),
            (Parsed{"[" + call + "]", "a", "CaT" + call}));
  EXPECT_EQ(parse("a" + line_ends + "b", 1).content, "a" + line_ends + "b");
}

TEST(ToolCallParser, TextComesAsSoonAsItCannotBeACall) {
  std::string seen;
  const ChatCallback callback = [&](ChatPiece, std::string_view piece) { return seen += piece, true; };
  ToolCallParser parser(callback);
  parser.push("a\n<tool");
  EXPECT_EQ(seen, "a");
  parser.push("s");
  EXPECT_EQ(seen, "a\n<tools");
}

TEST(ToolCallParser, ARefusalEndsIt) {
  for (const std::string_view text : {"a", "<tool_call>{\"name\": \"f\"}</tool_call>"}) {
    int n = 0;
    const ChatCallback callback = [&](ChatPiece, std::string_view) { return ++n < 1; };
    ToolCallParser parser(callback);
    EXPECT_FALSE(parser.push(text));
    EXPECT_FALSE(parser.push("b"));
    EXPECT_FALSE(parser.finish());
    EXPECT_EQ(n, 1);
  }
}

TEST(ToolCallParser, NobodyNeedListen) {
  const ChatCallback nobody;
  ToolCallParser parser(nobody);
  EXPECT_TRUE(parser.push("a<tool_call>{\"name\": \"f\"}</tool_call>"));
  EXPECT_TRUE(parser.finish());
  EXPECT_EQ(parser.content(), "a");
}

}  // namespace
}  // namespace bonsai::host
