// `bonsai tokenize`: shows the tokens of a text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/utf8.h"
#include "core/gguf/file.h"
#include "core/text/tokenizer.h"
#include "host/cli/command.h"
#include "host/cli/file_tokenizer.h"
#include "host/cli/model_options.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

std::vector<std::string> pieces(const text::Tokenizer &tokenizer, const std::vector<int32_t> &tokens) {
  std::vector<std::string> pieces;
  for (const int32_t &token : tokens) pieces.push_back(tokenizer.decode({&token, 1}, true));
  return pieces;
}

}  // namespace

int tokenize_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options("tokenize", "[-m FILE] [-p TEXT | -f FILE] [OPTIONS]",
                  "Shows the tokens of a text, one per line: id and text. Nothing is added in front.\n"
                  "JSON: {\"tokens\": [ids], \"pieces\": [texts]}.");
  add_model_option(options);
  add_text_options(options);
  options.flag("ids", "the ids alone, in one line: [1, 2, 3]");
  options.flag("no-special", "special tokens that are spelled out in the text are plain text");
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  const auto text = read_text(*arguments);
  if (!text) throw UsageError("no text: expected -p TEXT, -f FILE or '-p -' for stdin");
  if (arguments->flag("ids") && arguments->flag("json")) throw UsageError("expected --ids or --json, found both");

  const text::Tokenizer tokenizer = load_tokenizer(model_path(*arguments, terminal));
  const auto special = arguments->flag("no-special") ? text::SpecialTokens::kPlain : text::SpecialTokens::kParse;
  const Result<std::vector<int32_t>> tokens = tokenizer.encode(*text, special);
  if (!tokens) throw Failure(tokens.error().message);
  if (arguments->flag("ids")) {
    terminal.out.write(fmt::format("[{}]\n", fmt::join(*tokens, ", ")));
  } else if (arguments->flag("json")) {
    terminal.out.write_json({{"tokens", *tokens}, {"pieces", pieces(tokenizer, *tokens)}});
  } else {
    std::string lines;
    for (const int32_t &token : *tokens)
      lines += fmt::format("{:>7}  {}\n", token, bonsai::quoted(tokenizer.decode({&token, 1}, true)));
    terminal.out.write(lines);
  }
  return kSuccess;
}

}  // namespace bonsai::cli
