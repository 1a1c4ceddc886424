// Keywords of JSON schemas that count, divide, compare or name by pattern.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "tests/grammar/random_sentence.h"
#include "tests/grammar/schema_validator.h"
#include "tests/grammar/sentences.h"
#include "tests/grammar/vocabularies.h"

namespace bonsai::grammar {
namespace {

TEST(MultipleOf, EveryIntegerIsInOrOut) {
  for (const int divisor : {1, 2, 3, 5, 7, 10, 12, 60, 100, 997, 1000}) {
    for (const auto &[least, most] : {std::pair{-1200, 1200}, {-7, 1001}, {13, 1100}, {-1000, 0}}) {
      const Grammar grammar = json_schema(fmt::format(
          R"({{"type": "integer", "multipleOf": {}, "minimum": {}, "maximum": {}}})", divisor, least, most));
      for (int i = -1300; i <= 1300; ++i)
        ASSERT_EQ(grammar.matches(std::to_string(i)), least <= i && i <= most && i % divisor == 0)
            << i << " by " << divisor << " in " << least << " to " << most;
      expect_none(grammar, {"", "-", "-0", "00", "1.0", "0.0"});
    }
  }
}

TEST(MultipleOf, WithoutBoundsNumbersHaveSixteenDigits) {
  const Grammar grammar = json_schema(R"({"type": "integer", "multipleOf": 7})");
  expect_sentences(grammar, {"0", "7", "-7", "700", "9999999999999996", "-6999999999999993"});
  expect_none(grammar, {"9999999999999998", "-1", "70000000000000000"});
  expect_sentences(json_schema(R"({"multipleOf": 86.5})"), {"0", "86.5", "173", "-259.5"});
  expect_none(json_schema(R"({"multipleOf": 86.5})"), {"86", "173.5", "1e2"});
}

// Compared as whole thousandths.
TEST(MultipleOf, EveryDecimalIsInOrOut) {
  for (const auto &[divisor, thousandths] :
       {std::pair{"0.01", 10}, {"0.1", 100}, {"0.25", 250}, {"2.5", 2500}, {"0.3", 300}, {"1e-3", 1}, {"3", 3000}}) {
    const size_t places = thousandths == 1 ? 3 : thousandths % 100 != 0 ? 2 : thousandths % 1000 != 0 ? 1 : 0;
    const Grammar grammar =
        json_schema(fmt::format(R"({{"type": "number", "multipleOf": {}, "minimum": -3.5, "maximum": 12}})", divisor));
    for (int i = -4000; i <= 13000; ++i) {
      const bool in = i >= -3500 && i <= 12000 && i % thousandths == 0;
      const std::string text = fmt::format("{}{}.{:03}", i < 0 ? "-" : "", std::abs(i) / 1000, std::abs(i) % 1000);
      for (size_t n_zeros = 0; n_zeros < 3 && text[text.size() - 1 - n_zeros] == '0'; ++n_zeros) {
        const std::string shorter = text.substr(0, text.size() - 1 - n_zeros);
        const bool has_point = shorter.back() != '.';
        const std::string spelled = has_point ? shorter : shorter.substr(0, shorter.size() - 1);
        // As many places as the divisor has, or fewer, or none.
        const size_t n_places = has_point ? 2 - n_zeros : 0;
        ASSERT_EQ(grammar.matches(spelled), in && n_places <= places && spelled != "-0")
            << spelled << " by " << divisor;
      }
    }
  }
}

TEST(Counts, EverySetOfPropertiesIsInOrOut) {
  for (int least = 0; least <= 4; ++least) {
    for (int most = least; most <= 5; ++most) {
      const auto grammar = Grammar::from_json_schema(fmt::format(
          R"({{"properties": {{"a": {{}}, "b": {{}}, "c": {{}}, "d": {{}}}}, "required": ["c"], "minProperties": {}, "maxProperties": {}}})",
          least, most));
      ASSERT_EQ(grammar.has_value(), most > 0);
      for (int present = 0; grammar && present < 16; ++present) {
        std::string text;
        int n = 0;
        for (int i = 0; i < 4; ++i) {
          if ((present >> i & 1) == 0) continue;
          text += fmt::format("{}\"{}\":1", n++ == 0 ? "" : ", ", "abcd"[i]);
        }
        ASSERT_EQ(grammar->matches("{" + text + "}"), (present >> 2 & 1) != 0 && least <= n && n <= most)
            << text << " by " << least << " to " << most;
      }
    }
  }
}

TEST(Counts, PropertiesThatAreNotListedCountOnceAtTheLeast) {
  const Grammar map =
      json_schema(R"({"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 1})");
  expect_sentences(map, {R"({"a":null})", R"({"a":null,"b":null})"});
  expect_none(map, {"{}", "{ }", R"({"a":1})"});
  const Grammar both = json_schema(
      R"({"properties": {"a": {"const": 1}, "b": {"const": 2}}, "additionalProperties": {"const": 3}, "minProperties": 2, "maxProperties": 3})");
  expect_sentences(both, {R"({"a":1,"b":2})", R"({"a":1,"x":3})", R"({"a":1,"x":3,"y":3})", R"({"a":1,"b":2,"y":3})"});
  expect_none(
      both, {"{}", R"({"a":1})", R"({"x":3})", R"({"x":3,"x":3})", R"({"x":3,"y":3})", R"({"a":1,"b":2,"x":3,"y":3})"});
  const Grammar any = json_schema(R"({"type": "object", "maxProperties": 2})");
  expect_sentences(any, {"{}", R"({"a":[1]})", R"({"a":1,"b":2})"});
  expect_none(any, {R"({"a":1,"b":2,"c":3})"});
  expect_sentences(json_schema(R"({"type": "object", "maxProperties": 0})"), {"{}"});
}

TEST(PatternProperties, NamesDecideWhichSchemasHold) {
  const Grammar grammar = json_schema(
      R"({"properties": {"x_id": {"minimum": 5}, "name": {"type": "string"}}, "patternProperties": {"^x_": {"type": "integer"},
      "_t$": {"enum": [1, true]}}, "additionalProperties": {"type": "null"}})");
  expect_sentences(grammar, {"{}", R"({"x_id":5})", R"({"name":"","x_a":7,"x_t":1,"a_t":true,"other":null,"x_":0})",
                             R"({"\"":null,"x\n":null})"});
  expect_none(grammar, {R"({"x_id":4})", R"({"x_id":5.5})", R"({"x_a":true})", R"({"x_t":true})", R"({"a_t":2})",
                        R"({"other":1})", R"({"name":null})", R"({"x_a":1,"name":""})", R"({"\u0078_a":null})"});
  const Grammar closed = json_schema(R"({"type": "object", "patternProperties": {"^[a-z]+$": {"type": "integer"}}})");
  expect_sentences(closed, {"{}", R"({"abc":1,"d":2})"});
  expect_none(closed, {R"({"A":1})", R"({"":1})", R"({"abc":null})"});
  const Grammar excluded =
      json_schema(R"({"patternProperties": {"^_": false}, "additionalProperties": true, "required": ["x"]})");
  expect_sentences(excluded, {R"({"x":1,"y":2})"});
  expect_none(excluded, {"{}", R"({"x":1,"_y":2})"});
  const Grammar required = json_schema(R"({"patternProperties": {"^n": {"type": "integer"}}, "required": ["n1"]})");
  expect_sentences(required, {R"({"n1":1})", R"({"n1":1,"n2":1})"});
  expect_none(required, {"{}", R"({"n2":1})", R"({"n1":null})", R"({"n1":1,"n1":1})"});
}

TEST(PropertyNames, LimitWhatPropertiesMayBeCalled) {
  const Grammar grammar = json_schema(
      R"({"type": "object", "properties": {"ab": {"const": 1}, "ABC": {"const": 2}}, "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3}, "additionalProperties": {"const": 0}})");
  expect_sentences(grammar, {"{}", R"({"ab":1,"x":0,"xyz":0})"});
  expect_none(grammar, {R"({"ABC":2})", R"({"X":0})", R"({"wxyz":0})", R"({"":0})"});
  const Grammar named = json_schema(R"({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "maxProperties": 3})");
  expect_sentences(named, {"{}", R"({"b":[],"a":1})"});
  expect_none(named, {R"({"c":1})"});
  const Grammar both = json_schema(
      R"({"propertyNames": {"enum": ["a", "bbbb", "b", "é"], "type": "string", "maxLength": 2, "pattern": "^[^a]"}})");
  expect_sentences(both, {"{}", R"({"b":1,"é":2})"});
  expect_none(both, {R"({"a":1})", R"({"bbbb":1})"});
  const Grammar one = json_schema(R"({"propertyNames": {"const": "a", "type": ["null", "string"]}})");
  expect_sentences(one, {"{}", R"({"a":1})"});
  expect_none(one, {R"({"b":1})", R"({"null":1})"});
}

TEST(UniqueItems, FewValuesComeInAnyOrderButOnlyOnce) {
  const Grammar grammar = json_schema(R"({"items": {"enum": ["a", "ab", 1, 1.0]}, "uniqueItems": true})");
  std::vector<std::string> values = {R"("a")", R"("ab")", "1"};
  std::sort(values.begin(), values.end());
  do {
    EXPECT_TRUE(grammar.matches(fmt::format("[{}]", fmt::join(values, ","))));
    EXPECT_TRUE(grammar.matches(fmt::format("[ {}, {} ]", values[0], values[1])));
    EXPECT_TRUE(grammar.matches(fmt::format("[{}]", values[0])));
    EXPECT_FALSE(grammar.matches(fmt::format("[{}, {}, {}]", values[0], values[1], values[0])));
  } while (std::next_permutation(values.begin(), values.end()));
  expect_sentences(grammar, {"[]"});
  expect_none(grammar, {"[1,1.0]", "[1.0]", "[2]", "[,1]", "[1,]"});
  const Grammar counted =
      json_schema(R"({"items": {"enum": ["a", "b", "c", "d"]}, "uniqueItems": true, "minItems": 2, "maxItems": 3})");
  expect_sentences(counted, {R"(["d","a"])", R"(["d","a","b"])"});
  expect_none(counted, {"[]", R"(["a"])", R"(["a","b","c","d"])", R"(["a","a"])"});
}

TEST(UniqueItems, ManyValuesComeInTheirOrder) {
  const Grammar grammar = json_schema(
      R"({"items": {"$ref": "#/$defs/day"}, "uniqueItems": true, "minItems": 1, "maxItems": 3, "$defs": {"day": {"type": "integer", "minimum": 1, "maximum": 31}}})");
  expect_sentences(grammar, {"[1]", "[31]", "[3, 7, 30]"});
  expect_none(grammar, {"[]", "[7,3]", "[7,7]", "[1,2,3,4]", "[32]"});
}

TEST(UniqueItems, ValuesMayBeAlternativesAndAskedForTwice) {
  const Grammar grammar = json_schema(
      R"({"allOf": [{"items": {"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}}, {"items": {"type": "string"}, "uniqueItems": true}]})");
  expect_sentences(grammar, {R"(["b","a"])", R"(["a"])"});
  expect_none(grammar, {R"(["a","a"])"});
}

TEST(UniqueItems, BooleansNullAndSingleItems) {
  expect_sentences(json_schema(R"({"items": {"type": "boolean"}, "uniqueItems": true})"), {"[]", "[false,true]"});
  expect_none(json_schema(R"({"items": {"type": "boolean"}, "uniqueItems": true})"), {"[true,true]"});
  expect_sentences(json_schema(R"({"items": {"type": "string"}, "uniqueItems": true, "maxItems": 1})"),
                   {"[]", R"(["x"])"});
  expect_sentences(json_schema(R"({"items": {"type": "null"}, "uniqueItems": false})"), {"[null,null]"});
}

TEST(Values, NumbersAbove63BitsAreNotNegative) {
  const Grammar grammar =
      json_schema(R"({"enum": [-1, 18446744073709551615], "allOf": [{"enum": [18446744073709551615]}]})");
  expect_sentences(grammar, {"18446744073709551615"});
  expect_none(grammar, {"-1"});
  expect_sentences(json_schema(R"({"enum": [{"a": [-1]}, 7], "const": 7.0})"), {"7"});
  EXPECT_EQ(message_of(Grammar::from_json_schema(R"({"enum": [[-1]], "const": [18446744073709551615]})")),
            "JSON schema, '#': no value is of the type and in both 'enum' and 'const'");
  EXPECT_EQ(
      message_of(Grammar::from_json_schema(
          R"({"uniqueItems": true, "items": {"type": "integer", "minimum": 18446744073709551610, "maximum": 18446744073709551615}})")),
      "JSON schema, '#': 'uniqueItems' is only supported for items of an enum, a boolean, or whole numbers between "
      "bounds");
  const Grammar unique = json_schema(
      R"({"uniqueItems": true, "items": {"enum": [-1, 18446744073709551615, {"a": -1, "b": 1}, {"b": 1.0, "a": -1}, {"a": 18446744073709551615, "b": 1}]}})");
  expect_sentences(unique, {"[18446744073709551615,-1]", R"([{"a":18446744073709551615,"b":1},{"a":-1,"b":1}])"});
  expect_none(unique, {"[-1,-1]", R"([{"b":1.0,"a":-1}])"});
  const Grammar least = json_schema(
      R"({"allOf": [{"type": "integer", "maximum": 18446744073709551615}, {"maximum": 12}, {"minimum": 11}]})");
  expect_sentences(least, {"11", "12"});
  expect_none(least, {"10", "13"});
}

TEST(Values, WholeNumbersAreWrittenAsSuch) {
  const Grammar grammar = json_schema(
      R"({"type": ["integer", "array"], "enum": [1e3, 1e16, 100000000000000000000, -2.50e1, 1.5, 1e23, [1e2, 0.5, {"1e2": "3e1\"4e1"}], -0.0]})");
  expect_sentences(grammar, {"1000", "10000000000000000", "100000000000000000000", "-25", "100000000000000000000000",
                             R"([100,0.5,{"1e2":"3e1\"4e1"}])", "0"});
  expect_none(grammar, {"1000.0", "1e+16", "1e+20", "-25.0", "1.5", "1e+23", "99999999999999991611392", "-0"});
  expect_sentences(json_schema(R"({"const": 1.5e-7})"), {"1.5e-07"});
  expect_sentences(json_schema(R"({"const": 0.1})"), {"0.1"});
}

TEST(Values, ObjectsAndArraysHaveSpaceAsElsewhere) {
  const Grammar constant = json_schema(R"({"const": {"a": 1, "b": [1, "x, y"], "c": {}}})");
  expect_sentences(constant, {R"({"a":1,"b":[1,"x, y"],"c":{}})", R"({"a": 1, "b": [1, "x, y"], "c": {}})",
                              "{\n  \"a\": 1,\n  \"b\": [\n    1,\n    \"x, y\"\n  ],\n  \"c\": {}\n}"});
  expect_none(constant, {R"({"a" :1,"b":[1,"x, y"],"c":{}})", R"({"a":1,"b":[1,"x,y"],"c":{}})",
                         R"({"b":[1,"x, y"],"a":1,"c":{}})", R"({"a":1,"b":[1,"x, y"],"c":{}} )"});
  const Grammar list = json_schema(R"({"enum": [[1, 2], [1, 3], [[]], {"k": null}]})");
  expect_sentences(list, {"[1,2]", "[1, 3]", "[ 1,2 ]", "[[]]", "[\n[]\n]", R"({"k": null})"});
  expect_none(list, {"[1 ,2]", "[1,4]", "[1]", "[1,2", R"({"k":  null})"});
  const Grammar unique = json_schema(R"({"items": {"enum": [{"a": 1}, [1, 2]]}, "uniqueItems": true})");
  expect_sentences(unique, {R"([{"a": 1}, [1, 2]])", R"([[1,2],{"a":1}])"});
  expect_none(unique, {R"([{"a": 1},{"a":1}])"});
}

// Promise: a long list takes not many more states than its text has bytes.
TEST(Values, OfLongListsTheLaterOnesAreWrittenCloser) {
  nlohmann::json values;
  for (int i = 0; i < 10000; ++i) values.push_back({{"a", i}});
  const Grammar grammar = json_schema(nlohmann::json{{"enum", values}}.dump());
  expect_sentences(grammar, {R"({"a":1})", R"({ "a": 1 })", R"({"a":1000})", R"({"a": 1000})", R"({"a":9999})"});
  expect_none(grammar, {R"({ "a":1000})", R"({"a": 9999})"});
  EXPECT_LT(grammar.automaton()->n_states(), 30000u);
  nlohmann::json few;
  for (int i = 0; i < 20; ++i) few.push_back({{"a", i}, {"b", nlohmann::json::array({i, i})}});
  for (const size_t n : {7, 20}) {
    const nlohmann::json some(few.begin(), few.begin() + static_cast<std::ptrdiff_t>(n));
    const Grammar unique =
        json_schema(nlohmann::json{{"items", {{"enum", some}}}, {"uniqueItems", true}, {"minItems", 2}}.dump());
    expect_sentences(unique, {R"([{"a":0,"b":[0,0]},{"a":1,"b":[1,1]}])"});
    EXPECT_LT(unique.automaton()->n_states(), 40000u) << n;
  }
}

// A double would hold another number.
TEST(Values, NumbersWhoseDigitsWouldBeLostAreRefused) {
  for (const char *number : {"12345678901234567890123", "0.1234567890123456789", "1e-999", "-18446744073709551617",
                             "9007199254740993.0", "1234567890123456.78e3"}) {
    const std::string expected =
        fmt::format(": expected numbers that a double holds to the last digit, found '{}'", number);
    EXPECT_EQ(message_of(Grammar::from_json_schema(fmt::format(R"({{"const": {}}})", number))),
              "JSON schema, '#': 'const'" + expected);
    EXPECT_EQ(
        message_of(Grammar::from_json_schema(fmt::format(R"({{"items": {{"enum": [1, {{"a": {}}}]}}}})", number))),
        "JSON schema, '#/items': 'enum'" + expected);
    EXPECT_EQ(message_of(Grammar::from_json_schema(
                  fmt::format(R"({{"uniqueItems": true, "items": {{"enum": [1, {}]}}}})", number))),
              "JSON schema, '#/items': 'enum'" + expected);
    EXPECT_EQ(
        message_of(Grammar::from_json_schema(fmt::format(R"({{"title": "\"{}", "default": {}}})", number, number))),
        "it is accepted");
  }
  EXPECT_EQ(message_of(Grammar::from_json_schema(R"({"type": "number", "minimum": 0.1234567890123456789})")),
            "JSON schema, '#': 'minimum': expected numbers that a double holds to the last digit, found "
            "'0.1234567890123456789'");
  expect_sentences(json_schema(R"({"enum": [18446744073709551615, 0.30000000000000004, 1.7976931348623157e308]})"),
                   {"18446744073709551615", "0.30000000000000004"});
}

// Neither is rounded: as doubles the two bounds are the same.
TEST(Values, BoundsAreComparedExactly) {
  const Grammar grammar = json_schema(
      R"({"type": "integer", "minimum": 9007199254740993, "exclusiveMinimum": 9007199254740992, "maximum": 9007199254740994})");
  expect_sentences(grammar, {"9007199254740993", "9007199254740994"});
  expect_none(grammar, {"9007199254740992", "9007199254740995"});
  const Grammar excluded = json_schema(
      R"({"type": "integer", "minimum": 9007199254740992, "exclusiveMinimum": 9007199254740993, "maximum": 9007199254740994})");
  expect_sentences(excluded, {"9007199254740994"});
  expect_none(excluded, {"9007199254740993"});
}

TEST(Strings, PatternFormatAndLengthMayBeAskedForAtOnce) {
  const Grammar grammar = json_schema(R"({"pattern": "^[a-z]+(-[a-z]+)*$", "minLength": 3, "maxLength": 6})");
  expect_sentences(grammar, {R"("abc")", R"("a-b")", R"("ab-def")"});
  expect_none(grammar, {R"("ab")", R"("a-")", R"("abcdefg")", R"("a--b")"});
  const Grammar wide = json_schema(R"({"pattern": "\"|\u00e9$", "maxLength": 3})");
  expect_sentences(wide, {R"("\"")", "\"a\u4e16\u00e9\"", R"("a\n\"")"});
  expect_none(wide, {R"("\u0022")", R"("abcd\"")", R"("a")"});
  const Grammar dates = json_schema(R"({"format": "date", "pattern": "^2024"})");
  expect_sentences(dates, {R"("2024-02-29")"});
  expect_none(dates, {R"("2023-02-28")"});
}

struct BadSchema {
  const char *json, *message;
};
class BadSchemaKeyword : public testing::TestWithParam<BadSchema> {};

TEST_P(BadSchemaKeyword, IsRefusedWithNameAndPlace) {
  EXPECT_EQ(message_of(Grammar::from_json_schema(GetParam().json)), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadSchemaKeyword,
    testing::Values(BadSchema{R"({"multipleOf": 0})",
                              "JSON schema, '#': 'multipleOf': expected a number above 0 and at most 32768, with few "
                              "digits behind the point; found 0"},
                    BadSchema{R"({"multipleOf": 123457})",
                              "JSON schema, '#': 'multipleOf': expected a number above 0 and at most 32768, with few "
                              "digits behind the point; found 123457"},
                    BadSchema{R"({"type": "integer", "multipleOf": 7, "minimum": 8, "maximum": 13})",
                              "JSON schema, '#': no multiple of 7 is within the bounds"},
                    BadSchema{R"({"type": "integer", "multipleOf": 8191})",
                              "JSON schema, '#': 'multipleOf': too large: it needs more than 65536 states"},
                    BadSchema{R"({"type": "object", "minProperties": 2, "maxProperties": 1})",
                              "JSON schema, '#': 'maxProperties' is less than 'minProperties'"},
                    BadSchema{R"({"properties": {"a": {}}, "additionalProperties": true, "minProperties": 3})",
                              "JSON schema, '#': 'minProperties': expected at most 2, as names that are not listed "
                              "might be the same one; found 3"},
                    BadSchema{R"({"properties": {"a": {}, "b": {}}, "required": ["a", "b"], "maxProperties": 1})",
                              "JSON schema, '#': 'required' asks for more properties than 'maxProperties' allows"},
                    BadSchema{R"({"items": {"patternProperties": {"(?=a)b": {}}}})",
                              "JSON schema, '#/items/patternProperties/(?=a)b': 'pattern': a group that begins with "
                              "'(?' at offset 0: not supported in a pattern"},
                    BadSchema{R"({"patternProperties": []})",
                              "JSON schema, '#': 'patternProperties': expected an object of schemas"},
                    BadSchema{R"({"patternProperties": {"^a": {"type": "text"}}})",
                              "JSON schema, '#/patternProperties/^a': 'type': expected object, array, string, number, "
                              "integer, boolean or null, found '\"text\"'"},
                    BadSchema{R"({"patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}}})",
                              "JSON schema, '#/patternProperties': 'type': no type is left that is allowed"},
                    BadSchema{R"({"patternProperties": {"^a": {}}, "required": ["b"], "additionalProperties": false})",
                              "JSON schema, '#': 'required': there is no property 'b'"},
                    BadSchema{R"({"properties": {"\u0001": {}}, "patternProperties": {"^a": {}}})",
                              "JSON schema, '#/properties/\\x01': property '\\x01': control characters in names are "
                              "not supported beside patterns of names"},
                    BadSchema{R"({"properties": {"b": {}}, "propertyNames": {"pattern": "^a"}, "required": ["b"]})",
                              "JSON schema, '#': 'propertyNames' excludes property 'b', which is required"},
                    BadSchema{R"({"propertyNames": {"minimum": 3}})",
                              "JSON schema, '#/propertyNames': keyword 'minimum' is not supported for names"},
                    BadSchema{R"({"propertyNames": {"enum": ["a"], "not": {"const": "a"}}})",
                              "JSON schema, '#/propertyNames': keyword 'not' is not supported for names"},
                    BadSchema{R"({"propertyNames": {"enum": ["a"], "type": "integer"}})",
                              "JSON schema, '#/propertyNames': 'type': expected string for names, found \"integer\""},
                    BadSchema{R"({"propertyNames": {"type": ["null", "integer"]}})",
                              "JSON schema, '#/propertyNames': 'type': expected string for names, found "
                              "[\"null\",\"integer\"]"},
                    BadSchema{R"({"propertyNames": {"const": 3}})",
                              "JSON schema, '#/propertyNames': 'const': no name is left that is allowed"},
                    BadSchema{R"({"propertyNames": {"enum": "abc"}})",
                              "JSON schema, '#/propertyNames': 'enum': expected a list of names"},
                    BadSchema{R"({"propertyNames": {"enum": ["abc"], "maxLength": 2}})",
                              "JSON schema, '#/propertyNames': 'enum': no name is left that is allowed"},
                    BadSchema{R"({"propertyNames": false})",
                              "JSON schema, '#/propertyNames': expected an object or true, found false"},
                    BadSchema{R"({"items": {"type": "string"}, "uniqueItems": true})",
                              "JSON schema, '#': 'uniqueItems' is only supported for items of an enum, a boolean, or "
                              "whole numbers between bounds"},
                    BadSchema{R"({"items": {"type": "array", "uniqueItems": true}})",
                              "JSON schema, '#/items': 'uniqueItems' is only supported for items of an enum, a "
                              "boolean, or whole numbers between bounds"},
                    BadSchema{R"({"prefixItems": [{"const": 1}], "uniqueItems": true})",
                              "JSON schema, '#': 'uniqueItems' beside 'prefixItems' is not supported"},
                    BadSchema{R"({"items": {"enum": [1, 2]}, "uniqueItems": 3})",
                              "JSON schema, '#': 'uniqueItems': expected true or false"},
                    BadSchema{
                        R"({"items": {"enum": [1, 2]}, "uniqueItems": true, "minItems": 3})",
                        "JSON schema, '#': 'minItems': expected at most 2, the number of different values, found 3"},
                    BadSchema{R"({"pattern": "^a", "format": "date"})",
                              "JSON schema, '#': no text satisfies 'pattern', 'format' and the length at once"},
                    BadSchema{R"({"allOf": [{"additionalProperties": false}, {"patternProperties": {"^a": {}}}]})",
                              "JSON schema, '#': 'additionalProperties' and the 'patternProperties' of a schema that "
                              "must hold as well cannot be joined"},
                    BadSchema{R"({"minItems": 1, "items": {"const": 1}, "allOf": [{"prefixItems": [{"enum": [2]}]}]})",
                              "JSON schema, '#/prefixItems/0': no value is of the type and in both 'enum' and 'const'"},
                    BadSchema{R"({"minItems": 1, "items": false, "allOf": [{"prefixItems": [{"const": 1}]}]})",
                              "JSON schema, '#': 'minItems' asks for more items than there may be"},
                    BadSchema{R"({"allOf": [{"multipleOf": 32749}, {"multipleOf": 3}]})",
                              "JSON schema, '#': two different values of 'multipleOf' cannot be joined"}));

// Makes schemas of these keywords. Some cannot be satisfied, or are refused.
class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  nlohmann::ordered_json schema(int depth) {
    switch (below(depth < 2 ? 5 : 3)) {
      case 0:
        return number();
      case 1:
        return {{"type", "string"}, {"pattern", pattern()}, {"minLength", below(3)}, {"maxLength", 3 + below(4)}};
      case 2:
        return {{"type", "array"},
                {"items", {{"enum", {"a", 1, true, nullptr, "ab", 1.0, {{"k", 1}}, "b"}}}},
                {"uniqueItems", true},
                {"minItems", below(3)},
                {"maxItems", 2 + below(6)}};
      default:
        return object(depth);
    }
  }

 private:
  const char *pattern() {
    constexpr const char *kPatterns[] = {"^n", "e$", "^[a-n]+$", "a", "^.{2,3}$", "^x|y$"};
    return kPatterns[below(6)];
  }

  nlohmann::ordered_json number() {
    constexpr double kDivisors[] = {1, 3, 7, 20, 0.1, 0.25, 2.5, 0.01};
    nlohmann::ordered_json made = {{"type", below(2) == 0 ? "integer" : "number"}, {"multipleOf", kDivisors[below(8)]}};
    if (below(2) == 0) made["minimum"] = static_cast<int>(below(200)) - 100;
    if (below(2) == 0) made["maximum"] = 80 + below(200);
    return made;
  }

  nlohmann::ordered_json object(int depth) {
    nlohmann::ordered_json made = {{"type", "object"}, {"properties", nlohmann::ordered_json::object()}};
    for (const char *name : {"name", "na", "age", "x", "\u00e9"})
      if (below(2) == 0) made["properties"][name] = schema(depth + 1);
    for (const char *name : {"name", "x"})
      if (below(3) == 0 && made["properties"].contains(name)) made["required"].push_back(name);
    for (uint32_t n = below(3); n > 0; --n)
      made["patternProperties"][pattern()] = below(4) == 0 ? nlohmann::ordered_json(false) : schema(depth + 1);
    if (below(3) == 0) made["propertyNames"] = {{"pattern", pattern()}};
    if (below(2) == 0) made["additionalProperties"] = below(3) == 0 ? nlohmann::ordered_json(false) : schema(depth + 1);
    if (below(2) == 0) made["minProperties"] = below(3);
    if (below(2) == 0) made["maxProperties"] = 1 + below(4);
    return made;
  }

  std::mt19937 random_;
};

TEST(RandomSchemas, WhatRandomTokensSpellSatisfiesTheSchema) {
  const auto vocabulary = small_vocabulary();
  size_t n_made = 0, n_ended = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Maker maker(seed);
    const std::string schema = maker.schema(0).dump();
    const auto grammar = Grammar::from_json_schema(schema);
    if (!grammar) {
      EXPECT_TRUE(grammar.error().message.starts_with("JSON schema, '#")) << grammar.error().message;
      continue;
    }
    ++n_made;
    const auto document = nlohmann::json::parse(schema);
    const auto masks = std::make_shared<TokenMasks>(grammar->automaton(), vocabulary);
    for (int n = 0; n < 5; ++n) {
      Matcher matcher(masks);
      const auto text = random_sentence(matcher, *vocabulary, [&](uint32_t bound) { return maker.below(bound); });
      if (!text) continue;
      ++n_ended;
      ASSERT_TRUE(is_document_of(*text, document)) << *text << " by " << schema;
    }
  }
  EXPECT_GT(n_made, 250u);
  EXPECT_GT(n_ended, 1000u);
}

}  // namespace
}  // namespace bonsai::grammar
