// Promise: however an answer is cut into pieces, reasoning and content come out the same.
#include "host/chat/reasoning_parser.h"

#include <gtest/gtest.h>

namespace bonsai::host {
namespace {

struct Parsed {
  std::string reasoning, content, streamed;  // streamed: R and C ahead of what each kind of piece adds up to
  bool operator==(const Parsed &) const = default;
};
void PrintTo(const Parsed &parsed, std::ostream *out) {
  *out << "[" << parsed.reasoning << "][" << parsed.content << "] as " << parsed.streamed;
}

Parsed parse(std::string_view text, size_t piece_bytes, bool in_reasoning = false) {
  Parsed parsed;
  char last = '\0';
  const ReasoningParser::Sink sink = [&](ChatPiece kind, std::string_view piece) {
    EXPECT_FALSE(piece.empty());
    const char mark = kind == ChatPiece::kReasoning ? 'R' : 'C';
    if (mark != last) parsed.streamed += mark;
    last = mark;
    parsed.streamed += piece;
    return true;
  };
  ReasoningParser parser(in_reasoning, sink);
  for (size_t at = 0; at < text.size(); at += piece_bytes) EXPECT_TRUE(parser.push(text.substr(at, piece_bytes)));
  EXPECT_TRUE(parser.finish());
  parsed.reasoning = parser.reasoning();
  parsed.content = parser.content();
  return parsed;
}

struct Example {
  std::string_view text;
  Parsed expected;
  bool in_reasoning = false;
};

const Example kExamples[] = {
    {"Hello.", {"", "Hello.", "CHello."}},
    {"<think>\nHm.\n\nYes.\n</think>\n\nHello.", {"Hm.\n\nYes.", "Hello.", "RHm.\n\nYes.CHello."}},
    {"<think>\n\n</think>\n\nHello.", {"", "Hello.", "CHello."}},
    {"<think></think>Hello.", {"", "Hello.", "CHello."}},
    {" \n<think>a</think>b", {"a", "b", "RaCb"}},
    {"Hm.\n</think>\n\nHello.", {"Hm.", "Hello.", "RHm.CHello."}, true},
    {"</think>b", {"", "b", "Cb"}, true},
    {"<think>a < b </thin", {"a < b </thin", "", "Ra < b </thin"}},
    {"<think>cut\n", {"cut\n", "", "Rcut\n"}},
    {"<thin", {"", "<thin", "C<thin"}},
    {"<thought>a", {"", "<thought>a", "C<thought>a"}},
    {"a <think>b</think>", {"", "a <think>b</think>", "Ca <think>b</think>"}},
    {"<think>a</think>b</think>\n", {"a", "b</think>\n", "RaCb</think>\n"}},
    {"<think>K\u00e4se</think>\u65e5\u672c", {"K\u00e4se", "\u65e5\u672c", "RK\u00e4seC\u65e5\u672c"}},
    {" \n", {"", " \n", "C \n"}},
    {" \n\t \n<think>a</think>b", {"a", "b", "RaCb"}},
    {" \n\t \n<that>", {"", " \n\t \n<that>", "C \n\t \n<that>"}},
    {"<think>a\n\n\n</th\n\n\n</think>b", {"a\n\n\n</th", "b", "Ra\n\n\n</thCb"}},
    {"", {"", "", ""}},
};

TEST(ReasoningParser, PiecesOfAnySizeGiveTheSame) {
  for (const Example &example : kExamples) {
    for (size_t bytes = 1; bytes <= example.text.size() + 1; ++bytes)
      EXPECT_EQ(parse(example.text, bytes, example.in_reasoning), example.expected) << example.text << " by " << bytes;
  }
}

// Work that grew with the square would take hours here.
TEST(ReasoningParser, LongRunsInSmallPieces) {
  const std::string spaces(1 << 21, ' '), line_ends(1 << 21, '\n');
  EXPECT_EQ(parse(spaces + "a", 1).content, spaces + "a");
  EXPECT_EQ(parse(spaces + "<think>a" + line_ends + "</think>b", 1), (Parsed{"a", "b", "RaCb"}));
  EXPECT_EQ(parse("<think>a" + line_ends, 1).reasoning, "a" + line_ends);
}

TEST(ReasoningParser, TextComesAsSoonAsItCannotBeATag) {
  std::string seen;
  const ReasoningParser::Sink sink = [&](ChatPiece, std::string_view piece) { return seen += piece, true; };
  ReasoningParser parser(false, sink);
  parser.push("<th");
  EXPECT_EQ(seen, "");
  parser.push("ink>a\n<");
  EXPECT_EQ(seen, "a");
  parser.push("b");
  EXPECT_EQ(seen, "a\n<b");
}

TEST(ReasoningParser, ARefusalEndsIt) {
  int n_pieces = 0;
  const ReasoningParser::Sink sink = [&](ChatPiece, std::string_view) { return ++n_pieces, false; };
  ReasoningParser parser(false, sink);
  EXPECT_FALSE(parser.push("<think>a</think>b"));
  EXPECT_FALSE(parser.push("c"));
  EXPECT_FALSE(parser.finish());
  EXPECT_EQ(n_pieces, 1);
  EXPECT_EQ(parser.reasoning(), "a");
}

}  // namespace
}  // namespace bonsai::host
