// JSON schemas: the texts that a schema's grammar lets through.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/grammar/sentences.h"

namespace bonsai::grammar {
namespace {

TEST(JsonSchema, AnyValue) {
  for (const char *schema : {"true", "{}", R"({"title": "anything", "$comment": "really"})"}) {
    const Grammar grammar = json_schema(schema);
    expect_sentences(grammar,
                     {"null", "true", "false", "0", "-1.5e-7", "\"\"", "\"a\\n\\u00e9\\ud83d\\ude00\u00e9\U0001F600\"",
                      "[]", "{}", "[1,2, 3,\n  4]", "{\"a\": {\"b\":[null, {}]}, \"\":1}", "[\n    1\n]"});
    expect_none(grammar,
                {"", " 1", "1 ", "nul", "[1,]", "{\"a\"}", "{a:1}", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\ude00\"",
                 "\"\\ud83dx\"", "\"\xC3\"", "\"\xED\xA0\x80\"", "[1  ,2]", "[  1]", "[1,\n\n2]", "'a'", "01"});
  }
}

TEST(JsonSchema, CallsOfToolsMayTakeTheAnswersPlace) {
  const auto made = Grammar::from_answer_or_calls(
      R"({"$ref": "#/$defs/n", "$defs": {"n": {"enum": [7, 8]}}})",
      R"({"$defs": {"n": {"const": "f"}}, "properties": {"name": {"$ref": "#/$defs/n"}}, "required": ["name"]})");
  ASSERT_TRUE(made) << made.error().message;
  const std::string call = "<tool_call>\n{\"name\": \"f\"}\n</tool_call>";
  expect_sentences(*made, {"7", "8", call, call + "\n" + call, call + "\n" + call + "\n" + call});
  expect_none(*made, {"", "9", "\"f\"", "{\"name\": \"f\"}", "7\n" + call, call + call, call + "\n", call + "\n7",
                      "<tool_call>\n7\n</tool_call>", "<tool_call>"});
  EXPECT_EQ(Grammar::from_answer_or_calls("true", R"({"not": {}})").error().message.substr(0, 16), "calls of tools: ");
  EXPECT_FALSE(Grammar::from_answer_or_calls(R"({"not": {}})", "true"));
}

TEST(JsonSchema, ObjectsKeepTheOrderAndMayLeaveOut) {
  const Grammar grammar = json_schema(
      R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "null"}}, "required": ["b"]})");
  expect_sentences(grammar, {R"({"b":""})", R"({"a": 1, "b": "x"})", R"({"b": "x", "c": null})",
                             "{\n  \"a\": 1,\n  \"b\": \"\",\n  \"c\": null\n}"});
  expect_none(grammar, {"{}", R"({"a": 1})", R"({"b": "", "a": 1})", R"({"b": "", "d": 1})", R"({"b": "",})",
                        R"({, "b": ""})", R"({"b": "" "c": null})", R"({"a": "1", "b": ""})"});
}

TEST(JsonSchema, ObjectsOfOptionalPropertiesMayBeEmpty) {
  const Grammar grammar = json_schema(R"({"properties": {"a": {"const": 1}, "b": {"const": 2}, "c": {"const": 3}}})");
  for (int present = 0; present < 8; ++present) {
    std::string text;
    for (int i = 0; i < 3; ++i)
      if ((present >> i & 1) != 0) text += std::string(text.empty() ? "" : ",") + "\"" + "abc"[i] + "\":" + "123"[i];
    EXPECT_TRUE(grammar.matches("{" + text + "}")) << text;
  }
  expect_none(grammar, {"{,}", R"({"a":1,})", R"({,"b":2})", R"({"a":1,,"c":3})", R"({"a":1"c":3})"});
}

TEST(JsonSchema, FurtherPropertiesComeWhereTheyAreAskedForAndNeverRepeatAListedOne) {
  const Grammar grammar = json_schema(
      R"({"properties": {"ab": {"type": "integer"}, "a\"c": true}, "additionalProperties": {"type": "boolean"}})");
  expect_sentences(grammar, {"{}", R"({"ab":1})", R"({"x":true})", R"({"ab":1,"a":true,"abc":false,"":true})",
                             R"({"a\"c":[], "d\"":true})", R"({"x\\":true})"});
  expect_none(grammar, {R"({"ab":true})", R"({"x":1})", R"({"ab":1,"ab":true})", R"({"a\u0062":true})",
                        R"({"\u0061b":true})", R"({"ac":true,"a\"c":true})"});
  expect_sentences(json_schema(R"({"type": "object", "additionalProperties": true})"), {"{}", R"({"a":[1]})"});
  expect_sentences(json_schema(R"({"type": "object"})"), {"{}", R"({"a":[1]})"});
  expect_sentences(json_schema(R"({"type": "object", "additionalProperties": false})"), {"{}"});
  expect_none(json_schema(R"({"type": "object", "additionalProperties": false})"), {R"({"a":1})"});
  expect_sentences(json_schema(R"({"required": ["x"], "additionalProperties": {"type": "null"}})"),
                   {R"({"x":null})", R"({"x":null,"y":null})"});
}

TEST(JsonSchema, ArraysOfLimitedLength) {
  const Grammar grammar = json_schema(R"({"type": "array", "items": {"enum": [1, 2]}, "minItems": 1, "maxItems": 3})");
  expect_sentences(grammar, {"[1]", "[1,2]", "[ 2, 1, 2 ]"});
  expect_none(grammar, {"[]", "[1,2,1,2]", "[3]", "[1,]", "[,1]"});
  expect_sentences(json_schema(R"({"items": {"type": "null"}, "minItems": 2})"),
                   {"[null,null]", "[null,null,null,null]"});
  expect_none(json_schema(R"({"items": {"type": "null"}, "minItems": 2})"), {"[]", "[null]"});
  expect_sentences(json_schema(R"({"type": "array", "maxItems": 0})"), {"[]"});
  expect_none(json_schema(R"({"type": "array", "maxItems": 0})"), {"[1]"});
  expect_sentences(json_schema(R"({"type": "array"})"), {"[]", "[1,[]]"});
}

TEST(JsonSchema, ArraysWithAPrefix) {
  const Grammar open = json_schema(
      R"({"prefixItems": [{"const": 1}, {"const": 2}], "items": {"const": 3}, "minItems": 1, "maxItems": 4})");
  expect_sentences(open, {"[1]", "[1,2]", "[1,2,3]", "[1,2,3,3]"});
  expect_none(open, {"[]", "[2]", "[1,3]", "[1,2,3,3,3]"});
  const Grammar closed =
      json_schema(R"({"type": "array", "prefixItems": [{"const": 1}, {"const": 2}], "minItems": 2})");
  expect_sentences(closed, {"[1,2]"});
  expect_none(closed, {"[1]", "[1,2,3]"});
  const Grammar longer = json_schema(R"({"prefixItems": [{"const": 1}], "items": {"const": 3}, "minItems": 3})");
  expect_sentences(longer, {"[1,3,3]", "[1,3,3,3]"});
  expect_none(longer, {"[1]", "[1,3]"});
}

TEST(JsonSchema, StringsOfLimitedLengthCountCharacters) {
  const Grammar grammar = json_schema(R"({"type": "string", "minLength": 2, "maxLength": 3})");
  expect_sentences(grammar,
                   {"\"ab\"", "\"\u00e9\u4e16\U0001F600\"", R"("\n\n")", R"("\ud83d\ude00a")", R"("\u00e9ab")"});
  expect_none(grammar, {"\"\"", "\"a\"", "\"abcd\"", R"("\n")", R"("\ud83d\ude00")"});
}

TEST(JsonSchema, Patterns) {
  const auto matches = [](const char *pattern, const char *text) {
    return json_schema(nlohmann::json{{"pattern", pattern}}.dump()).matches(nlohmann::json(text).dump());
  };
  EXPECT_TRUE(matches("^[A-Z]{2}-\\d{3,4}$", "AB-123"));
  EXPECT_FALSE(matches("^[A-Z]{2}-\\d{3,4}$", "AB-12"));
  EXPECT_FALSE(matches("^[A-Z]{2}-\\d{3,4}$", "xAB-123"));
  EXPECT_TRUE(matches("[0-9]", "a1b"));
  EXPECT_FALSE(matches("[0-9]", "ab"));
  EXPECT_TRUE(matches("^a|b$", "ax"));
  EXPECT_TRUE(matches("^a|b$", "xb"));
  EXPECT_FALSE(matches("^a|b$", "xa"));
  EXPECT_TRUE(matches("^(?:ab|c)+?\\.[^\\d\\s]*$", "abc.\"x\\"));
  EXPECT_FALSE(matches("^(?:ab|c)+?\\.[^\\d\\s]*$", "abc.1"));
  EXPECT_TRUE(matches("^\\w+\\s\\u00e9\\x41[\\]\\-a-c]$", "a_9\t\u00e9A]"));
  EXPECT_TRUE(matches("^.$", "\""));
  EXPECT_FALSE(matches("^.$", "\n"));
  EXPECT_TRUE(matches("^[\\n\"]$", "\n"));
  EXPECT_TRUE(matches("", "anything"));
}

// As a pattern of Zod's for e-mail addresses does, and what others have for passwords.
TEST(JsonSchema, PatternsMayLookAhead) {
  const auto matches = [](const char *pattern, const char *text) {
    return json_schema(nlohmann::json{{"pattern", pattern}}.dump()).matches(nlohmann::json(text).dump());
  };
  const char *email =
      R"(^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$)";
  for (const char *text : {"ada@example.org", "a.b+c@x-y.co.uk"}) EXPECT_TRUE(matches(email, text)) << text;
  for (const char *text : {".ada@example.org", "a..b@example.org", "ada@example..org", "ada@example"})
    EXPECT_FALSE(matches(email, text)) << text;
  EXPECT_TRUE(matches("^(?=.*[0-9])(?=.*[a-z])", "x1"));
  EXPECT_FALSE(matches("^(?=.*[0-9])(?=.*[a-z])", "11"));
  EXPECT_TRUE(matches("^(?=.{1,3}$|\\.)a*", "aaa"));  // an end of its own holds for an alternative
  EXPECT_FALSE(matches("^(?=.{1,3}$|\\.)a*", "aaaa"));
  EXPECT_TRUE(matches("^(?!no$)[a-z]+$", "nor"));
  EXPECT_FALSE(matches("^(?!no$)[a-z]+$", "no"));
  EXPECT_TRUE(matches("^(?![])(?:a|b)$", "b"));
  EXPECT_FALSE(matches("^(?!\n)[^]$", "\n"));
  EXPECT_TRUE(matches("^(?!\")", "a\"\\"));
}

TEST(JsonSchema, FormatsAreExact) {
  const auto expect_format = [](const char *format, std::initializer_list<const char *> good,
                                std::initializer_list<const char *> bad) {
    const Grammar grammar = json_schema(nlohmann::json{{"type", "string"}, {"format", format}}.dump());
    for (const char *text : good) EXPECT_TRUE(grammar.matches(nlohmann::json(text).dump())) << format << " " << text;
    for (const char *text : bad) EXPECT_FALSE(grammar.matches(nlohmann::json(text).dump())) << format << " " << text;
  };
  expect_format(
      "date", {"2024-02-29", "2000-02-29", "0000-02-29", "1999-12-31", "2023-04-30"},
      {"2023-02-29", "1900-02-29", "2023-04-31", "2023-13-01", "2023-00-10", "2023-01-00", "2023-1-1", "23-01-01"});
  expect_format("time", {"00:00:00Z", "23:59:59.123+02:00"},
                {"24:00:00Z", "12:60:00Z", "12:00Z", "12:00:00", "12:00:00+25:00"});
  expect_format("date-time", {"2024-02-29T12:30:00Z"}, {"2024-02-30T12:30:00Z", "2024-02-29 12:30:00Z", "2024-02-29"});
  expect_format("uuid", {"123e4567-e89b-12d3-A456-426614174000"},
                {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400g"});
  expect_format("ipv4", {"0.0.0.0", "255.249.199.10"}, {"256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"});
  expect_format("email", {"ada@example.org", "a.b+c@x-y.co.uk"},
                {"ada", "@x.org", "a@b", "a..b@c.de", "a@-b.de", "a@b-.de", ".a@b.de", "a.@b.de"});
  expect_format("hostname", {"localhost", "a-b.example.org", "127"}, {"", "-a", "a-", "a..b", "a_b", "a."});
  expect_format("ipv6",
                {"::", "::1", "2001:db8::ff00:42:8329", "1:2:3:4:5:6:7:8", "::ffff:192.0.2.128", "1:2:3:4:5:6:1.2.3.4",
                 "1::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8"},
                {"", ":", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "1::2::3", "12345::", "::1:2:3:4:5:6:7:8",
                 "g::", "1:2:3:4:5:6:7:1.2.3.4", ":1", "1:"});
  expect_format("duration", {"P1Y2M3DT4H5M6S", "P3W", "PT0S", "P2M", "PT36H", "P1DT12H", "PT1M"},
                {"", "P", "PT", "P1S", "1D", "P1Y3D", "P1W2D", "PT1H2S", "P1.5D"});
  expect_format("uri",
                {"https://example.org/a?b=c%20d#e", "mailto:a@b.c", "urn:isbn:0451450523", "file:///etc/x",
                 "http://u:p@[::1]:80/?q#f", "a:/b//c"},
                {"", "example.org", "https:", "a b:c", "http://a/%2", "http://a#b#c", "1a:b", "http://a:b/",
                 "http://a@b@c", "a:[b]"});
  expect_format("password", {"", "anything \" at all"}, {});
}

// RFC 1123 and RFC 5321: 63 characters a label, 253 a name, 64 in front of the @ and 254 in all.
TEST(JsonSchema, NamesAndAddressesAreAsLongAsTheyMayBe) {
  const auto of_labels = [](size_t n, size_t n_characters) {
    std::string name(n_characters, 'a');
    for (size_t i = 1; i < n; ++i) name += "." + std::string(n_characters, 'a');
    return "\"" + name + "\"";
  };
  const Grammar host = json_schema(R"({"format": "hostname"})");
  expect_sentences(host, {R"("s3.dualstack.us-east-1.amazonaws.com")", of_labels(1, 63), of_labels(3, 63),
                          of_labels(4, 62), of_labels(8, 30)});
  expect_none(host, {of_labels(1, 64), of_labels(4, 63), of_labels(8, 31), of_labels(5, 50)});
  const Grammar email = json_schema(R"({"format": "email"})");
  const auto address = [](size_t n_words, size_t n_characters, std::string domain) {
    std::string words(n_characters, 'b');
    for (size_t i = 1; i < n_words; ++i) words += "." + std::string(n_characters, 'b');
    return "\"" + words + "@" + domain.substr(1);
  };
  expect_sentences(
      email, {R"("firstname_lastname_2024@example.com")", R"("john@mail.dept.cs.example.edu")", R"("a.b.c.d.e@x.org")",
              address(1, 64, of_labels(2, 63)), address(32, 1, of_labels(2, 3)), address(13, 4, of_labels(3, 62)),
              address(1, 64, of_labels(5, 37)), address(1, 64, of_labels(8, 22))});
  expect_none(email,
              {address(1, 65, of_labels(2, 3)), address(33, 1, of_labels(2, 3)), address(13, 5, of_labels(2, 3)),
               address(1, 9, of_labels(2, 64)), address(1, 9, of_labels(3, 63)), address(1, 9, of_labels(9, 1))});
}

// Where the length is counted anyway, labels are of any number; one that excludes nothing takes no states.
TEST(JsonSchema, NamesAndAddressesOfLimitedLength) {
  const auto named = [](size_t n_labels, size_t n_last) {
    std::string text = "\"a@a";
    for (size_t i = 1; i < n_labels; ++i) text += ".a";
    return text + "." + std::string(n_last, 'b') + "\"";
  };
  for (const char *format : {"email", "hostname"}) {
    const size_t n_front = std::string_view(format) == "email" ? 0 : 2;  // the "a@"
    const auto grammar = [&](int most) {
      return json_schema(fmt::format(R"({{"format": "{}", "minLength": 6, "maxLength": {}}})", format, most));
    };
    const auto matches = [&](const Grammar &by, size_t n_labels, size_t n_last) {
      return by.matches("\"" + named(n_labels, n_last).substr(1 + n_front));
    };
    const Grammar shorter = grammar(100), all = grammar(254);
    EXPECT_TRUE(matches(shorter, 20, 58 + n_front)) << format;
    EXPECT_FALSE(matches(shorter, 20, 59 + n_front)) << format;
    EXPECT_FALSE(matches(shorter, 2, 64)) << format;
    EXPECT_FALSE(matches(shorter, 1, 1)) << format;
    EXPECT_TRUE(matches(all, 2, 60)) << format;
    EXPECT_FALSE(matches(all, 1, 1)) << format;
    EXPECT_LT(all.automaton()->n_states(), 10000u) << format;
  }
}

TEST(JsonSchema, AFormatThatIsAskedForOftenTakesItsStatesOnce) {
  nlohmann::json schema = {{"type", "object"}};
  for (int i = 0; i < 190; ++i) schema["properties"][std::to_string(i)] = {{"type", "string"}, {"format", "email"}};
  const Grammar grammar = json_schema(schema.dump());
  expect_sentences(grammar, {"{}", R"({"0":"a@b.c","1":"a@b.c"})"});
  expect_none(grammar, {R"({"0":"a@b.c","1":"a"})"});
}

TEST(JsonSchema, ValuesAreWrittenAsTheSchemaHasThem) {
  const Grammar grammar = json_schema(R"({"enum": ["a\n\"", 1, 1.5, null, true, {"k": [1, "x"]}, []]})");
  expect_sentences(grammar, {R"("a\n\"")", "1", "1.5", "null", "true", R"({"k":[1,"x"]})", "[]"});
  expect_none(grammar, {"\"a\"", "2", "false", "{}"});
  const Grammar typed = json_schema(R"({"type": ["integer", "string"], "enum": ["a", 1, 1.5, null]})");
  expect_sentences(typed, {"\"a\"", "1"});
  expect_none(typed, {"1.5", "null"});
}

TEST(JsonSchema, AlternativesAndTypesInAList) {
  const Grammar grammar = json_schema(R"({"type": ["integer", "null", "boolean"]})");
  expect_sentences(grammar, {"1", "null", "true"});
  expect_none(grammar, {"1.5", "\"\"", "[]"});
  const Grammar any =
      json_schema(R"({"type": "object", "properties": {"kind": {"type": "string"}}, "required": ["kind"],
      "anyOf": [{"properties": {"kind": {"const": "a"}, "x": {"type": "null"}}, "required": ["x"]}, {"properties": {"kind": {"const": "b"}}}]})");
  expect_sentences(any, {R"({"kind":"a","x":null})", R"({"kind":"b"})"});
  expect_none(any, {R"({"kind":"a"})", R"({"kind":"c"})", R"({"kind":"b","x":null})"});
}

TEST(JsonSchema, AllOfJoinsObjectsAndNarrowsRanges) {
  const Grammar grammar = json_schema(
      R"({"allOf": [{"$ref": "#/$defs/named"}, {"properties": {"age": {"minimum": 18}}, "required": ["age"]},
      {"properties": {"age": {"type": "integer", "maximum": 20}}}], "$defs": {"named": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}}})");
  expect_sentences(grammar, {R"({"name":"","age":18})", R"({"name":"","age":20})"});
  expect_none(grammar, {R"({"name":""})", R"({"age":18})", R"({"name":"","age":17})", R"({"name":"","age":21})"});
}

TEST(JsonSchema, ReferencesMayGoRound) {
  const Grammar grammar = json_schema(
      R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/node"})");
  expect_sentences(grammar, {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":{"v":3,"next":null}}})"});
  expect_none(grammar, {R"({"v":1})", R"({"v":1,"next":{"v":2}})", R"({"v":1,"next":1})"});
  const Grammar itself = json_schema(R"({"type": "array", "items": {"$ref": "#"}})");
  expect_sentences(itself, {"[]", "[[],[[]]]"});
  expect_none(itself, {"[1]", "[[]", "1"});
  expect_sentences(
      json_schema(R"({"$ref": "#/$defs/a~1b/c~0d/0", "$defs": {"a/b": {"c~d": [{"const": 7}]}}, "title": "x"})"),
      {"7"});
  // A fragment of a URI, as TypeScript's generics come.
  expect_sentences(
      json_schema(R"({"$ref": "#/definitions/Pick%3CA,%22b%22%3E", "definitions": {"Pick<A,\"b\">": {"const": 8}}})"),
      {"8"});
}

TEST(JsonSchema, ARequiredPropertyNeedNotBeListed) {
  const Grammar grammar =
      json_schema(R"({"type": "object", "properties": {"a": {"const": 1}}, "required": ["a", "b"]})");
  expect_sentences(grammar, {R"({"a":1,"b":[2]})", R"({"a":1,"b":null})"});
  expect_none(grammar, {R"({"a":1})", R"({"a":1,"b":2,"c":3})"});
}

// Pydantic's unions: the keyword tells which alternative it is, and excludes nothing.
TEST(JsonSchema, ADiscriminatorExcludesNothing) {
  const Grammar grammar = json_schema(
      R"({"oneOf": [{"const": 1}, {"const": "x"}], "discriminator": {"propertyName": "kind", "mapping": {}}})");
  expect_sentences(grammar, {"1", "\"x\""});
}

// What is said beside them leaves some alternatives nothing: the others stay, and only if none is left is that an
// error.
TEST(JsonSchema, AlternativesThatAllowNothingAreLeftOut) {
  const Grammar grammar =
      json_schema(R"({"enum": [1, "x"], "anyOf": [{"type": "boolean"}, false, {"type": "string"}, {"enum": [2, 3]}]})");
  expect_sentences(grammar, {"\"x\""});
  expect_none(grammar, {"1", "2", "true"});
  const Grammar types = json_schema(R"({"type": ["integer", "null"], "minimum": 3, "maximum": 2})");
  expect_sentences(types, {"null"});
  expect_none(types, {"2", "3"});
  const Grammar needed = json_schema(
      R"({"anyOf": [{"properties": {"a": {"enum": []}}, "required": ["a"]}, {"items": {"enum": []}, "minItems": 1}, {"type": "null"}]})");
  expect_sentences(needed, {"null"});
  expect_none(needed, {"{}", "[]"});
  const Grammar left = json_schema(
      R"({"anyOf": [{"properties": {"a": {}}, "additionalProperties": false, "minProperties": 2}, {"type": "null"}, {"allOf": [{"properties": {"a": {}}, "additionalProperties": false}, {"properties": {"b": {}, "c": {}}, "required": ["c"]}]}, {"pattern": "^[]$"}, {"pattern": "^a[^\\s\\S]+"}]})");
  expect_sentences(left, {"null"});
  expect_none(left, {"{}", R"({"a":1})", R"({"a":1,"c":1})", R"("")", R"("a")"});
  const Grammar constant = json_schema(R"({"const": 1, "anyOf": [{"const": 1}, {"const": 2}]})");
  expect_sentences(constant, {"1"});
  expect_none(constant, {"2"});
  const Grammar kinds = json_schema(
      R"({"properties": {"kind": {"const": "a"}}, "required": ["kind"], "oneOf": [{"properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}}, {"properties": {"kind": {"const": "b"}, "n": {"type": "null"}}}]})");
  expect_sentences(kinds, {R"({"kind":"a","n":1})"});
  expect_none(kinds, {R"({"kind":"a","n":null})", R"({"kind":"b","n":null})"});
  const Grammar unique =
      json_schema(R"({"type": "array", "uniqueItems": true, "items": {"anyOf": [{"enum": []}, {"const": 1}]}})");
  expect_sentences(unique, {"[]", "[1]"});
  expect_none(unique, {"[1,1]"});
}

// Each text takes so many states that a tenth one is refused; none of these becomes part of the grammar.
TEST(JsonSchema, AlternativesThatAreLeftOutTakeNoStates) {
  std::vector<std::string> alternatives;
  for (int i = 0; i < 12; ++i)
    alternatives.push_back(fmt::format(
        R"({{"properties": {{"a": {{"format": "uri", "maxLength": {}}}, "b": false}}, "required": ["a", "b"]}})",
        60 + i));
  const Grammar grammar =
      json_schema(fmt::format(R"({{"anyOf": [{}, {{"type": "null"}}]}})", fmt::join(alternatives, ", ")));
  expect_sentences(grammar, {"null"});
  expect_none(grammar, {"{}"});
}

TEST(JsonSchema, WithoutATypeTheFirstKeywordThatBelongsToOneDecides) {
  expect_sentences(json_schema(R"({"minimum": 0, "items": {}})"), {"3"});
  expect_none(json_schema(R"({"minimum": 0, "items": {}})"), {"[]", "-3"});
  expect_sentences(json_schema(R"({"items": {}, "minimum": 0})"), {"[3]"});
  expect_none(json_schema(R"({"items": {}, "minimum": 0})"), {"3"});
  for (const char *format : {"int32", "int64", "double"}) {
    const Grammar number = json_schema(fmt::format(R"({{"format": "{}", "minimum": 0}})", format));
    expect_sentences(number, {"5"});
    expect_none(number, {R"("5")", "-5"});
  }
}

// A class of no characters: what needs one is left out, and what does not stays.
TEST(JsonSchema, PatternsMayHavePartsThatMatchNothing) {
  const Grammar grammar = json_schema(R"({"pattern": "^(a|[]|b[]*c|d[]{2})$"})");
  expect_sentences(grammar, {R"("a")", R"("bc")"});
  expect_none(grammar, {R"("")", R"("b")", R"("d")"});
  const Grammar names =
      json_schema(R"({"patternProperties": {"^[]$": false, "^x": {"type": "null"}}, "additionalProperties": false})");
  expect_sentences(names, {"{}", R"({"x":null})"});
  expect_none(names, {R"({"":null})", R"({"x":1})"});
  const Grammar unnamed = json_schema(R"({"propertyNames": {"minLength": 2, "maxLength": 1}})");
  expect_sentences(unnamed, {"{}"});
  expect_none(unnamed, {R"({"a":1})"});
  EXPECT_EQ(message_of(Grammar::from_json_schema(R"({"pattern": "^a[]$"})")),
            "JSON schema, '#': 'pattern': there is no text that it matches");
  EXPECT_EQ(message_of(Grammar::from_json_schema(R"({"pattern": "^[\\x01]$"})")),
            "JSON schema, '#': 'pattern': nothing but control characters at offset 1: not supported in a pattern");
}

// OpenAPI's formats of numbers are types of their readers.
TEST(JsonSchema, AnInt32IsOne) {
  const Grammar grammar = json_schema(R"({"type": "integer", "format": "int32"})");
  expect_sentences(grammar, {"0", "-2147483648", "2147483647"});
  expect_none(grammar, {"2147483648", "-2147483649", "1.5"});
  const Grammar count = json_schema(R"({"type": "integer", "format": "int32", "minimum": 1})");
  expect_sentences(count, {"1", "2147483647"});
  expect_none(count, {"0", "2147483648"});
  const Grammar wide =
      json_schema(R"({"type": "number", "format": "int32", "minimum": -3e9, "exclusiveMaximum": 3000000000})");
  expect_sentences(wide, {"-2147483648", "2147483647"});
  expect_none(wide, {"2147483648", "2999999999", "1.5"});
  expect_sentences(json_schema(R"({"type": "integer", "format": "int64"})"), {"2147483648"});
}

// As generators write them for the types of their languages.
TEST(JsonSchema, BoundsBeyondAllThatIsWrittenExcludeNothing) {
  const Grammar long_integer =
      json_schema(R"({"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807})");
  expect_sentences(long_integer, {"0", "-9999999999999999", "9999999999999999"});
  expect_none(long_integer, {"99999999999999999999", "1.5"});
  const Grammar unsigned_integer =
      json_schema(R"({"type": "integer", "minimum": 0, "exclusiveMaximum": 18446744073709551616})");
  expect_sentences(unsigned_integer, {"0", "9999999999999999"});
  expect_none(unsigned_integer, {"-1"});
  for (const char *number :
       {R"({"type": "number", "minimum": -3.4028234663852886e38, "maximum": 3.4028234663852886e38})",
        R"({"minimum": -1.7976931348623157e308, "maximum": 1.7976931348623157e308})", R"({"maximum": 1e18})"}) {
    expect_sentences(json_schema(number), {"0", "-1.5", "9999999999999999.25", "-9999999999999999"});
    expect_none(json_schema(number), {"1e40", "1e2", "10000000000000000000"});
  }
  const Grammar least = json_schema(R"({"minimum": 100000000000000000, "maximum": 1e18})");
  expect_sentences(least, {"100000000000000000", "999999999999999999.5"});
  expect_none(least, {"1000000000000000000", "99999999999999999"});
  expect_sentences(
      json_schema(R"({"anyOf": [{"minimum": 1e18}, {"type": "integer", "format": "int32", "maximum": 1e18}]})"),
      {"2147483647"});
}

TEST(JsonSchema, AnnotationsExcludeNothing) {
  const Grammar grammar = json_schema(
      R"({"const": 1, "$anchor": "a", "id": "b", "contentEncoding": "base64", "contentMediaType": "text/plain", "externalDocs": {}, "xml": {}, "x-order": 1, "title": "t"})");
  expect_sentences(grammar, {"1"});
}

// Those that say more of a keyword which is not there.
TEST(JsonSchema, KeywordsThatBelongToAnotherExcludeNothingAlone) {
  const Grammar grammar = json_schema(
      R"({"const": 1, "then": false, "else": false, "minContains": 2, "maxContains": 0, "contentSchema": false})");
  expect_sentences(grammar, {"1"});
  expect_sentences(json_schema(R"({"const": 1, "allOf": [{"if": false}, {"then": false}]})"), {"1"});
  for (const char *schema : {R"({"if": {}, "else": false})", R"({"contains": {}, "minContains": 0})",
                             R"({"allOf": [{}, {"if": {}, "then": false}]})"})
    EXPECT_TRUE(message_of(Grammar::from_json_schema(schema)).ends_with("is not supported")) << schema;
}

}  // namespace
}  // namespace bonsai::grammar
