// Promise: a search for a tag does not look again at what it has looked at, however small the pieces are in which a
// long answer comes. The tests change what lies behind the searches to show that.
#include "host/chat/tag_search.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::host {
namespace {

TEST(TagSearch, LineEndsBelongToTheTag) {
  TagSearch search("<a>");
  const TagSearch::Found begun = search.look("x\n\n<");
  EXPECT_EQ(begun.end, 1u);
  EXPECT_EQ(begun.tag, std::nullopt);
  const TagSearch::Found found = search.look("\n\n<a>");
  EXPECT_EQ(found.end, 0u);
  EXPECT_EQ(found.tag, 2u);
  EXPECT_EQ(search.look("\nx<a>").end, 2u);
}

TEST(TagSearch, LineEndsAreLookedAtOnce) {
  TagSearch search("<a>");
  std::string text;
  for (int i = 0; i < 100; ++i) {
    text += '\n';
    EXPECT_EQ(search.look(text).end, 0u);
    text.back() = 'x';
  }
  EXPECT_EQ(search.look(text + "\n<").end, 0u);
  EXPECT_EQ(search.look(text + "\n<\n").end, 102u);
}

TEST(JsonEndSearch, TextsOfTheJsonMayHoldTheTag) {
  JsonEndSearch search("<a>", 1);
  EXPECT_EQ(search.look("\"{\"<a>\\"), std::nullopt);
  EXPECT_EQ(search.look("\"{\"<a>\\\""), std::nullopt);
  EXPECT_EQ(search.look("\"{\"<a>\\\"<a>\"}<"), std::nullopt);
  EXPECT_EQ(search.look("\"{\"<a>\\\"<a>\"}<b"), std::nullopt);
  EXPECT_EQ(search.look("\"{\"<a>\\\"<a>\"}<b<a>"), 15u);
}

TEST(JsonEndSearch, WhatIsNoTagIsLookedAtOnce) {
  JsonEndSearch search("<a>", 0);
  EXPECT_EQ(search.look("{\"b\": \"\\\"\"}"), std::nullopt);
  EXPECT_EQ(search.look("<a>\"<a>\"...<a>"), 11u);
}

}  // namespace
}  // namespace bonsai::host
