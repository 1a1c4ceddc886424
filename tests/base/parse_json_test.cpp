// A NUL ends no JSON text.
#include "core/base/parse_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string_view>

namespace bonsai {
namespace {

using nlohmann::json;
using std::string_view_literals::operator""sv;

TEST(ParseJson, ReadsWhatIsJson) {
  EXPECT_EQ(parse_json<json>(R"({"a": "\u0000"})"), json({{"a", "\0"sv}}));
  EXPECT_TRUE(parse_json<json>("[1", false).is_discarded());
}

TEST(ParseJson, TakesNulForACharacterThatJsonDoesNotHave) {
  for (const std::string_view text : {"{}\0"sv, "\0{}"sv, "[1, \0 2]"sv, "[]\0 \"an open text"sv, "[\"\0\"]"sv})
    EXPECT_TRUE(parse_json<json>(text, false).is_discarded()) << json(text);
  try {
    parse_json<json>("[1]\0[2]"sv);
    FAIL() << "nothing was thrown";
  } catch (const json::parse_error &error) {
    EXPECT_EQ(error.byte, 4u);
  }
}

}  // namespace
}  // namespace bonsai
