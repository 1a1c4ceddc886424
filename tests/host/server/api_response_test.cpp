// What clients get, byte for byte where they depend on it.
#include "host/server/api_response.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::server {
namespace {

TEST(ApiResponse, IsOneLineForEveryClient) {
  EXPECT_EQ(to_line("a\xC2\x85\xE2\x80\xA8\xE2\x80\xA9z\n"), R"("a\u0085\u2028\u2029z\n")");
  EXPECT_EQ(to_line("\xC2\x84\xE2\x80\xA7\xE2\x80"), "\"\xC2\x84\xE2\x80\xA7\xEF\xBF\xBD\"") << "others stay";
}

// Moving what comes behind for each of them would take hours.
TEST(ApiResponse, MayHaveManyLineEnds) {
  std::string text, escaped;
  for (int i = 0; i < 1'500'000; ++i) {
    text += "\xE2\x80\xA8";
    escaped += "\\u2028";
  }
  EXPECT_TRUE(to_line(text) == "\"" + escaped + "\"");
}

}  // namespace
}  // namespace bonsai::server
