// Promises: any bytes are refused with one line or make a grammar; a grammar that was made lets random texts go on to
// an end, and says of each token by mask what it says when it is tried.
#include <memory>
#include <string>
#include <string_view>

#include "core/grammar/grammar.h"
#include "core/grammar/matcher.h"
#include "tests/fuzz/fuzz_target.h"

namespace {

using bonsai::Result;
using bonsai::grammar::Grammar;
using bonsai::grammar::Matcher;
using bonsai::grammar::TokenMasks;
using bonsai::grammar::Vocabulary;

// An input's first byte says what the others are.
enum class Kind : uint8_t { kGbnf, kJsonSchema };

std::shared_ptr<const Vocabulary> vocabulary() {
  static const auto made = [] {
    std::vector<std::string> tokens;
    for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, static_cast<char>(byte)));
    for (const char *token :
         {"{\"", "\":", "\",\"", "ab", "abc", "aa", "12", "\xC3", "\xA9x", "\xE4\xB8", "  ", "true", "]}"})
      tokens.emplace_back(token);
    tokens.emplace_back();
    return std::make_shared<const Vocabulary>(std::move(tokens), std::vector<int32_t>{269});
  }();
  return made;
}

std::vector<int32_t> allowed_tokens(Matcher &matcher) {
  std::vector<uint32_t> mask(vocabulary()->n_words());
  matcher.mask(mask);
  std::vector<int32_t> allowed;
  for (int32_t token = 0; token < static_cast<int32_t>(vocabulary()->size()); ++token) {
    const bool in_mask = (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
    require(in_mask == matcher.allows(token));
    if (in_mask) allowed.push_back(token);
  }
  return allowed;
}

void try_grammar(const Result<Grammar> &grammar) {
  if (!grammar) {
    require(!grammar.error().message.empty() && grammar.error().message.find('\n') == std::string::npos);
    return;
  }
  Matcher matcher(std::make_shared<TokenMasks>(grammar->automaton(), vocabulary(), 20000));
  std::string text;
  for (uint32_t n = 0; n < 8; ++n) {
    const auto allowed = allowed_tokens(matcher);
    if (allowed.empty()) break;
    const int32_t token = allowed[(n * 7919 + text.size() * 31) % allowed.size()];
    require(matcher.accept(token));
    if (vocabulary()->is_end(token)) require(grammar->matches(text));
    text += vocabulary()->bytes(token);
  }
  matcher.rollback(3);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char *>(data + 1), size - 1);
  try_grammar(data[0] % 2 == 0 ? Grammar::from_gbnf(rest) : Grammar::from_json_schema(rest));
  return 0;
}

std::vector<std::vector<uint8_t>> fuzz_seeds() {
  return {
      make_seed(Kind::kGbnf, "root ::= root \"+\" term | term # sums\nterm ::= [0-9]{1,3} | \"(\" root \")\"\n"),
      make_seed(Kind::kGbnf,
                "root ::= ([^\"\\\\\\x00-\\x1f] | \"\\\\\" .)* a?\na ::= b \"x\" | \"\"\nb ::= a b | \"\\u00e9\""),
      make_seed(Kind::kGbnf, "root ::= (\"ab\" | [a-c\U0001F600-\U0001F64F])+ (\n \"d\"{,4} |\n root \"e\" )"),
      make_seed(Kind::kJsonSchema, "true"),
      make_seed(
          Kind::kJsonSchema,
          R"({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}, "b": {"type": ["integer", "null"], "minimum": -3, "exclusiveMaximum": 120}}, "required": ["a"], "additionalProperties": {"type": "number", "minimum": 0.5}})"),
      make_seed(
          Kind::kJsonSchema,
          R"({"$defs": {"n": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "array", "items": {"$ref": "#/$defs/n"}, "maxItems": 2}]}}, "allOf": [{"$ref": "#/$defs/n"}, {"minItems": 1}]})"),
      make_seed(
          Kind::kJsonSchema,
          R"({"prefixItems": [{"pattern": "^[a-z\\d]+(x|\"y)?$"}, {"format": "date"}, {"enum": ["ab", 1]}, {"const": null}], "items": false})"),
      make_seed(
          Kind::kJsonSchema,
          R"({"patternProperties": {"^a": {"type": "integer", "multipleOf": 3, "maximum": 40}, "b$": {"multipleOf": 0.5}}, "propertyNames": {"maxLength": 3}, "minProperties": 1, "maxProperties": 3})"),
      make_seed(
          Kind::kJsonSchema,
          R"({"allOf": [{"items": {"enum": ["a", 1, null]}, "minItems": 1}, {"uniqueItems": true}, {"items": {"type": ["string", "integer"]}}]})"),
  };
}
