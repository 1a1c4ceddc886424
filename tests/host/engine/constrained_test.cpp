// Generation under a grammar or a schema: what ends by itself is complete, whatever the model would have liked to say.
#include <gtest/gtest.h>

#include "tests/grammar/schema_validator.h"
#include "tests/host/engine/seedling.h"

namespace bonsai {
namespace {

using nlohmann::json;

GenerateOptions sampled(uint64_t seed, uint32_t max_tokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.sampling.seed = seed;
  return options;
}

const char *const kSchemas[] = {
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "integer", "minimum": 1, "maximum": 99}, "alive": {"type": "boolean"}}, "required": ["name", "age"]})",
    R"({"type": "array", "items": {"enum": ["king", "queen", "fox", null]}, "minItems": 2, "maxItems": 6})",
    R"({"$defs": {"tale": {"type": "object", "properties": {"title": {"type": "string", "maxLength": 12}, "within": {"anyOf": [{"$ref": "#/$defs/tale"}, {"type": "null"}]}}, "required": ["title", "within"], "additionalProperties": false}}, "$ref": "#/$defs/tale"})",
    R"({"type": "object", "properties": {"when": {"type": "string", "format": "date"}, "share": {"type": "number", "minimum": 0, "maximum": 1}}, "required": ["when", "share"]})",
    "{}",
};

TEST(Constrained, WhateverEndsByItselfSatisfiesItsSchema) {
  const Engine engine = load_seedling();
  int n_ended = 0;
  for (const char *schema : kSchemas) {
    for (uint64_t seed = 0; seed < 25; ++seed) {
      GenerateOptions options = sampled(seed, 200);
      options.json_schema = schema;
      options.sampling.temperature = seed % 5 == 0 ? 0 : 1.2f;
      const Generation generation = engine.generate("Once upon a time", options);
      EXPECT_EQ(generation.stats.constrained_tokens >= generation.tokens.size(), true);
      if (generation.finish != FinishReason::kEndOfText) {
        ASSERT_EQ(generation.finish, FinishReason::kLength);
        continue;
      }
      ++n_ended;
      const json value = json::parse(generation.text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << generation.text;
      ASSERT_TRUE(grammar::satisfies(value, json::parse(schema), json::parse(schema))) << generation.text;
    }
  }
  EXPECT_GT(n_ended, 60);
}

TEST(Constrained, AGrammarEndsTheTextWhereNothingMayFollow) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(50);
  options.grammar = "root ::= \" there was a \" (\"king\" | \"fox\") \".\"";
  const Generation generation = engine.generate("Once upon a time", options);
  EXPECT_EQ(generation.finish, FinishReason::kEndOfText);
  EXPECT_TRUE(generation.text == " there was a king." || generation.text == " there was a fox.") << generation.text;
  options.max_tokens = 2;
  EXPECT_EQ(engine.generate("Once upon a time", options).finish, FinishReason::kLength);
}

// Nothing may come at all, and no end token either.
TEST(Constrained, AGrammarOfTheEmptyTextEndsItAtOnce) {
  const Engine engine = load_seedling();
  for (const bool ignore_eos : {false, true}) {
    GenerateOptions options = greedy(8);
    options.grammar = "root ::= \"\"";
    options.ignore_eos = ignore_eos;
    const Generation generation = engine.generate("Once", options);
    EXPECT_EQ(generation.text, "");
    EXPECT_EQ(generation.finish, FinishReason::kEndOfText);
  }
}

// What was held back for a stop string comes before what is left of a character.
TEST(Constrained, TheEndOfACutTextComesInItsOrder) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(2);  // 'a' and the first byte of the next character
  options.grammar = "root ::= \"a\U0001F600b\"";
  for (const char *stop : {"a!", "never"}) {
    options.stop = {stop};
    std::string shown;
    const Generation generation = engine.generate("Once", options, [&](std::string_view text) {
      shown += text;
      return true;
    });
    EXPECT_EQ(generation.finish, FinishReason::kLength);
    EXPECT_EQ(generation.text, "a\uFFFD") << stop;
    EXPECT_EQ(shown, generation.text);
  }
}

TEST(Constrained, TheGrammarHoldsAgainstBiasAndWithoutEndTokens) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(40);
  options.ignore_eos = true;
  options.grammar = "root ::= [0-9]{4} \"-\" [0-9]{2}";
  options.sampling.logit_bias.push_back({engine.tokenize("the").front(), 1000});
  const Generation generation = engine.generate("Once upon a time", options);
  EXPECT_EQ(generation.finish, FinishReason::kEndOfText);
  EXPECT_EQ(generation.text.size(), 7u) << generation.text;
}

// A small grammar whose rules call each other in so many ways that a token would take minutes: an error, and soon.
TEST(Constrained, AGrammarWithTooManyReadingsIsRefused) {
  std::string grammar = "root ::= s0\n";
  for (int i = 0; i < 8; ++i) {
    const auto rule = [i](int next) { return "s" + std::to_string((i + next) % 8); };
    grammar += rule(0) + " ::= [^x] | " + rule(1) + " " + rule(3) + " | [^y] " + rule(2) + " [^z]? | " + rule(0) + " " +
               rule(5) + "\n";
  }
  GenerateOptions options = greedy(40);
  options.ignore_eos = true;
  options.grammar = grammar;
  const Engine engine = load_seedling();
  const Thrown thrown = thrown_by([&] { engine.generate("Once upon", options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_TRUE(thrown.message.ends_with("can be read in too many ways") ||
              thrown.message.ends_with("it can be read in too many ways here"))
      << thrown.message;
}

// A grammar that lets everything through changes nothing.
TEST(Constrained, AGrammarOfEveryTextLeavesTheTextAsItIs) {
  const Engine engine = load_seedling();
  GenerateOptions options = sampled(5, 40);
  const std::string free_text = engine.generate("Once upon a time", options).text;
  options.grammar = "root ::= .*";
  EXPECT_EQ(engine.generate("Once upon a time", options).text, free_text);
}

TEST(ConstrainedRefuses, BothAtOnceAndWhatDoesNotCompile) {
  const Engine engine = load_seedling();
  GenerateOptions options = greedy(5);
  options.grammar = "root ::= item";
  Thrown thrown = thrown_by([&] { engine.generate("Once", options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "grammar, line 1, column 10: rule 'item' is used, but not defined");
  options.json_schema = "{}";
  thrown = thrown_by([&] { engine.generate("Once", options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(thrown.message, "a grammar and a JSON schema are both given: choose one");
  options = greedy(4);
  options.call_schema = "true";
  EXPECT_EQ(thrown_by([&] { engine.generate("x", options); }).message, "call_schema: expected with json_schema only");
}

}  // namespace
}  // namespace bonsai
