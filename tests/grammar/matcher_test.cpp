// Masks say what trying every token would say, whatever the grammar and wherever in a text; what is accepted can be
// taken back.
#include <gtest/gtest.h>

#include <random>

#include "core/grammar/matcher.h"
#include "tests/grammar/sentences.h"
#include "tests/grammar/vocabularies.h"

namespace bonsai::grammar {
namespace {

const char *const kSchemas[] = {
    "true",
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}}, "required": ["name"]})",
    R"({"type": "array", "items": {"type": "string", "maxLength": 5}, "minItems": 1, "maxItems": 4})",
    R"({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {"value": {"type": "number"}, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}, "required": ["value", "children"], "additionalProperties": false}}})",
    R"({"anyOf": [{"type": "string", "format": "date"}, {"enum": ["a", "ab", null, 12, {"name": [1, true]}]}, {"type": "string", "pattern": "^[a-z]+(\"|\\\\)?$"}]})",
    R"({"type": "object", "properties": {"name": true}, "additionalProperties": {"type": "boolean"}})",
};
const char *const kGrammars[] = {
    "root ::= root \"+\" term | term\nterm ::= [0-9]+ | \"(\" root \")\" | word\nword ::= [a-z]+ | word \"-\" word",
    "root ::= ([^\"] | \"\\\"\")* \"END\"",
    "root ::= root root | \"a\" | \"(\" root \")\" | .",
    "root ::= (\"the\" | \" world\" | \"\u4e16\u754c\" | \"\u00e9\"){2,7} \"\\n\"*",
};

std::shared_ptr<TokenMasks> masks_of(const Grammar &grammar, const std::shared_ptr<const Vocabulary> &vocabulary,
                                     size_t most_bytes = size_t{64} << 20) {
  return std::make_shared<TokenMasks>(grammar.automaton(), vocabulary, most_bytes);
}

std::vector<int32_t> allowed_tokens(Matcher &matcher, const Vocabulary &vocabulary) {
  std::vector<uint32_t> words(vocabulary.n_words(), ~0u);
  const bool any = matcher.mask(words);
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < static_cast<int32_t>(words.size() * 32); ++token)
    if ((words[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0) tokens.push_back(token);
  EXPECT_EQ(any, !tokens.empty());
  return tokens;
}

std::vector<int32_t> tried_tokens(Matcher &matcher, const Vocabulary &vocabulary) {
  std::vector<int32_t> tokens;
  for (int32_t token = 0; token < static_cast<int32_t>(vocabulary.size()); ++token)
    if (matcher.allows(token)) tokens.push_back(token);
  return tokens;
}

class EveryGrammar : public testing::Test {
 protected:
  static std::vector<Grammar> grammars() {
    std::vector<Grammar> all;
    for (const char *schema : kSchemas) all.push_back(json_schema(schema));
    for (const char *text : kGrammars) all.push_back(gbnf(text));
    return all;
  }
};

TEST_F(EveryGrammar, MasksAreWhatTryingEveryTokenSays) {
  const auto vocabulary = small_vocabulary();
  std::mt19937 random(1);
  for (const Grammar &grammar : grammars()) {
    const auto masks = masks_of(grammar, vocabulary);
    for (int text = 0; text < 40; ++text) {
      Matcher matcher(masks);
      for (int n = 0; n < 30; ++n) {
        const auto allowed = allowed_tokens(matcher, *vocabulary);
        ASSERT_EQ(allowed, tried_tokens(matcher, *vocabulary));
        ASSERT_FALSE(allowed.empty());
        const int32_t token = allowed[random() % allowed.size()];
        if (vocabulary->is_end(token)) break;
        ASSERT_TRUE(matcher.accept(token));
      }
    }
  }
}

// A small cache drops masks again and again; nothing else changes.
TEST_F(EveryGrammar, MasksThatWereDroppedComeBack) {
  const auto vocabulary = small_vocabulary();
  std::mt19937 random(2);
  const auto masks = masks_of(json_schema("true"), vocabulary, 2000);
  Matcher matcher(masks);
  for (int n = 0; n < 200 && !matcher.is_complete(); ++n) {
    const auto allowed = allowed_tokens(matcher, *vocabulary);
    ASSERT_EQ(allowed, tried_tokens(matcher, *vocabulary));
    matcher.accept(allowed[random() % allowed.size()]);
  }
  EXPECT_GT(masks->counts().dropped, 0u);
  EXPECT_LE(masks->counts().bytes, 2000u);
}

TEST_F(EveryGrammar, WithTheRealVocabularyMasksAreWhatTryingEveryTokenSays) {
  if (!std::filesystem::exists(qwen3_path())) GTEST_SKIP() << "qwen3-vocab.gguf is not in ../shared/data";
  const auto vocabulary = qwen3_vocabulary();
  std::mt19937 random(3);
  for (const Grammar &grammar : grammars()) {
    Matcher matcher(masks_of(grammar, vocabulary));
    for (int n = 0; n < 5; ++n) {
      const auto allowed = allowed_tokens(matcher, *vocabulary);
      ASSERT_EQ(allowed, tried_tokens(matcher, *vocabulary));
      // Rather short tokens, so that the text stays in many different places.
      int32_t token = allowed[random() % allowed.size()];
      for (int i = 0; i < 4; ++i) {
        const int32_t other = allowed[random() % allowed.size()];
        if (vocabulary->bytes(other).size() < vocabulary->bytes(token).size()) token = other;
      }
      if (vocabulary->is_end(token)) break;
      ASSERT_TRUE(matcher.accept(token));
    }
  }
}

TEST_F(EveryGrammar, WhatIsTakenBackNeverWas) {
  const auto vocabulary = small_vocabulary();
  std::mt19937 random(4);
  for (const Grammar &grammar : grammars()) {
    const auto masks = masks_of(grammar, vocabulary);
    Matcher matcher(masks);
    std::vector<int32_t> text;
    for (int n = 0; n < 120; ++n) {
      if (random() % 4 == 0) {
        const size_t back = random() % 5;
        matcher.rollback(back);
        text.resize(text.size() - std::min(back, text.size()));
      } else {
        const auto allowed = allowed_tokens(matcher, *vocabulary);
        if (allowed.empty()) continue;
        text.push_back(allowed[random() % allowed.size()]);
        ASSERT_TRUE(matcher.accept(text.back()));
      }
      ASSERT_EQ(matcher.length(), text.size());
      Matcher anew(masks);
      for (const int32_t token : text) ASSERT_TRUE(anew.accept(token));
      ASSERT_EQ(allowed_tokens(matcher, *vocabulary), allowed_tokens(anew, *vocabulary));
      ASSERT_EQ(matcher.can_end(), anew.can_end());
    }
  }
}

TEST(Matcher, ACopyGoesItsOwnWay) {
  const auto vocabulary = small_vocabulary();
  Matcher matcher(masks_of(gbnf("root ::= [ab] [cd]"), vocabulary));
  ASSERT_TRUE(matcher.accept('a'));
  Matcher copy = matcher;
  ASSERT_TRUE(copy.accept('d'));
  EXPECT_TRUE(copy.is_complete());
  EXPECT_FALSE(matcher.is_complete());
  copy.rollback(2);
  EXPECT_TRUE(copy.accept('b'));
  EXPECT_TRUE(matcher.accept('c'));
}

TEST(Matcher, TheEndIsAllowedWhereASentenceMayEndAndNothingFollowsIt) {
  const auto vocabulary = small_vocabulary();
  const int32_t end = vocabulary->ends()[0];
  Matcher matcher(masks_of(gbnf("root ::= \"a\" \"b\"?"), vocabulary));
  EXPECT_FALSE(matcher.accept(end));
  ASSERT_TRUE(matcher.accept('a'));
  EXPECT_TRUE(matcher.can_end());
  EXPECT_FALSE(matcher.is_complete());
  EXPECT_EQ(allowed_tokens(matcher, *vocabulary), (std::vector<int32_t>{'b', end}));
  ASSERT_TRUE(matcher.accept(end));
  EXPECT_TRUE(allowed_tokens(matcher, *vocabulary).empty());
  EXPECT_FALSE(matcher.accept('b'));
  matcher.rollback(1);
  ASSERT_TRUE(matcher.accept('b'));
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_EQ(allowed_tokens(matcher, *vocabulary), std::vector<int32_t>{end});
}

// What such a rule leaves behind is no call: nothing may follow.
TEST(Matcher, ARuleThatReadsNothingFollowsNothing) {
  const auto vocabulary = small_vocabulary();
  const int32_t end = vocabulary->ends()[0];
  for (const char *rules : {"root ::= \"a\" x\nx ::= \"\" | x", "root ::= \"a\" x\nx ::= \"\" | x x",
                            "root ::= x \"a\" y\nx ::= \"\" | y\ny ::= x | \"\" y y",
                            "root ::= \"a\" (x y)*\nx ::= x | \"\"\ny ::= x y | x"}) {
    Matcher matcher(masks_of(gbnf(rules), vocabulary));
    EXPECT_EQ(allowed_tokens(matcher, *vocabulary), std::vector<int32_t>{'a'}) << rules;
    ASSERT_TRUE(matcher.accept('a')) << rules;
    EXPECT_TRUE(matcher.is_complete()) << rules;
    EXPECT_EQ(allowed_tokens(matcher, *vocabulary), std::vector<int32_t>{end}) << rules;
  }
  Matcher matcher(masks_of(gbnf("root ::= \"a\" x\nx ::= \"\" | \"b\" x | x"), vocabulary));
  ASSERT_TRUE(matcher.accept('a'));
  EXPECT_FALSE(matcher.is_complete());
  EXPECT_EQ(allowed_tokens(matcher, *vocabulary), (std::vector<int32_t>{'b', end}));
  ASSERT_TRUE(matcher.accept('b'));
  EXPECT_EQ(allowed_tokens(matcher, *vocabulary), (std::vector<int32_t>{'b', end}));
}

TEST(Matcher, SpecialTokensAndIdsOutsideTheVocabularyAreNeverAllowed) {
  const auto vocabulary = small_vocabulary();
  Matcher matcher(masks_of(gbnf("root ::= .*"), vocabulary));
  const auto size = static_cast<int32_t>(vocabulary->size());
  for (const int32_t token : {-1, size - 2, size, size + 1000}) EXPECT_FALSE(matcher.accept(token)) << token;
  EXPECT_EQ(matcher.length(), 0u);
}

TEST(Matcher, ACharacterMayBeCutBetweenTokens) {
  const auto vocabulary = small_vocabulary();
  Matcher matcher(masks_of(gbnf("root ::= \"\U0001F600\""), vocabulary));
  for (const int byte : {0xF0, 0x9F, 0x98, 0x80}) {
    EXPECT_FALSE(matcher.accept(0x41));
    ASSERT_TRUE(matcher.accept(byte));
  }
  EXPECT_TRUE(matcher.is_complete());
}

// A text nests as deep as the limit lets it and no deeper, masks and tokens agreeing all the way, and can still end.
TEST(Matcher, NestingIsBoundedAndNeverADeadEnd) {
  const auto vocabulary = small_vocabulary();
  Matcher matcher(masks_of(json_schema("true"), vocabulary));
  int depth = 0;
  while (matcher.accept('[')) ++depth;
  EXPECT_GT(depth, 200);
  EXPECT_LE(depth, 1024);
  for (int n = 0; n < 8; ++n) {
    matcher.rollback(1);
    --depth;
    ASSERT_EQ(allowed_tokens(matcher, *vocabulary), tried_tokens(matcher, *vocabulary));
  }
  for (; depth > 0; --depth) ASSERT_TRUE(matcher.accept(']'));
  EXPECT_TRUE(matcher.is_complete());
}

}  // namespace
}  // namespace bonsai::grammar
