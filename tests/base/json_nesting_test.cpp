// Promise: whoever recurses into JSON from a file learns before how deep that would lead, and whoever looks names up
// how many there are.
#include "core/base/json_nesting.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai {
namespace {

TEST(JsonNesting, CountsOpenBracketsAndBraces) {
  EXPECT_FALSE(is_nested_deeper("1", 0));
  EXPECT_TRUE(is_nested_deeper("[]", 0));
  EXPECT_FALSE(is_nested_deeper("[]", 1));
  EXPECT_FALSE(is_nested_deeper(R"({"a": [1, 2], "b": [[]]})", 3));
  EXPECT_TRUE(is_nested_deeper(R"({"a": [1, 2], "b": [[]]})", 2));
  EXPECT_FALSE(is_nested_deeper("[[],[],[],{},{}]", 2)) << "one after the other is not deeper";
}

TEST(JsonNesting, StringsCountForNothing) {
  EXPECT_FALSE(is_nested_deeper(R"(["[[[[{{{{"])", 1));
  EXPECT_FALSE(is_nested_deeper(R"(["\"[[[[", "\\"])", 1));
  EXPECT_TRUE(is_nested_deeper(R"(["\\", [[]]])", 2)) << "a backslash before the quotation mark that ends a string";
}

TEST(JsonNesting, WhatIsNoJsonIsSurvived) {
  EXPECT_FALSE(is_nested_deeper("", 0));
  EXPECT_FALSE(is_nested_deeper("]]]]\"\\", 0));
  EXPECT_TRUE(is_nested_deeper("]]]][[", 1)) << "what closes nothing allows nothing deeper";
  EXPECT_TRUE(is_nested_deeper(std::string(1000000, '['), 100));
}

TEST(JsonNames, AreCountedInEachObject) {
  EXPECT_FALSE(has_more_names("[1, 2, 3]", 0));
  EXPECT_FALSE(has_more_names("{}", 0));
  EXPECT_TRUE(has_more_names(R"({"a": 1})", 0));
  EXPECT_FALSE(has_more_names(R"({"a": {"b": {"c": 1}}})", 1)) << "those of inner objects are their own";
  EXPECT_FALSE(has_more_names(R"([{"a": 1}, {"b": 1}])", 1));
  EXPECT_FALSE(has_more_names(R"({"a": [{"b": 1, "c": 1}], "d": {}})", 2));
  EXPECT_TRUE(has_more_names(R"({"a": [{"b": 1}], "c": {}, "d": {}})", 2)) << "and those behind them go on";
  EXPECT_TRUE(has_more_names(R"({"a": [{"b": 1, "c": {}, "d": 1}]})", 2));
}

TEST(JsonNames, StringsCountForNothing) {
  EXPECT_FALSE(has_more_names(R"({"a:b": ":::\":{", "c": "\\"})", 2));
  EXPECT_FALSE(has_more_names(R"(["{", ":", "}"])", 0));
}

TEST(JsonNames, WhatIsNoJsonIsSurvived) {
  EXPECT_FALSE(has_more_names("", 0));
  EXPECT_FALSE(has_more_names("]]}}\"\\", 0));
  EXPECT_TRUE(has_more_names("}]::", 1));
}

TEST(JsonParts, AreObjectsArraysAndTexts) {
  EXPECT_FALSE(has_more_parts("1", 0));
  EXPECT_TRUE(has_more_parts("[]", 0));
  EXPECT_TRUE(has_more_parts("{}", 0));
  EXPECT_TRUE(has_more_parts(R"("")", 0));
  EXPECT_FALSE(has_more_parts("[1, 2.5, true, false, null]", 1)) << "others have no memory of their own";
  EXPECT_FALSE(has_more_parts(R"({"a": [{}, "b"]})", 5));
  EXPECT_TRUE(has_more_parts(R"({"a": [{}, "b"]})", 4));
  EXPECT_FALSE(has_more_parts(R"(["{[\"{[", "\\"])", 3)) << "what stands in a text is one with it";
}

TEST(JsonParts, WhatIsNoJsonIsSurvived) {
  EXPECT_FALSE(has_more_parts("", 0));
  EXPECT_FALSE(has_more_parts("]]}}:,\\", 0));
  EXPECT_TRUE(has_more_parts("[[[", 2));
}

}  // namespace
}  // namespace bonsai
