#include "host/cli/grammar_options.h"

#include <fmt/format.h>

#include "core/grammar/grammar.h"
#include "host/cli/command.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {

void add_grammar_options(Options &options) {
  options.value("grammar", "FILE", "the text follows this grammar (GBNF); -: from stdin");
  options.value("json-schema", "FILE", "the text is JSON that satisfies this schema: a file, or the schema itself");
}

void read_grammar_options(const Arguments &arguments, GenerateOptions &options) {
  const auto grammar = arguments.text("grammar"), schema = arguments.text("json-schema");
  if (grammar && schema) throw UsageError("--grammar and --json-schema both restrict the text: choose one");
  if (grammar) options.grammar = read_file(*grammar);
  // A schema given as such begins with a brace, or is true: no file is called so.
  if (schema) {
    const size_t begin = schema->find_first_not_of(" \t\r\n");
    const bool is_text = *schema == "true" || (begin != std::string::npos && (*schema)[begin] == '{');
    options.json_schema = is_text ? *schema : read_file(*schema);
  }
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
