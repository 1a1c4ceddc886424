// `bonsai chat`: a conversation with a model.
#include <fmt/format.h>

#include <limits>

#include "host/cli/chat_session.h"
#include "host/cli/command.h"
#include "host/cli/generate_options.h"
#include "host/cli/grammar_options.h"
#include "host/cli/interrupt.h"
#include "host/cli/model_options.h"
#include "host/cli/session_options.h"
#include "host/cli/speculation_options.h"
#include "host/cli/text_input.h"

namespace bonsai::cli {
namespace {

// A session has a conversation with all of these.
void check_loading(const Arguments &arguments) {
  if (!loads_session(arguments)) return;
  const auto refuse = [](const char *option, const char *command) {
    throw UsageError(
        fmt::format("--{} and --load-session exclude each other: {} changes what was loaded", option, command));
  };
  if (arguments.text("system")) refuse("system", "/system");
  if (arguments.text("tools"))
    throw UsageError("--tools and --load-session exclude each other: the session has its own");
  for (const char *option : {"think", "no-think"})
    if (arguments.flag(option)) refuse(option, "/think");
}

}  // namespace

int chat_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  Options options(
      "chat", "[-m FILE] [OPTIONS]",
      "A conversation with a model, in the words of its chat template. Answers go to stdout as they come,\n"
      "everything else to stderr; messages come from the terminal, or line by line from a pipe. /help shows\n"
      "the commands, such as /save and /reset. Ctrl-C stops an answer, and throws away a message of several\n"
      "lines that is not finished; Ctrl-D leaves. Without -n an answer goes on to its end. Over a pipe the exit\n"
      "code is 1 if a message could not be answered, or a command did not work; the others are. JSON: one line for\n"
      "each answer.");
  add_engine_options(options);
  add_chat_options(options);
  add_session_options(options, "go on with a saved conversation, and compute none of it again",
                      "save the conversation in the end, with its keys and values");
  add_generate_options(options, "until the answer ends");
  const auto arguments = Arguments::parse(options, command_line, terminal);
  if (!arguments) return kSuccess;
  check_stdin(*arguments, StdinUse::kMessages);
  GenerateOptions generate = generate_options(*arguments);
  check_grammar(generate);
  if (!arguments->text("predict")) generate.max_tokens = std::numeric_limits<uint32_t>::max();
  const ChatOptions chat = chat_options(*arguments);  // before the model is loaded, and once: a file may be a pipe
  check_loading(*arguments);
  check_session_file(*arguments);
  InterruptGuard interrupt;
  const EngineOptions engine_choice = engine_options(*arguments, terminal);
  const Engine engine = load_engine(engine_choice);
  follow_model(*arguments, engine, generate);
  read_speculation_options(*arguments, engine_choice, generate);
  return ChatSession(engine, *arguments, chat, std::move(generate), terminal, interrupt).run();
}

}  // namespace bonsai::cli
