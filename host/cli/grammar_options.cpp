#include "host/cli/grammar_options.h"

#include <fmt/format.h>

#include <string_view>

#include "core/grammar/grammar.h"
#include "host/cli/command.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

// What no file is called: an object, a list, a text, or a word of JSON's. Of these, some are no schemas, which is said
// elsewhere.
bool is_json(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return false;
  const std::string_view value = text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
  return std::string_view("{[\"").find(value.front()) != std::string_view::npos || value == "true" ||
         value == "false" || value == "null";
}

}  // namespace

void add_grammar_options(Options &options) {
  options.value("grammar", "FILE", "the text follows this grammar (GBNF); -: from stdin");
  options.value("json-schema", "FILE", "the text is JSON that satisfies this schema: a file, or the schema itself");
}

void read_grammar_options(const Arguments &arguments, GenerateOptions &options) {
  const auto grammar = arguments.text("grammar"), schema = arguments.text("json-schema");
  if (grammar && schema) throw UsageError("--grammar and --json-schema both restrict the text: choose one");
  if (grammar) options.grammar = read_file(*grammar);
  if (schema) options.json_schema = is_json(*schema) ? *schema : read_file(*schema);
  if ((grammar && options.grammar.empty()) || (schema && options.json_schema.empty()))
    throw Failure(fmt::format("{}: expected a {}, found an empty file", grammar ? *grammar : *schema,
                              grammar ? "grammar" : "JSON schema"));
}

void check_grammar(const GenerateOptions &options) {
  if (options.grammar.empty() && options.json_schema.empty()) return;
  const auto made = options.grammar.empty() ? grammar::Grammar::from_json_schema(options.json_schema)
                                            : grammar::Grammar::from_gbnf(options.grammar);
  if (!made) throw Failure(made.error().message);
}

std::string grammar_summary(const GenerationStats &stats) {
  if (stats.constrained_tokens == 0) return "";
  const double per_token = stats.constraint_seconds / stats.constrained_tokens;
  const double per_step = stats.decode_steps == 0 ? 0 : stats.decode_seconds / stats.decode_steps;
  return fmt::format("grammar  read in {:.1f} ms, {:.0f} us a token{}\n", stats.compile_seconds * 1e3, per_token * 1e6,
                     per_step == 0 ? "" : fmt::format(", {:.1f} % of a decode step", 100 * per_token / per_step));
}

}  // namespace bonsai::cli
