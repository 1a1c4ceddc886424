#include "core/text/special_tokens.h"

#include <gtest/gtest.h>

namespace bonsai::text {
namespace {

SpecialMatcher make_matcher(std::initializer_list<std::string_view> spellings) {
  SpecialMatcher matcher;
  int32_t id = 0;
  for (const std::string_view spelling : spellings) matcher.add(spelling, id++);
  matcher.finish();
  return matcher;
}

void expect_match(const SpecialMatcher &matcher, std::string_view text, size_t begin, size_t end, int32_t id) {
  const auto match = matcher.find(text, 0);
  ASSERT_TRUE(match) << text;
  EXPECT_EQ(match->begin, begin) << text;
  EXPECT_EQ(match->end, end) << text;
  EXPECT_EQ(match->id, id) << text;
}

TEST(SpecialTokens, TheLongestAtTheEarliestPositionWins) {
  const SpecialMatcher matcher = make_matcher({"<a>", "<a>b", "<a>bcd", "a>bcde", "x"});
  expect_match(matcher, "..<a>..x", 2, 5, 0);
  expect_match(matcher, "..<a>bc", 2, 6, 1);
  expect_match(matcher, "<a>bcde", 0, 6, 2);
  expect_match(matcher, "a>bcde", 0, 6, 3);
  expect_match(matcher, "<<a>", 1, 4, 0);
}

TEST(SpecialTokens, NothingMatchesWhereNothingIs) {
  const SpecialMatcher matcher = make_matcher({"<|im_end|>", "\xF0\x9F\x99\x82"});
  EXPECT_FALSE(matcher.find("", 0));
  EXPECT_FALSE(matcher.find("<|im_end|", 0));
  EXPECT_FALSE(matcher.find("<|IM_END|>", 0));
  EXPECT_FALSE(matcher.find("<|im_end|> ", 1));
  EXPECT_FALSE(make_matcher({}).find("text", 0));
}

TEST(SpecialTokens, AnEmptySpellingIsNowhere) {
  const SpecialMatcher matcher = make_matcher({"", "a"});
  expect_match(matcher, "ba", 1, 2, 1);
  EXPECT_FALSE(matcher.find("b", 0));
}

TEST(SpecialTokens, BytesAboveAsciiMatch) { expect_match(make_matcher({"中", "中文"}), "在中文", 3, 9, 1); }

}  // namespace
}  // namespace bonsai::text
