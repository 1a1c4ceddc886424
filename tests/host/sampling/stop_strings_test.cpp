#include "host/sampling/stop_strings.h"

#include <gtest/gtest.h>

namespace bonsai::host {
namespace {

TEST(StopStrings, HoldsBackWhatMayBeginOne) {
  StopStrings stops({"\n\nUser:"});
  EXPECT_EQ(stops.push("Hello.\n"), "Hello.");
  EXPECT_EQ(stops.push("\nUse"), "");
  EXPECT_EQ(stops.push("ful"), "\n\nUseful");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, NeverShowsPartOfOne) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("the E"), "the ");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("D and more"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.push("still more"), "");
  EXPECT_EQ(stops.flush(), "");
}

TEST(StopStrings, GivesBackWhatItHeldWhenTheTextEndsOtherwise) {
  StopStrings stops({"END"});
  EXPECT_EQ(stops.push("the EN"), "the ");
  EXPECT_EQ(stops.flush(), "EN");
}

TEST(StopStrings, OverlappingBeginningsAreFollowed) {
  StopStrings stops({"aab"});
  EXPECT_EQ(stops.push("aaa"), "a");
  EXPECT_EQ(stops.push("b"), "");
  EXPECT_TRUE(stops.stopped());
}

TEST(StopStrings, NoneOrEmptyOnesLetEverythingThrough) {
  StopStrings none({}), empty({""});
  EXPECT_EQ(none.push("text"), "text");
  EXPECT_EQ(empty.push("text"), "text");
  EXPECT_FALSE(empty.stopped());
}

// Every text over three letters, cut into pieces of every size: always the same result as in one piece.
TEST(StopStrings, TheResultDoesNotDependOnThePieces) {
  const std::vector<std::vector<std::string>> sets = {{"abca"}, {"bc", "abcd"}, {"aa", "aab", "c"}, {"cab", "ab"}};
  for (const auto &set : sets) {
    for (int code = 0; code < 2187; ++code) {
      std::string text;
      for (int rest = code, i = 0; i < 7; ++i, rest /= 3) text += static_cast<char>('a' + rest % 3);
      StopStrings whole(set);
      std::string expected = whole.push(text);
      expected += whole.flush();
      for (size_t n = 1; n < text.size(); ++n) {
        StopStrings pieces(set);
        std::string shown;
        for (size_t at = 0; at < text.size(); at += n) shown += pieces.push(text.substr(at, n));
        shown += pieces.flush();
        ASSERT_EQ(shown, expected) << text << " in pieces of " << n;
        ASSERT_EQ(pieces.found(), whole.found()) << text << " in pieces of " << n;
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::host
