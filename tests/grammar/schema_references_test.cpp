// References of JSON schemas whose parts have URIs of their own.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>

#include "tests/grammar/sentences.h"

namespace bonsai::grammar {
namespace {

// Promise: what comes out satisfies the schema, also where an "$id" makes '#' another place than the document's root.
TEST(SchemaReferences, BelowAnIdentifierTheyBeginAtItsSchema) {
  const Grammar items = json_schema(
      R"({"$id": "http://x/r", "type": "object", "properties": {"a": {"$id": "http://x/s", "type": "array",
      "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"type": "integer"}}}}, "$defs": {"n": {"type": "string"}}})");
  expect_sentences(items, {R"({"a":[1]})"});
  expect_none(items, {R"({"a":["x"]})"});
  const Grammar beside = json_schema(
      R"({"properties": {"a": {"$id": "s", "$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}}, "b": {"$ref": "#/$defs/n"}},
      "$defs": {"n": {"type": "string"}}})");
  expect_sentences(beside, {R"({"a":1,"b":"x"})"});
  expect_none(beside, {R"({"a":"x"})", R"({"b":1})"});
  const Grammar itself = json_schema(
      R"({"properties": {"v": {"$id": "http://x/tree", "type": "object", "properties": {"kids": {"items": {"$ref": "#"}}}}}})");
  expect_sentences(itself, {R"({"v":{"kids":[{"kids":[]},{}]}})"});
  expect_none(itself, {R"({"v":{"kids":[{"v":{}}]}})"});
  // The nearest one counts, and names in the way to it are escaped.
  const Grammar nearest = json_schema(
      R"({"$defs": {"a/b%7e~": {"$id": "one", "$defs": {"n": {"const": 1}}, "items": {"$id": "two", "$defs": {"n": {"const": 2}}, "items": {"$ref": "#/$defs/n"}}}},
      "$ref": "#/$defs/a~1b%257e~0"})");
  expect_sentences(nearest, {"[[2]]"});
  expect_none(nearest, {"[[1]]"});
}

TEST(SchemaReferences, WhatIsJoinedKeepsItsIdentifier) {
  const Grammar grammar = json_schema(
      R"({"$ref": "#/$defs/s", "maxItems": 1, "allOf": [{"items": {"$ref": "#/$defs/n"}}],
      "$defs": {"s": {"$id": "http://x/s", "items": {"$ref": "#/$defs/n"}, "$defs": {"n": {"minimum": 3}}}, "n": {"type": "integer"}}})");
  expect_sentences(grammar, {"[]", "[3]"});
  expect_none(grammar, {"[2]", "[3.5]", "[3,3]"});
}

TEST(SchemaReferences, ThatLeadIntoASchemaWithAnIdentifierFindItsOwn) {
  const Grammar grammar = json_schema(
      R"({"$ref": "#/$defs/s/properties/a", "$defs": {"n": {"type": "string"},
      "s": {"$id": "http://x/s", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}}})");
  expect_sentences(grammar, {"1"});
  expect_none(grammar, {R"("x")"});
}

TEST(SchemaReferences, MayHaveTheURIOfTheirDocument) {
  for (const char *reference : {"http://x/r#/$defs/n", "#/$defs/n"}) {
    for (const char *id : {"http://x/r", "http://x/r#"}) {
      const Grammar grammar = json_schema(fmt::format(
          R"({{"$id": "{}", "items": {{"$ref": "{}"}}, "$defs": {{"n": {{"type": "integer"}}}}}})", id, reference));
      expect_sentences(grammar, {"[1]"});
      expect_none(grammar, {R"(["x"])"});
    }
  }
  for (const char *reference : {"http://x/r", "http://x/r#", "#"}) {
    const Grammar grammar =
        json_schema(fmt::format(R"({{"$id": "http://x/r", "type": "array", "items": {{"$ref": "{}"}}}})", reference));
    expect_sentences(grammar, {"[[],[[]]]"});
    expect_none(grammar, {"[1]"});
  }
  // TypeBox's recursive types, in the document and in a part of another.
  const Grammar named = json_schema(R"({"$id": "T0", "type": "array", "items": {"$ref": "T0"}})");
  expect_sentences(named, {"[[],[[]]]"});
  const Grammar within = json_schema(
      R"({"$id": "http://x/r", "properties": {"a": {"$id": "T0", "type": "array", "items": {"$ref": "T0"}}, "b": {"$id": "u", "$ref": "http://x/r#/$defs/n"}}, "$defs": {"n": {"const": 1}}})");
  expect_sentences(within, {R"({"a":[[]],"b":1})"});
  expect_none(within, {R"({"a":[{}]})", R"({"b":2})"});
}

TEST(SchemaReferences, OfOtherDocumentsAreRefused) {
  const auto expect_refused = [](const char *id, const char *reference) {
    EXPECT_EQ(message_of(Grammar::from_json_schema(
                  fmt::format(R"({{"$id": "{}", "items": {{"$ref": "{}"}}}})", id, reference))),
              fmt::format("JSON schema, '#/items': '$ref': expected '#' and a path within the document, found '{}'",
                          reference));
  };
  expect_refused("http://x/r", "http://x/s");
  expect_refused("http://x/r", "http://x/rr#");
  expect_refused("a/r", "a/r");  // is a/a/r
  expect_refused("..", "..");
  expect_refused("http://x/r", "%23");
  expect_refused("#r", "#r");
}

// What looks like an identifier need not be one.
TEST(SchemaReferences, OnlyASchemasIdentifierIsOne) {
  const auto grammar = [](const char *part) {
    return json_schema(fmt::format(R"({{{}, "$defs": {{"n": {{"type": "integer"}}}}}})", part));
  };
  const Grammar property = grammar(R"("properties": {"$id": {"$ref": "#/$defs/n"}})");
  expect_sentences(property, {R"({"$id":1})"});
  expect_none(property, {R"({"$id":"x"})"});
  for (const char *part :
       {R"("items": {"$id": "#s", "$ref": "#/$defs/n"})", R"("items": {"id": "s", "allOf": [{"$ref": "#/$defs/n"}]})",
        R"("default": {"$id": "s"}, "items": {"$ref": "#/$defs/n"})"}) {
    expect_sentences(grammar(part), {"[1]"});
    expect_none(grammar(part), {R"(["x"])"});
  }
  expect_sentences(grammar(R"("const": {"$id": "s", "items": {"$ref": "#/$defs/n"}})"),
                   {R"({"$id":"s","items":{"$ref":"#/$defs/n"}})"});
}

// Drafts up to 7 have it so that nothing beside a "$ref" counts, and the first ones that it is called "id".
TEST(SchemaReferences, TheDraftSaysWhatAnIdentifierIs) {
  const auto grammar = [](const char *draft, const char *part) {
    return json_schema(fmt::format(
        R"({{"$schema": "http://json-schema.org/draft-{}/schema#", "items": {}, "definitions": {{"n": {{"type": "string"}}}}}})",
        draft, part));
  };
  constexpr const char *kBeside =
      R"({"$id": "http://x/s", "$ref": "#/definitions/n", "definitions": {"n": {"type": "integer"}}})";
  for (const char *draft : {"06", "07"}) {
    expect_sentences(grammar(draft, kBeside), {R"(["x"])"});
    expect_none(grammar(draft, kBeside), {"[1]"});
  }
  constexpr const char *kOld =
      R"({"id": "http://x/s", "allOf": [{"$ref": "#/definitions/n"}], "definitions": {"n": {"type": "integer"}}})";
  expect_sentences(grammar("04", kOld), {"[1]"});
  expect_none(grammar("04", kOld), {R"(["x"])"});
  expect_sentences(grammar("07", kOld), {R"(["x"])"});
  expect_none(grammar("07", kOld), {"[1]"});
}

TEST(SchemaReferences, ThroughWhatMayBeAnIdentifierOrNotAreRefused) {
  EXPECT_EQ(
      message_of(Grammar::from_json_schema(
          R"({"items": {"$ref": "#/x-types/a/items"}, "x-types": {"a": {"$id": "http://x/s", "items": {"$ref": "#/b"}}}})")),
      "JSON schema, '#/items': '$ref': '#/x-types/a/items' leads through '#/x-types/a', where '$id' may be a "
      "schema's identifier or not");
  // Below what a reference leads to it is one again.
  const Grammar grammar = json_schema(
      R"({"$ref": "#/x-types/a", "x-types": {"a": {"items": {"$id": "s", "$ref": "#/$defs/n", "$defs": {"n": {"const": 1}}}}}, "$defs": {"n": {"const": 2}}})");
  expect_sentences(grammar, {"[1]"});
  expect_none(grammar, {"[2]"});
}

TEST(SchemaReferences, ThatWouldTakeMuchMemoryAreRefused) {
  std::string items = R"({"$ref": "#"})";
  for (int i = 0; i < 1000; ++i) items += R"(, {"$ref": "#"})";
  const std::string message = message_of(Grammar::from_json_schema(
      fmt::format(R"({{"$defs": {{"{}": {{"$id": "s", "anyOf": [{}]}}}}}})", std::string(2000, 'x'), items)));
  EXPECT_TRUE(message.ends_with("too large: '$ref's below '$id's take more than 1048576 bytes")) << message;
}

}  // namespace
}  // namespace bonsai::grammar
