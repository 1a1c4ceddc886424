// What `chat` and `run --chat` have in common.
#pragma once

#include <bonsai/chat.h>

#include <string_view>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares --system, --tools, --chat-template-file, --think, --no-think and --hide-thinking.
void add_chat_options(Options &options);

// Throws UsageError, and Failure where the file of --tools cannot be read.
ChatOptions chat_options(const Arguments &arguments);

// Shows an answer as it comes: reasoning where stdout is a terminal and it is not hidden, dim if it can be; calls of
// tools in lines of their own.
class AnswerPrinter {
 public:
  AnswerPrinter(const Arguments &arguments, Output &out);

  void print(ChatPiece kind, std::string_view text);
  // Ends the last line, and reasoning.
  void finish();

 private:
  Output &out_;
  const bool is_quiet_;  // --json: nothing is shown before the end
  const bool shows_reasoning_, has_styles_;
  bool is_reasoning_ = false;
  bool at_line_start_ = true;
};

}  // namespace bonsai::cli
