// Promise: whoever recurses into JSON from a file learns before how deep that would lead.
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

}  // namespace
}  // namespace bonsai
