#include "core/text/nfc.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "tests/text/random_text.h"

namespace bonsai::text {
namespace {

// utf8proc's own normalisation of a whole text.
std::string utf8proc_nfc(const std::string &text) {
  utf8proc_uint8_t *result = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t *>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                   &result, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return std::string(reinterpret_cast<const char *>(result), static_cast<size_t>(size));
}

TEST(Nfc, LeavesTextBelowTheCombiningMarksAlone) {
  EXPECT_EQ(normalize_nfc(""), "");
  EXPECT_EQ(normalize_nfc("plain\r\n\ttext\x7F"), "plain\r\n\ttext\x7F");
  EXPECT_EQ(normalize_nfc(std::string("\0a\0", 3)), std::string("\0a\0", 3));
  EXPECT_EQ(normalize_nfc("\u00E9\u02FF\u00FF"), "\u00E9\u02FF\u00FF");
}

TEST(Nfc, ComposesMarksWithTheCharacterBeforeThem) {
  EXPECT_EQ(normalize_nfc("e\u0301"), "\u00E9");
  EXPECT_EQ(normalize_nfc("xe\u0301x"), "x\u00E9x");
  EXPECT_EQ(normalize_nfc("\u00E9\u0323"), "\u1EB9\u0301") << "a two-byte starter; the lower mark goes first";
  EXPECT_EQ(normalize_nfc("a\u0301\u0323b"), "\u1EA1\u0301b");
  EXPECT_EQ(normalize_nfc("\u0301e"), "\u0301e") << "a mark at the start has nothing to combine with";
}

TEST(Nfc, ReplacesSingletonsAndKeepsCompositionExclusionsApart) {
  EXPECT_EQ(normalize_nfc("\u212B"), "\u00C5");
  EXPECT_EQ(normalize_nfc("\u2126"), "\u03A9");
  EXPECT_EQ(normalize_nfc("\u0958"), "\u0915\u093C");
  EXPECT_EQ(normalize_nfc("\uFB2C"), "\u05E9\u05BC\u05C1");
  EXPECT_EQ(normalize_nfc("\U0001D160"), "\U0001D158\U0001D165\U0001D16E");
}

TEST(Nfc, ComposesHangul) {
  EXPECT_EQ(normalize_nfc("\u1100\u1161\u11A8"), "\uAC01");
  EXPECT_EQ(normalize_nfc("\uAC00\u11A8"), "\uAC01");
  EXPECT_EQ(normalize_nfc("\uAC00\u11C3"), "\uAC00\u11C3") << "behind the last final consonant";
}

TEST(Nfc, KeepsTheJamoBeforeTheFinalConsonants) {
  EXPECT_EQ(normalize_nfc("\uAC00\u11A7"), "\uAC00\u11A7");
  EXPECT_EQ(normalize_nfc("\u1100\u1161\u11A7"), "\uAC00\u11A7");
  EXPECT_EQ(normalize_nfc("\u11A7\u0301"), "\u11A7\u0301");
}

TEST(Nfc, WorkingInPiecesGivesWhatTheWholeTextGives) {
  RandomText random(1);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = random.text(8);
    if (text.find("\u11A7") != std::string::npos) continue;  // utf8proc drops it; its own test is above
    ASSERT_EQ(normalize_nfc(text), utf8proc_nfc(text)) << "text " << i;
  }
}

TEST(Nfc, IsIdempotent) {
  RandomText random(2);
  for (int i = 0; i < 5000; ++i) {
    const std::string once = normalize_nfc(random.text(8));
    ASSERT_EQ(normalize_nfc(once), once) << "text " << i;
  }
}

// With an insertion sort this test takes minutes; nothing here measures, one only notices.
TEST(Nfc, OrdersALongRunOfMarksInReasonableTime) {
  constexpr size_t kPairs = 250000;
  std::string mixed = "x";
  std::string below, above;
  for (size_t i = 0; i < kPairs; ++i) {
    mixed += "\u0301\u0316";
    below += "\u0316";
    above += "\u0301";
  }
  EXPECT_TRUE(normalize_nfc(mixed) == "x" + below + above);
}

}  // namespace
}  // namespace bonsai::text
