// Schemas made at random: documents that follow them are sentences, documents that a change has spoiled are none, and
// every sentence that random tokens spell is a document that satisfies its schema.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "core/grammar/matcher.h"
#include "tests/grammar/random_sentence.h"
#include "tests/grammar/schema_validator.h"
#include "tests/grammar/sentences.h"
#include "tests/grammar/vocabularies.h"

namespace bonsai::grammar {
namespace {

using Ordered = nlohmann::ordered_json;

// Makes schemas, and documents for them in the order of their properties.
class Maker {
 public:
  explicit Maker(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  Ordered document_schema() {
    Ordered schema = schema_of(0);
    schema["$defs"] = {
        {"list",
         {{"type", "object"},
          {"properties",
           {{"head", schema_of(2)}, {"tail", {{"anyOf", {{{"$ref", "#/$defs/list"}}, {{"type", "null"}}}}}}}},
          {"required", {"head", "tail"}}}}};
    return schema;
  }

  Ordered value_of(const Ordered &schema, const Ordered &document, int depth = 0) {
    if (schema == true) return 7;
    if (schema.contains("$ref")) return value_of(document["$defs"]["list"], document, depth + 1);
    if (schema.contains("const")) return schema["const"];
    if (schema.contains("enum")) return schema["enum"][below(static_cast<uint32_t>(schema["enum"].size()))];
    if (schema.contains("anyOf"))
      return value_of(
          depth > 8 ? schema["anyOf"].back() : schema["anyOf"][below(static_cast<uint32_t>(schema["anyOf"].size()))],
          document, depth + 1);
    const std::string type = schema["type"].is_array() ? schema["type"][below(2)] : schema["type"];
    if (type == "object") return object_of(schema, document, depth);
    if (type == "array") return array_of(schema, document, depth);
    if (type == "string") return string_of(schema);
    if (type == "integer") return number_of(schema);
    if (type == "number") return number_of(schema) + (schema.contains("maximum") ? 0.0 : 0.25);
    if (type == "boolean") return below(2) == 0;
    return nullptr;
  }

 private:
  Ordered schema_of(int depth) {
    switch (below(depth < 3 ? 11 : 6)) {
      case 0: {
        Ordered schema = {{"type", "string"}};
        if (below(2) == 0) schema["minLength"] = below(4);
        if (below(2) == 0) schema["maxLength"] = 4 + below(6);
        return schema;
      }
      case 1:
      case 2: {
        Ordered schema = {{"type", below(2) == 0 ? "integer" : "number"}};
        const int least = static_cast<int>(below(300)) - 150;
        if (below(2) == 0) schema["minimum"] = least;
        if (below(2) == 0) schema["maximum"] = least + 1 + static_cast<int>(below(500));
        return schema;
      }
      case 3:
        return {{"enum", {"red", "green", 7, nullptr, "re"}}};
      case 4:
        return {{"type", below(2) == 0 ? "boolean" : "null"}};
      case 5:
        return {{"const", {{"a", {1, "x\"y"}}}}};
      case 6:
        return {{"anyOf", {schema_of(depth + 1), {{"$ref", "#/$defs/list"}}, schema_of(depth + 1)}}};
      case 7: {
        Ordered schema = {{"type", "array"}, {"items", schema_of(depth + 1)}};
        if (below(2) == 0) schema["minItems"] = below(3);
        if (below(2) == 0) schema["maxItems"] = 3 + below(3);
        return schema;
      }
      case 8:
        return array_in_parts();
      default: {
        Ordered schema = {{"type", "object"},
                          {"properties", Ordered::object()},
                          {"required", Ordered::array()},
                          {"additionalProperties", false}};
        for (const char *name : {"name", "na", "age", "x y", "\u00e9\"\\"}) {
          if (below(2) == 0) continue;
          schema["properties"][name] = schema_of(depth + 1);
          if (below(2) == 0) schema["required"].push_back(name);
        }
        if (below(3) == 0) schema["additionalProperties"] = schema_of(depth + 1);
        return schema;
      }
    }
  }

  // "items" in one part, and "prefixItems", of which each allows some of them, in another.
  Ordered array_in_parts() {
    const Ordered items = {{"type", {"integer", "string"}}};
    Ordered first = Ordered::array();
    for (uint32_t n = 1 + below(3); n > 0; --n) {
      const Ordered some[] = {true,
                              {{"type", "integer"}, {"minimum", -3}},
                              {{"enum", {"red", 7, "re"}}},
                              {{"type", "string"}, {"maxLength", 3}}};
      first.push_back(some[below(4)]);
    }
    Ordered other = {{"prefixItems", first}};
    if (below(2) == 0) other["items"] = {{"type", "integer"}, {"maximum", 5}};
    if (below(2) == 0) return {{"type", "array"}, {"allOf", {other, {{"items", items}}}}};
    return {{"type", "array"}, {"items", items}, {"allOf", Ordered::array({other})}, {"maxItems", 4}};
  }

  Ordered object_of(const Ordered &schema, const Ordered &document, int depth) {
    Ordered object = Ordered::object();
    const Ordered required = schema.value("required", Ordered::array());
    for (const auto &[name, property] : schema["properties"].items()) {
      const bool needed = std::find(required.begin(), required.end(), Ordered(name)) != required.end();
      if (needed || below(2) == 0) object[name] = value_of(property, document, depth + 1);
    }
    if (schema.contains("additionalProperties") && schema["additionalProperties"].is_object() && below(2) == 0)
      object["nam"] = value_of(schema["additionalProperties"], document, depth + 1);
    return object;
  }

  Ordered array_of(const Ordered &schema, const Ordered &document, int depth) {
    Ordered array = Ordered::array();
    const uint32_t least = schema.value("minItems", 0u), most = schema.value("maxItems", 4u);
    Ordered first = Ordered::array(), items = schema.value("items", Ordered());
    for (const Ordered &part : schema.value("allOf", Ordered::array())) {
      first = part.value("prefixItems", first);
      if (items.is_null() || part.contains("prefixItems")) items = part.value("items", items);
    }
    for (uint32_t i = 0, n = least + below(most - least + 1); i < n; ++i)
      array.push_back(value_of(i < first.size() ? first[i] : items, document, depth + 1));
    return array;
  }

  Ordered string_of(const Ordered &schema) {
    const uint32_t least = schema.value("minLength", 0u), most = schema.value("maxLength", 12u);
    std::string text;
    for (uint32_t n = least + below(most - least + 1); n > 0; --n) {
      const char *const pieces[] = {"a",      "Z",      " ",          "\"", "\\",   "\n",
                                    "\u00e9", "\u4e16", "\U0001F600", "/",  "\x7F", "\x01"};
      text += pieces[below(12)];
    }
    return text;
  }

  int number_of(const Ordered &schema) {
    const int most = schema.value("maximum", schema.value("minimum", 0) + 1000);
    const int least = schema.value("minimum", most - 1000);
    return least + static_cast<int>(below(static_cast<uint32_t>(most - least + 1)));
  }

  std::mt19937 random_;
};

// One change somewhere: a value of another type, a member more or less, another number.
void spoil(nlohmann::ordered_json &value, Maker &maker) {
  if (value.is_structured() && !value.empty() && maker.below(3) > 0) {
    auto at = value.begin();
    std::advance(at, maker.below(static_cast<uint32_t>(value.size())));
    return spoil(*at, maker);
  }
  switch (maker.below(5)) {
    case 0:
      value = nullptr;
      return;
    case 1:
      value = static_cast<int>(maker.below(2000)) - 1000;
      return;
    case 2:
      value = "other text";
      return;
    case 3:
      if (value.is_object()) value.erase(value.begin() == value.end() ? "" : value.begin().key());
      if (value.is_array()) value.clear();
      return;
    default:
      if (value.is_array()) value.push_back(true);
      if (value.is_object()) value["zzz"] = 1;
  }
}

TEST(RandomDocuments, FollowTheirSchemaOrAreRefusedAsTheValidatorSays) {
  size_t n_good = 0, n_bad = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Maker maker(seed);
    const Ordered schema = maker.document_schema();
    const nlohmann::json plain = nlohmann::json::parse(schema.dump());
    const Grammar grammar = json_schema(schema.dump());
    for (int n = 0; n < 20; ++n) {
      Ordered value = maker.value_of(schema, schema);
      const std::string compact = value.dump(), pretty = value.dump(2);
      ASSERT_TRUE(is_document_of(compact, plain)) << compact << " by " << schema;
      ASSERT_TRUE(grammar.matches(compact)) << compact << " by " << schema;
      if (pretty.find("\n" + std::string(33, ' ')) == std::string::npos &&
          schema.dump().find("const") == std::string::npos) {
        ASSERT_TRUE(grammar.matches(pretty)) << pretty << " by " << schema;
      }
      spoil(value, maker);
      const bool good = is_document_of(value.dump(), plain);
      n_good += good;
      n_bad += !good;
      // The other direction does not hold: properties may have come in another order.
      if (!good) {
        ASSERT_FALSE(grammar.matches(value.dump())) << value << " by " << schema;
      }
    }
  }
  EXPECT_GT(n_bad, 1500u);
  EXPECT_GT(n_good, 300u);
}

TEST(RandomDocuments, WhatRandomTokensSpellSatisfiesTheSchema) {
  const auto vocabulary = small_vocabulary();
  size_t n_ended = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Maker maker(seed);
    const Ordered schema = maker.document_schema();
    const nlohmann::json plain = nlohmann::json::parse(schema.dump());
    Matcher matcher(std::make_shared<TokenMasks>(json_schema(schema.dump()).automaton(), vocabulary));
    const auto text = random_sentence(matcher, *vocabulary, [&](uint32_t bound) { return maker.below(bound); });
    if (!text) continue;
    ++n_ended;
    ASSERT_TRUE(is_document_of(*text, plain)) << *text << " by " << schema;
  }
  EXPECT_GT(n_ended, 150u);
}

}  // namespace
}  // namespace bonsai::grammar
