// JSON schemas that must hold at once: "allOf", and what stands beside a "$ref".
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <numeric>
#include <string>
#include <tuple>

#include "tests/grammar/sentences.h"

namespace bonsai::grammar {
namespace {

TEST(AllOf, JoinsCountsNamesAndWhatFurtherPropertiesAre) {
  const Grammar grammar = json_schema(
      R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": {"type": "integer"}, "minProperties": 1},
      {"properties": {"b": {"minimum": 3}}, "maxProperties": 1}]})");
  expect_sentences(grammar, {R"({"a":"x"})", R"({"b":3})", R"({"c":4})"});
  expect_none(grammar, {"{}", R"({"b":3.5})", R"({"b":2})", R"({"c":"x"})", R"({"a":1,"b":3})"});
  const Grammar patterns = json_schema(
      R"({"allOf": [{"patternProperties": {"^a": {"type": "integer"}}}, {"patternProperties": {"^a": {"minimum": 3}, "^b": {"type": "null"}}}]})");
  expect_sentences(patterns, {R"({"a1":3,"b":null})"});
  expect_none(patterns, {R"({"a1":2})", R"({"a1":3.5})", R"({"b":1})"});
}

TEST(AllOf, ItemsHoldForTheFirstOnesOfAnotherPart) {
  const Grammar grammar = json_schema(
      R"({"items": {"type": "integer"}, "allOf": [{"prefixItems": [{"minimum": 3}, true]}, {"prefixItems": [{"maximum": 4}], "items": {"minimum": 7}}]})");
  expect_sentences(grammar, {"[]", "[3]", "[4,7]", "[3,8,9]"});
  expect_none(grammar, {"[2]", "[5]", "[3.5]", "[3,6]", "[3,7.5]", "[3,7,6]", "[3,7,null]"});
  const Grammar joined = json_schema(
      R"({"$ref": "#/$defs/pair", "items": {"type": ["string", "null"]}, "$defs": {"pair": {"prefixItems": [{"enum": [1, "a"]}, {"type": "null"}]}}})");
  expect_sentences(joined, {"[]", R"(["a"])", R"(["a",null])", R"(["a",null,"b"])"});
  expect_none(joined, {"[1]", R"(["a","b"])", R"(["a",null,1])"});
  // No items are allowed, so that what the first one should be does not matter.
  const Grammar none = json_schema(R"({"items": false, "allOf": [{"prefixItems": [{"type": "integer"}, true]}]})");
  expect_sentences(none, {"[]", "[ ]"});
  expect_none(none, {"[1]", "[1,2]"});
  const Grammar one = json_schema(
      R"({"allOf": [{"prefixItems": []}, {"prefixItems": [{"const": 1}], "items": false}, {"prefixItems": [true, true]}]})");
  expect_sentences(one, {"[]", "[1]"});
  expect_none(one, {"[2]", "[1,1]"});
}

// As zod writes .startsWith().endsWith() and .regex().regex().
TEST(AllOf, PatternsHoldAtOnce) {
  const Grammar grammar = json_schema(
      R"({"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "b$"}, {"pattern": "^a", "maxLength": 4}, {"pattern": "^(?!.*x)a"}]
})");
  expect_sentences(grammar, {R"("ab")", R"("aéb")", R"("aabb")"});
  expect_none(grammar, {R"("a")", R"("b")", R"("aaabb")", R"("axb")", R"("\u0061b")"});
  const Grammar referred = json_schema(
      R"({"$ref": "#/$defs/a", "pattern": "c", "$defs": {"a": {"allOf": [{"pattern": "a"}, {"pattern": "b"}]}}})");
  expect_sentences(referred, {R"("abc")", R"("cab")"});
  expect_none(referred, {R"("ab")", R"("ac")", R"("bc")"});
  // Each brings several, and those beside alternatives hold for all of them.
  const Grammar any = json_schema(
      R"({"allOf": [{"pattern": "^a"}, {"pattern": "z$"}], "anyOf": [{"allOf": [{"pattern": "b"}, {"pattern": "c"}]}, {"pattern": "^ad"}, {"type": "null"}, {"pattern": "^b"}]})");
  expect_sentences(any, {R"("abcz")", R"("adz")", "null"});
  expect_none(any, {R"("abz")", R"("bz")", R"("abc")"});
  const Grammar property =
      json_schema(R"({"allOf": [{"properties": {"p": {"pattern": "^a"}}}, {"properties": {"p": {"pattern": "b$"}}}]})");
  expect_sentences(property, {R"({"p":"ab"})"});
  expect_none(property, {R"({"p":"a"})", R"({"p":"b"})"});
}

TEST(AllOf, FormatsHoldAtOnce) {
  const Grammar both = json_schema(R"({"type": "string", "allOf": [{"format": "hostname"}, {"format": "ipv4"}]})");
  expect_sentences(both, {R"("127.0.0.1")"});
  expect_none(both, {R"("localhost")", R"("256.0.0.1")"});
  const Grammar kinds =
      json_schema(R"({"type": ["string", "integer"], "allOf": [{"format": "date"}, {"format": "int32"}]})");
  expect_sentences(kinds, {R"("2024-02-29")", "2147483647"});
  expect_none(kinds, {R"("")", "2147483648"});
  const Grammar counted = json_schema(
      R"({"allOf": [{"format": "hostname", "maxLength": 253}, {"format": "ipv4"}, {"pattern": "^1"}, {"minLength": 9}]})");
  expect_sentences(counted, {R"("127.0.0.1")"});
  expect_none(counted, {R"("1.1.1.1")", R"("255.255.255.255")"});
}

TEST(AllOf, FormatsThatExcludeNothingAreLeftOutBesideOthers) {
  for (const char *parts : {R"({"format": "date"}, {"format": "foo"})", R"({"format": "foo"}, {"format": "date"})",
                            R"({"format": "foo"}, {"format": "bar"}, {"format": "date"}, {"format": "bar"})"}) {
    const Grammar date = json_schema(fmt::format(R"({{"allOf": [{}]}})", parts));
    expect_sentences(date, {R"("2024-02-29")"});
    expect_none(date, {R"("x")", "1"});
  }
  expect_sentences(json_schema(R"({"allOf": [{"type": "integer", "format": "int64"}, {"format": "double"}]})"), {"6"});
  expect_sentences(json_schema(R"({"allOf": [{"type": "string", "format": "foo"}, {"format": "bar"}]})"), {R"("x")"});
}

TEST(AllOf, DivisorsHaveALeastCommonMultiple) {
  for (const auto &[a, b] : {std::pair{2, 3}, {4, 6}, {12, 90}, {7, 7}, {1, 13}}) {
    const Grammar grammar = json_schema(fmt::format(
        R"({{"type": "integer", "maximum": 400, "minimum": 0, "allOf": [{{"multipleOf": {}}}, {{"multipleOf": {}}}]}})",
        a, b));
    for (int i = 0; i <= 400; ++i)
      ASSERT_EQ(grammar.matches(std::to_string(i)), i % std::lcm(a, b) == 0) << i << " by " << a << " and " << b;
  }
  // In hundredths.
  for (const auto &[a, b, hundredths] : {std::tuple{"0.5", "0.2", 100},
                                         {"0.15", "0.1", 30},
                                         {"2.5", "1e-2", 250},
                                         {"0.04", "0.06", 12},
                                         {"3", "0.75", 300},
                                         {"1e-15", "0.25", 25}}) {
    const Grammar grammar = json_schema(
        fmt::format(R"({{"maximum": 9, "minimum": 1, "allOf": [{{"multipleOf": {}}}, {{"multipleOf": {}}}]}})", a, b));
    for (int i = 100; i <= 900; ++i) {
      std::string text = fmt::format("{}.{:02}", i / 100, i % 100);
      while (text.back() == '0') text.pop_back();
      if (text.back() == '.') text.pop_back();
      ASSERT_EQ(grammar.matches(text), i % hundredths == 0) << text << " by " << a << " and " << b;
    }
  }
  EXPECT_EQ(
      message_of(Grammar::from_json_schema(R"({"allOf": [{"multipleOf": 0.30000000000000001}, {"multipleOf": 0.2}]})")),
      "JSON schema, '#': 'multipleOf': expected numbers that a double holds to the last digit, found "
      "'0.30000000000000001'");
}

}  // namespace
}  // namespace bonsai::grammar
