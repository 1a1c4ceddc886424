// JSON schemas that are refused, and in which words.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/grammar/sentences.h"

namespace bonsai::grammar {
namespace {

struct BadSchema {
  const char *json, *message;
};
class BadJsonSchema : public testing::TestWithParam<BadSchema> {};

TEST_P(BadJsonSchema, IsRefusedWithKeywordAndPlace) {
  EXPECT_EQ(message_of(Grammar::from_json_schema(GetParam().json)), GetParam().message);
}

TEST(BadJsonSchemaText, ANulEndsNone) {
  const std::string message = message_of(Grammar::from_json_schema({"{}\0 \"", 5}));
  EXPECT_EQ(message.find("JSON schema is not JSON: "), 0u) << message;
}

INSTANTIATE_TEST_SUITE_P(
    All, BadJsonSchema,
    testing::Values(
        BadSchema{"{\"type\"",
                  "JSON schema is not JSON: parse error at line 1, column 8: syntax error while parsing object "
                  "separator - unexpected end of input; expected ':'"},
        BadSchema{"[]", "JSON schema, '#': expected an object, true or false, found array"},
        BadSchema{"false", "JSON schema, '#': false allows no value at all"},
        BadSchema{R"({"properties": {"a/b": {"not": {}}}})",
                  "JSON schema, '#/properties/a~1b': keyword 'not' is not supported"},
        BadSchema{R"({"if": {}, "then": {}})", "JSON schema, '#': keyword 'if' is not supported"},
        BadSchema{R"({"type": "text"})",
                  "JSON schema, '#': 'type': expected object, array, string, number, integer, boolean or null, found "
                  "'\"text\"'"},
        BadSchema{R"({"type": "string", "format": 7})", "JSON schema, '#': 'format': expected a text"},
        BadSchema{R"({"type": "string", "maxLength": 5000})",
                  "JSON schema, '#': 'maxLength': expected a whole number from 0 to 4096, found 5000"},
        BadSchema{R"({"type": "string", "minLength": 3, "maxLength": 2})",
                  "JSON schema, '#': 'maxLength' is less than 'minLength'"},
        BadSchema{R"({"type": "array", "minItems": -1})",
                  "JSON schema, '#': 'minItems': expected a whole number from 0 to 4096, found -1"},
        BadSchema{R"({"pattern": "^(?=a)b$"})",
                  "JSON schema, '#': no text satisfies 'pattern', 'format' and the length at once"},
        BadSchema{R"({"pattern": "^(?=[])b$"})", "JSON schema, '#': 'pattern': there is no text that it matches"},
        BadSchema{R"({"pattern": "^(?=a)b|c"})",
                  "JSON schema, '#': 'pattern': a lookahead beside '|' at offset 7: not supported in a pattern"},
        BadSchema{R"({"pattern": "^(?=a(?!b))c"})",
                  "JSON schema, '#': 'pattern': a group that begins with '(?' at offset 5: not supported in a pattern"},
        BadSchema{R"({"pattern": "^a(?!b)c"})",
                  "JSON schema, '#': 'pattern': a group that begins with '(?' at offset 2: not supported in a pattern"},
        BadSchema{R"({"pattern": "^(?<=a)b"})",
                  "JSON schema, '#': 'pattern': a group that begins with '(?' at offset 1: not supported in a pattern"},
        BadSchema{R"({"pattern": "^(?=a"})", "JSON schema, '#': 'pattern': expected ')' at offset 5"},
        BadSchema{R"({"pattern": "^a\\b$"})",
                  "JSON schema, '#': 'pattern': the escape '\\b' at offset 2: not supported in a pattern"},
        BadSchema{
            R"({"pattern": "a^b"})",
            "JSON schema, '#': 'pattern': an anchor that is not at an end at offset 1: not supported in a pattern"},
        BadSchema{
            R"({"pattern": "^(a$"})",
            "JSON schema, '#': 'pattern': an anchor that is not at an end at offset 3: not supported in a pattern"},
        BadSchema{R"({"pattern": "^*$"})", "JSON schema, '#': 'pattern': expected something to repeat at offset 1"},
        BadSchema{R"({"pattern": "^a{x}"})",
                  "JSON schema, '#': 'pattern': expected a number of repetitions at offset 3"},
        BadSchema{R"({"pattern": "^a{2"})", "JSON schema, '#': 'pattern': expected '}' at offset 4"},
        BadSchema{R"({"pattern": "^a{3,2}"})",
                  "JSON schema, '#': 'pattern': expected the least repetitions first at offset 3"},
        BadSchema{R"({"pattern": "^a{1,5000}"})",
                  "JSON schema, '#': 'pattern': more than 4096 repetitions at offset 5: not supported in a pattern"},
        BadSchema{R"({"type": "integer", "minimum": 3, "maximum": 2})",
                  "JSON schema, '#': no integer is within the bounds"},
        BadSchema{R"({"type": "integer", "format": "int32", "minimum": 3000000000})",
                  "JSON schema, '#': no integer is within the bounds"},
        BadSchema{
            R"({"type": "integer", "minimum": 1e30})",
            "JSON schema, '#': 'minimum': expected less than 1e18, as numbers are written with at most 18 digits, "
            "found 1e+30"},
        BadSchema{R"({"exclusiveMaximum": -9223372036854775808})",
                  "JSON schema, '#': 'exclusiveMaximum': expected more than -1e18, as numbers are written with at most "
                  "18 digits, found -9223372036854775808"},
        BadSchema{R"({"type": "number", "minimum": 1e-19})",
                  "JSON schema, '#': 'minimum': expected a number of at most 18 digits on each side of the point, "
                  "found 1e-19"},
        BadSchema{R"({"type": "number", "exclusiveMaximum": true})",
                  "JSON schema, '#': 'exclusiveMaximum': expected a number of at most 18 digits on each side of the "
                  "point, found true"},
        BadSchema{R"({"enum": {}})", "JSON schema, '#': 'enum': expected a list of values"},
        BadSchema{R"({"enum": []})", "JSON schema, '#': 'enum': no value is left that is allowed"},
        BadSchema{R"({"anyOf": [false, {"enum": []}]})", "JSON schema, '#/anyOf/0': false allows no value at all"},
        BadSchema{R"({"type": "string", "anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]})",
                  "JSON schema, '#/anyOf/0': 'type': no type is left that is allowed"},
        BadSchema{R"({"anyOf": [{"properties": {"a": {"enum": []}}}, {"type": "null"}]})",
                  "JSON schema, '#/anyOf/0/properties/a': 'enum': no value is left that is allowed"},
        BadSchema{R"({"anyOf": [{"items": {"enum": []}}, {"type": "null"}]})",
                  "JSON schema, '#/anyOf/0/items': 'enum': no value is left that is allowed"},
        BadSchema{R"({"anyOf": [{"type": "integer", "minimum": 3, "maximum": 2}, {"not": {}}]})",
                  "JSON schema, '#/anyOf/1': keyword 'not' is not supported"},
        BadSchema{R"({"type": "string", "enum": [1, 2]})",
                  "JSON schema, '#': no value is of the type and in both 'enum' and 'const'"},
        BadSchema{R"({"enum": ["a"], "minLength": 2})",
                  "JSON schema, '#': keyword 'minLength' beside 'enum' or 'const' is not supported"},
        BadSchema{R"({"$ref": "other.json"})",
                  "JSON schema, '#': '$ref': expected '#' and a path within the document, found 'other.json'"},
        BadSchema{R"({"items": {"$ref": "#/$defs/x"}})",
                  "JSON schema, '#/items': '$ref': there is nothing at '#/$defs/x'"},
        BadSchema{R"({"$ref": "#"})",
                  "rule 'root' can never end: each of its alternatives needs a rule that can never end"},
        BadSchema{R"({"required": ["x"], "properties": {}, "additionalProperties": false})",
                  "JSON schema, '#': 'required': there is no property 'x'"},
        BadSchema{
            R"({"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}}}]})",
            "JSON schema, '#': 'additionalProperties': false excludes property 'b' of a schema that must hold as well"},
        BadSchema{R"({"allOf": [{"pattern": "^a$"}, {"pattern": "^b$"}]})",
                  "JSON schema, '#': no text satisfies 'pattern', 'format' and the length at once"},
        BadSchema{R"({"allOf": [{"pattern": "^a$"}, {"pattern": ["^b$"]}]})",
                  "JSON schema, '#': two different values of 'pattern' cannot be joined"},
        BadSchema{R"({"pattern": ["^a", "b$"]})", "JSON schema, '#': 'pattern': expected a text"},
        BadSchema{R"({"allOf": [{"type": "string"}, {"type": "null"}]})",
                  "JSON schema, '#': 'type': no type is left that is allowed"},
        BadSchema{R"({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}, "$ref": "#/$defs/a"})",
                  "JSON schema, '#/$defs/a': too large, or without end: subschemas unfold to more than 20000, or more "
                  "than 100 deep"}));

TEST(BadJsonSchema, NestedTooDeepIsRefused) {
  std::string json;
  for (int i = 0; i < 20000; ++i) json += "{\"items\":";
  EXPECT_EQ(message_of(Grammar::from_json_schema(json)), "JSON schema: nested more than 200 deep");
}

// Promise: no schema keeps those that wait behind it for long.
TEST(BadJsonSchema, OneThatWouldTakeLongIsRefused) {
  EXPECT_EQ(message_of(Grammar::from_json_schema(std::string((size_t{1} << 18) + 1, ' '))),
            "JSON schema of 262145 bytes is too long; expected at most 262144");
  nlohmann::json parts = nlohmann::json::array();
  for (int i = 0; i < 5000; ++i) parts.push_back({{"properties", {{std::to_string(i), {{"type", "null"}}}}}});
  EXPECT_EQ(message_of(Grammar::from_json_schema(nlohmann::json{{"allOf", parts}}.dump())),
            "JSON schema, '#': too large: schemas that must hold together have more than 1048576 values in all");
  const nlohmann::json first = {{"prefixItems", nlohmann::json(64, true)}};
  const nlohmann::json items = {{"enum", nlohmann::json(10000, nlohmann::json::object())}};
  EXPECT_EQ(message_of(Grammar::from_json_schema(nlohmann::json{{"items", items}, {"allOf", {first}}}.dump())),
            "JSON schema, '#': too large: schemas that must hold together have more than 1048576 values in all");
}

// The same of what has to hold at once, however little of it each part takes.
TEST(BadJsonSchema, OneWhosePartsTakeLongTogetherIsRefused) {
  const auto any_of = [](const nlohmann::json &part, size_t n) {
    nlohmann::json ways(n, part);
    ways.push_back({{"type", "null"}});
    return message_of(Grammar::from_json_schema(nlohmann::json{{"anyOf", ways}}.dump()));
  };
  const auto expect_refused = [](const std::string &message, const std::string &begin, const std::string &end) {
    EXPECT_TRUE(message.starts_with("JSON schema, '#/" + begin)) << message;
    EXPECT_TRUE(message.ends_with(end + " takes more than 50331648 steps")) << message;
  };
  const nlohmann::json text = {{"pattern", "^(a|b)*a(a|b){14}$"}, {"maxLength", 3}};
  EXPECT_EQ(any_of(text, 10), "it is accepted");
  expect_refused(any_of(text, 1000), "anyOf/", "': text too large: with what comes before it in the schema it");
  const nlohmann::json number = {{"multipleOf", 32749}, {"minimum", 1}, {"maximum", 40000}};
  EXPECT_EQ(any_of(number, 10), "it is accepted");
  expect_refused(any_of(number, 100), "anyOf/",
                 "': 'multipleOf': too large: with what comes before it in the schema it");
  nlohmann::json patterns;
  for (char c = 'c'; c <= 'z'; ++c) patterns[std::string("^") + c + "(a|b)*a(a|b){9}$"] = false;
  const nlohmann::json names = {{"patternProperties", patterns}, {"maxProperties", 0}};
  EXPECT_EQ(any_of(names, 1), "it is accepted");
  expect_refused(any_of(names, 20), "anyOf/", "too large: with what comes before it in the schema it");
  nlohmann::json properties;
  for (int i = 0; i < 500; ++i) properties["x" + std::string(200, '0') + std::to_string(i)] = true;
  for (int i = 0; i < 2000; ++i) properties[std::to_string(i)] = true;
  const nlohmann::json tried = {
      {"propertyNames", {{"enum", {"q"}}}}, {"properties", properties}, {"patternProperties", properties}};
  expect_refused(message_of(Grammar::from_json_schema(tried.dump())), "properties/",
                 "': 'patternProperties': too large: to try the names");
}

// As soon as that is seen, and not once all of them have been made.
TEST(BadJsonSchema, OneWhosePartsNeedTooManyStatesTogetherIsRefusedAtTheFirstOfTheseTooMany) {
  nlohmann::json ways;
  for (int i = 0; i < 20; ++i) ways.push_back({{"format", "uri"}, {"maxLength", 60 + i}});
  const std::string message = message_of(Grammar::from_json_schema(nlohmann::json{{"anyOf", ways}}.dump()));
  EXPECT_TRUE(message.starts_with("JSON schema, '#/anyOf/9': ")) << message;
  EXPECT_TRUE(
      message.ends_with("text too large: with what comes before it in the schema it needs more than 262144 states"))
      << message;
}

TEST(BadJsonSchema, ANumberThatNoDoubleCanHoldIsRefused) {
  EXPECT_EQ(message_of(Grammar::from_json_schema(R"({"minimum": 1e999})")),
            "JSON schema: holds a number that no double can hold");
}

TEST(BadJsonSchema, OneThatNeedsTooManyStatesIsRefused) {
  nlohmann::json schema = {{"type", "object"}};
  for (const char *name : {"a", "b", "c", "d", "e", "f", "g", "h"})
    schema["properties"][name] = {{"type", "string"}, {"maxLength", 4096}};
  EXPECT_EQ(message_of(Grammar::from_json_schema(schema.dump())),
            "grammar too large: rule 'root' makes it need more than 262144 states; shorter repetitions need fewer");
}

}  // namespace
}  // namespace bonsai::grammar
