#include "host/cli/chat_options.h"

#include <unistd.h>

#include <fmt/format.h>

#include <utility>

#include "host/cli/model_options.h"
#include "host/cli/terminal_abilities.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {

void add_chat_options(Options &options) {
  options.value("system", "TEXT", "what the model is told before the conversation");
  options.value("tools", "FILE", "functions that the model may call: a JSON array, as the chat template expects it");
  add_template_option(options);
  options.flag("think", "ask the model to reason before it answers (the template's enable_thinking)");
  options.flag("no-think", "ask it not to");
  options.flag("hide-thinking",
               "do not show reasoning; it is shown on a terminal only, dim unless the environment has NO_COLOR");
}

ChatOptions chat_options(const Arguments &arguments) {
  ChatOptions options;
  options.system = arguments.text("system").value_or("");
  if (const auto file = arguments.text("tools")) {
    options.tools = read_file(*file);
    if (options.tools.empty()) throw Failure(fmt::format("{}: is empty, expected a JSON array of functions", *file));
  }
  if (arguments.flag("think") && arguments.flag("no-think"))
    throw UsageError("--think and --no-think exclude each other: choose one");
  if (arguments.flag("think")) options.enable_thinking = true;
  if (arguments.flag("no-think")) options.enable_thinking = false;
  return options;
}

AnswerPrinter::AnswerPrinter(const Arguments &arguments, Output &out)
    : out_(out),
      is_quiet_(arguments.flag("json")),
      shows_reasoning_(!arguments.flag("hide-thinking") && ::isatty(STDOUT_FILENO)),
      has_styles_(may_be_styled(STDOUT_FILENO)) {}

void AnswerPrinter::print(ChatPiece kind, std::string_view text) {
  const bool is_reasoning = kind == ChatPiece::kReasoning;
  if (is_quiet_ || (is_reasoning && !shows_reasoning_)) return;
  if (is_reasoning != is_reasoning_ && has_styles_) out_.write(is_reasoning ? "\x1b[2m" : "\x1b[0m");
  if (!is_reasoning && is_reasoning_) out_.write("\n\n");
  is_reasoning_ = is_reasoning;
  const bool has_own_line = kind == ChatPiece::kToolCall;
  if (has_own_line && !at_line_start_) out_.write("\n");
  out_.write(text);
  if (has_own_line) out_.write("\n");
  at_line_start_ = has_own_line || text.ends_with('\n');
}

void AnswerPrinter::finish() {
  if (std::exchange(is_reasoning_, false) && has_styles_) out_.write("\x1b[0m");
  if (!std::exchange(at_line_start_, true)) out_.write("\n");
}

}  // namespace bonsai::cli
