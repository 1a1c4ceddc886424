#include "core/text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace bonsai::text {
namespace {

using Words = std::vector<std::string>;

Words split(std::string_view text, std::string_view pre = "qwen2") {
  const auto pattern = PreTokenizer::create(pre);
  EXPECT_TRUE(pattern) << pattern.error().message;
  WordCursor cursor(*pattern, text);
  Words words;
  while (true) {
    const auto word = cursor.next();
    EXPECT_TRUE(word) << word.error().message;
    if (!word || word->empty()) return words;
    words.emplace_back(*word);
  }
}

TEST(PreTokenizer, Qwen2SplitsWordsDigitsPunctuationAndSpaces) {
  EXPECT_EQ(split(""), Words{});
  EXPECT_EQ(split("Hello, world"), (Words{"Hello", ",", " world"}));
  EXPECT_EQ(split("don't I'LL it's"), (Words{"don", "'t", " I", "'LL", " it", "'s"}));
  EXPECT_EQ(split("1234"), (Words{"1", "2", "3", "4"}));
  EXPECT_EQ(split("a   b"), (Words{"a", "  ", " b"}));
  EXPECT_EQ(split("a   "), (Words{"a", "   "}));
  EXPECT_EQ(split(" \n\n x"), (Words{" \n\n", " x"}));
  EXPECT_EQ(split("!?\r\n\nx"), (Words{"!?\r\n\n", "x"}));
  EXPECT_EQ(split("(a-b)"), (Words{"(a", "-b", ")"}));
}

// White space is Unicode's White_Space, as in the regular expressions of the tokenizers that models are trained with.
TEST(PreTokenizer, SpacesBeyondAsciiAreSpaces) {
  for (const std::string space : {"\t", "\v", "\f", "\u0085", "\u00A0", "\u1680", "\u2000", "\u200A", "\u2028",
                                  "\u2029", "\u202F", "\u205F", "\u3000"}) {
    EXPECT_EQ(split("1" + space + space + "1"), (Words{"1", space, space, "1"}));
    EXPECT_EQ(split(space + "!"), (Words{space, "!"}));
  }
}

// PCRE2's own \s takes U+180E for a space; it has not been one since Unicode 6.3.
TEST(PreTokenizer, FormatCharactersAreNoSpaces) {
  for (const std::string mark : {"\u180E", "\u200B", "\u200D", "\u2060", "\uFEFF"}) {
    EXPECT_EQ(split("1" + mark + mark + "1"), (Words{"1", mark + mark, "1"}));
    EXPECT_EQ(split(mark + "!"), (Words{mark + "!"}));
  }
}

TEST(PreTokenizer, LettersAndDigitsAreUnicodes) {
  EXPECT_EQ(split("стра\u00DFe 中文"), (Words{"стра\u00DFe", " 中文"}));
  EXPECT_EQ(split("\u00BD\u0664x"), (Words{"\u00BD", "\u0664", "x"}));
  EXPECT_EQ(split("a\u0301b"), (Words{"a", "\u0301b"})) << "a mark is no letter";
}

TEST(PreTokenizer, ARunOfAMegabyteIsOneWord) {
  constexpr size_t kMegabyte = 1 << 20;
  for (const char c : {'a', ' ', '\n', '!'}) {
    const std::string run(kMegabyte, c);
    EXPECT_TRUE(split(run) == Words{run}) << "a run of byte " << int{c};
  }
  std::string marks;
  while (marks.size() < kMegabyte) marks += "\u0316\u0301";
  EXPECT_TRUE(split(marks) == Words{marks}) << "a run of marks";
  EXPECT_EQ(split(std::string(kMegabyte, '1')).size(), kMegabyte);
  const std::string spaces(kMegabyte, ' ');
  EXPECT_TRUE(split(spaces + "x") == (Words{spaces.substr(1), " x"}));
}

// Models that were trained on from Qwen's have its pattern under names of their own.
TEST(PreTokenizer, OtherNamesOfThePatternSplitAlike) {
  const std::string text = "don't 12 (a-b)\r\n\n \u3000x";
  for (const char *pre : {"deepseek-r1-qwen", "f2llmv2", "kormo"}) EXPECT_EQ(split(text, pre), split(text));
}

TEST(PreTokenizer, AnUnknownNameIsRefused) {
  for (const std::string name : {"llama-bpe", "default", ""}) {
    const auto pattern = PreTokenizer::create(name);
    ASSERT_FALSE(pattern);
    EXPECT_EQ(pattern.error().message,
              "tokenizer.ggml.pre is '" + name +
                  "'; known pre-tokenizers are 'qwen2', 'deepseek-r1-qwen', 'f2llmv2', 'kormo'");
  }
}

TEST(PreTokenizer, PatternsOfTokenizerJsonHaveTheirName) {
  EXPECT_EQ(
      pre_tokenizer_of_pattern(
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"),
      "qwen2");
  EXPECT_EQ(pre_tokenizer_of_pattern(R"(\s+)"), std::nullopt);
}

}  // namespace
}  // namespace bonsai::text
