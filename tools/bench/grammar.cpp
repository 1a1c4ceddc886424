// bonsai-bench-grammar: what a grammar costs, over a real vocabulary: a token's mask, the first mask at each place, and
// compiling.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/base/standard_streams.h"
#include "core/gguf/file.h"
#include "core/grammar/grammar.h"
#include "core/grammar/matcher.h"
#include "core/text/tokenizer.h"
#include "host/sampling/token_mask.h"

namespace bonsai::grammar_bench {
namespace {

constexpr uint32_t kVocabulary = 151936;

struct Schema {
  const char *name, *json;
  const char *document;  // that satisfies it, written as models write
};

constexpr Schema kSchemas[] = {
    {"any", "true",
     "{\"title\": \"The Fox and the Grapes\", \"tags\": [\"fable\", \"fox\"], \"year\": 1484, \"rating\": 4.5, "
     "\"source\": {\"author\": "
     "\"Aesop\", \"translated\": true, \"notes\": null}}"},
    {"person",
     R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0, "maximum": 150}, "email": {"type": "string", "format": "email"}, "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 5}}, "required": ["name", "age"]})",
     "{\"name\": \"Ada Lovelace\", \"age\": 36, \"email\": \"ada@example.org\", \"tags\": [\"mathematics\", "
     "\"engines\", \"poetry\"]}"},
    {"tool_call",
     R"({"anyOf": [{"type": "object", "properties": {"name": {"const": "get_weather"}, "arguments": {"type": "object", "properties": {"city": {"type": "string"}, "unit": {"enum": ["celsius", "fahrenheit"]}, "days": {"type": "integer", "minimum": 1, "maximum": 14}}, "required": ["city"]}}, "required": ["name", "arguments"]}, {"type": "object", "properties": {"name": {"const": "send_mail"}, "arguments": {"type": "object", "properties": {"to": {"type": "string", "format": "email"}, "subject": {"type": "string", "maxLength": 80}, "body": {"type": "string", "maxLength": 2000}}, "required": ["to", "subject", "body"]}}, "required": ["name", "arguments"]}]})",
     "{\"name\": \"send_mail\", \"arguments\": {\"to\": \"ada@example.org\", \"subject\": \"The weather in "
     "Reykjavik\", \"body\": \"It rains. It will go on "
     "raining until Thursday, says the forecast; bring a coat, and the good boots.\"}}"},
    {"extraction",
     R"({"type": "object", "properties": {"summary": {"type": "string", "maxLength": 200}, "sentiment": {"enum": ["positive", "neutral", "negative"]}, "confidence": {"type": "number", "minimum": 0, "maximum": 1}, "date": {"type": "string", "format": "date"}, "entities": {"type": "array", "items": {"type": "object", "properties": {"text": {"type": "string", "maxLength": 60}, "kind": {"enum": ["person", "place", "organisation"]}}, "required": ["text", "kind"]}, "maxItems": 10}}, "required": ["summary", "sentiment", "confidence", "entities"]})",
     "{\"summary\": \"A fox cannot reach the grapes and says that they are sour.\", \"sentiment\": \"negative\", "
     "\"confidence\": 0.87, \"entities\": "
     "[{\"text\": \"the fox\", \"kind\": \"person\"}, {\"text\": \"the vineyard\", \"kind\": \"place\"}]}"},
    {"tree",
     R"({"$defs": {"node": {"type": "object", "properties": {"label": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["label", "children"], "additionalProperties": false}}, "$ref": "#/$defs/node"})",
     "{\"label\": \"root\", \"children\": [{\"label\": \"left\", \"children\": []}, {\"label\": \"right\", "
     "\"children\": [{\"label\": \"leaf\", \"children\": []}]}]}"},
};

// Qwen3's vocabulary, and a document's tokens in it.
struct Text {
  std::shared_ptr<const grammar::Vocabulary> vocabulary;
  std::vector<int32_t> tokens;
};

Text tokenized(const text::Tokenizer &tokenizer, const std::string &document) {
  static const auto vocabulary = std::make_shared<const grammar::Vocabulary>(tokenizer, kVocabulary);
  return {vocabulary, tokenizer.encode(document, text::SpecialTokens::kPlain).value()};
}

// A whole document, token by token, from the masks that are there already or from none. Counts by the token.
void write_document(benchmark::State &state, const Schema &schema, const text::Tokenizer &tokenizer, bool warm) {
  const Text text = tokenized(tokenizer, schema.document);
  const auto automaton = grammar::Grammar::from_json_schema(schema.json).value().automaton();
  auto masks = std::make_shared<grammar::TokenMasks>(automaton, text.vocabulary);
  std::vector<uint32_t> mask(text.vocabulary->n_words());
  for (auto _ : state) {
    if (!warm) masks = std::make_shared<grammar::TokenMasks>(automaton, text.vocabulary);
    grammar::Matcher matcher(masks);
    for (const int32_t token : text.tokens) {
      matcher.mask(mask);
      benchmark::DoNotOptimize(mask.data());
      if (!matcher.accept(token)) state.SkipWithError("the document does not follow the schema");
    }
  }
  const auto n_tokens = static_cast<double>(state.iterations() * text.tokens.size());
  state.counters["time/token"] =
      benchmark::Counter(n_tokens, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.counters["states"] = static_cast<double>(automaton->n_states());
}

// The slowest of all masks of a document that were not there.
void slowest_first_mask(benchmark::State &state, const Schema &schema, const text::Tokenizer &tokenizer) {
  const Text text = tokenized(tokenizer, schema.document);
  const auto automaton = grammar::Grammar::from_json_schema(schema.json).value().automaton();
  std::vector<uint32_t> mask(text.vocabulary->n_words());
  double slowest = 0;
  for (auto _ : state) {
    grammar::Matcher matcher(std::make_shared<grammar::TokenMasks>(automaton, text.vocabulary));
    double slowest_here = 0;
    for (const int32_t token : text.tokens) {
      const auto start = std::chrono::steady_clock::now();
      matcher.mask(mask);
      slowest_here =
          std::max(slowest_here, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      matcher.accept(token);
    }
    slowest = slowest == 0 ? slowest_here : std::min(slowest, slowest_here);
  }
  state.counters["time/slowest"] = slowest;  // in the best of the runs: others at work must not count
}

void compile(benchmark::State &state, const Schema &schema) {
  for (auto _ : state) benchmark::DoNotOptimize(grammar::Grammar::from_json_schema(schema.json));
}

void make_vocabulary(benchmark::State &state, const text::Tokenizer &tokenizer) {
  for (auto _ : state) benchmark::DoNotOptimize(grammar::Vocabulary(tokenizer, kVocabulary));
}

// Half of the tokens, at random places.
void apply(benchmark::State &state) {
  std::vector<uint32_t> mask((kVocabulary + 31) / 32);
  uint64_t bits = 1;
  for (uint32_t &word : mask)
    word = static_cast<uint32_t>((bits = bits * 6364136223846793005u + 1442695040888963407u) >> 32);
  std::vector<float> logits(kVocabulary, 1.0f);
  for (auto _ : state) {
    host::apply_mask(mask, logits);
    benchmark::ClobberMemory();
  }
}

Result<std::shared_ptr<const text::Tokenizer>> read_qwen3(const std::string &path) {
  const auto file = gguf::File::open(path);
  if (!file) return tl::unexpected(file.error());
  auto data = text::read_tokenizer(*file);
  if (!data) return tl::unexpected(data.error());
  return text::Tokenizer::create(*std::move(data)).map([](text::Tokenizer &&tokenizer) {
    return std::make_shared<const text::Tokenizer>(std::move(tokenizer));
  });
}

void add_cases(const std::shared_ptr<const text::Tokenizer> &tokenizer) {
  const auto add = [](const std::string &name, auto run) {
    benchmark::RegisterBenchmark(name.c_str(), run)->Unit(benchmark::kMicrosecond);
  };
  for (const Schema &schema : kSchemas) {
    const std::string name = schema.name;
    add("warm/" + name, [=](benchmark::State &state) { write_document(state, schema, *tokenizer, true); });
    add("cold/" + name, [=](benchmark::State &state) { write_document(state, schema, *tokenizer, false); });
    add("slowest/" + name, [=](benchmark::State &state) { slowest_first_mask(state, schema, *tokenizer); });
    add("compile/" + name, [=](benchmark::State &state) { compile(state, schema); });
  }
  add("vocabulary", [=](benchmark::State &state) { make_vocabulary(state, *tokenizer); });
  add("apply_mask", [](benchmark::State &state) { apply(state); });
}

int run(int count, char **arguments) {
  if (count < 2) {
    write_to_stderr(
        "usage: bonsai-bench-grammar MODEL.gguf [--benchmark_filter=REGEX ...]\n"
        "The file's tokenizer is what counts: any Qwen3 model has it.\n");
    return 2;
  }
  const auto tokenizer = read_qwen3(arguments[1]);
  if (!tokenizer) {
    print_to_stderr("bonsai-bench-grammar: {}\n", tokenizer.error().message);
    return 1;
  }
  add_cases(*tokenizer);
  --count, ++arguments;
  benchmark::Initialize(&count, arguments);
  if (benchmark::ReportUnrecognizedArguments(count, arguments)) return 2;
  const size_t matched = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return matched == 0;
}

}  // namespace
}  // namespace bonsai::grammar_bench

int main(int argc, char **argv) { return bonsai::grammar_bench::run(argc, argv); }
