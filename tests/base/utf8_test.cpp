#include "core/base/utf8.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace bonsai {
namespace {

constexpr size_t kValid = std::string_view::npos;

TEST(FindInvalidUtf8, AcceptsEveryWellFormedSequence) {
  EXPECT_EQ(find_invalid_utf8(""), kValid);
  EXPECT_EQ(find_invalid_utf8("plain"), kValid);
  EXPECT_EQ(find_invalid_utf8(std::string_view("\0", 1)), kValid);
  EXPECT_EQ(find_invalid_utf8("\x7F\xC2\x80\xDF\xBF"), kValid);                              // U+7F, U+80, U+7FF
  EXPECT_EQ(find_invalid_utf8("\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF"), kValid);  // U+800 ... U+FFFF
  EXPECT_EQ(find_invalid_utf8("\xF0\x90\x80\x80\xF4\x8F\xBF\xBF"), kValid);                  // U+10000, U+10FFFF
}

// Promise: the offset is that of the sequence that is wrong, for each way to be wrong (Unicode 15, table 3-7).
TEST(FindInvalidUtf8, FindsWhatIsIllFormed) {
  EXPECT_EQ(find_invalid_utf8("ab\x80"), 2u);                // a continuation on its own
  EXPECT_EQ(find_invalid_utf8("ab\xC0\x80"), 2u);            // overlong, two bytes
  EXPECT_EQ(find_invalid_utf8("\xC1\xBF"), 0u);              // likewise
  EXPECT_EQ(find_invalid_utf8("\xE0\x9F\xBF"), 0u);          // overlong, three bytes
  EXPECT_EQ(find_invalid_utf8("\xF0\x8F\xBF\xBF"), 0u);      // overlong, four bytes
  EXPECT_EQ(find_invalid_utf8("\xED\xA0\x80"), 0u);          // a surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);      // U+110000
  EXPECT_EQ(find_invalid_utf8("\xF5\x80\x80\x80"), 0u);      // beyond
  EXPECT_EQ(find_invalid_utf8("\xFF"), 0u);                  // never a byte of UTF-8
  EXPECT_EQ(find_invalid_utf8("a\xE2\x82"), 1u);             // cut off
  EXPECT_EQ(find_invalid_utf8("a\xE2\x82z"), 1u);            // cut short
  EXPECT_EQ(find_invalid_utf8("\xC3\xA9\xF0\x9F\x98"), 2u);  // cut off after a good one
}

// Promise: a name from a file cannot break a message's line or the terminal that shows it.
TEST(Quoted, IsOneSafeLine) {
  EXPECT_EQ(bonsai::quoted(""), "''");
  EXPECT_EQ(bonsai::quoted("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(bonsai::quoted("caf\xC3\xA9"), "'caf\xC3\xA9'");
  EXPECT_EQ(bonsai::quoted("a\nb\x1B[2J"), "'a\\x0ab\\x1b[2J'");
  EXPECT_EQ(bonsai::quoted("\xC2\x9B\x7F"), "'\\xc2\\x9b\\x7f'");
  EXPECT_EQ(bonsai::quoted("\xFF\xC3"), "'\\xff\\xc3'");
  EXPECT_EQ(bonsai::quoted(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(bonsai::quoted(std::string(81, 'x')), "'" + std::string(80, 'x') + "...'");
}

TEST(Printable, IsTheWholeTextOnOneSafeLine) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("blk.0.attn_q.weight: caf\xC3\xA9"), "blk.0.attn_q.weight: caf\xC3\xA9");
  EXPECT_EQ(printable("a\nb\x1B[2J\xFF"), "a\\x0ab\\x1b[2J\\xff");
  EXPECT_EQ(printable(std::string(1000, 'x') + '\n'), std::string(1000, 'x') + "\\x0a");
}

}  // namespace
}  // namespace bonsai
