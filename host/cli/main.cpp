// The `bonsai` program: finds the command and turns errors into one line and an exit code.
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <array>
#include <exception>
#include <memory>

#include "core/base/standard_streams.h"
#include "core/base/utf8.h"
#include "host/cli/command.h"

namespace bonsai::cli {
namespace {

struct Command {
  std::string_view name, summary;
  CommandFunction function;
};

constexpr std::array kCommands = {
    Command{"run", "continue a text", run_command},
    Command{"chat", "talk with a model", chat_command},
    Command{"serve", "answer programs and browsers over HTTP, as OpenAI's API does", serve_command},
    Command{"bench", "measure how fast a model runs, and the share of the memory's speed", bench_command},
    Command{"info", "show what a model file holds", info_command},
    Command{"backends", "show the backends and devices, or why one cannot be used", backends_command},
    Command{"embed", "turn texts into vectors that tell how alike they are", embed_command},
    Command{"tokenize", "show the tokens of a text", tokenize_command},
    Command{"perplexity", "measure how well a model predicts a text", perplexity_command},
    Command{"logits", "show what a model expects after some tokens", logits_command},
    Command{"validate", "check a model file and every weight in it", validate_command},
};

std::string program_help() {
  std::string text =
      "Usage: bonsai COMMAND [OPTIONS]\n\nRuns low-bit language models on backends that are loaded at run time.\n\n"
      "Commands:\n";
  for (const Command &command : kCommands) text += fmt::format("  {:<12} {}\n", command.name, command.summary);
  return text + "\n'bonsai COMMAND --help' shows a command's options; 'bonsai --version' the version.\n";
}

const Command *find_command(std::string_view name) {
  for (const Command &command : kCommands)
    if (command.name == name) return &command;
  return nullptr;
}

// One line, whatever names of files and options have come into the message on its way here.
int complain(std::string_view who, std::string_view message, ExitCode code) {
  print_to_stderr("{}: {}\n", who, bonsai::printable(message));
  return code;
}

int run_named(const Command &command, const std::vector<std::string> &arguments, Terminal &terminal) {
  const std::string who = fmt::format("bonsai {}", command.name);
  try {
    return command.function(arguments, terminal);
  } catch (const UsageError &error) {
    return complain(who, fmt::format("{} (see '{} --help')", error.what(), who), kUsage);
  } catch (const OutputClosed &) {
    return kSuccess;
  } catch (const std::bad_alloc &) {
    terminal.out.end_line_at_terminal();
    return complain(who, "out of memory", kFailure);
  } catch (const std::exception &error) {
    terminal.out.end_line_at_terminal();
    return complain(who, error.what(), kFailure);
  }
}

int run_program(const std::vector<std::string> &arguments) {
  // Warnings and worse, unless a command's options say otherwise.
  spdlog::logger log("bonsai", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
  log.set_pattern("%^%l%$: %v");
  log.set_level(spdlog::level::warn);
  log.set_error_handler([](const std::string &) {});  // what cannot be shown is dropped, as write_to_stderr() does
  Output out;
  Terminal terminal{out, log};

  const std::string name = arguments.empty() ? "" : arguments.front();
  if (name.empty()) return complain("bonsai", "expected a command (see 'bonsai --help')", kUsage);
  if (name == "--help" || name == "-h" || name == "help") return out.write(program_help()), kSuccess;
  if (name == "--version") return out.write("bonsai " BONSAI_VERSION "\n"), kSuccess;
  const Command *command = find_command(name);
  if (command == nullptr)
    return complain("bonsai", fmt::format("unknown command {} (see 'bonsai --help')", bonsai::quoted(name)), kUsage);
  return run_named(*command, {arguments.begin() + 1, arguments.end()}, terminal);
}

}  // namespace
}  // namespace bonsai::cli

int main(int argc, char **argv) {
  bonsai::prepare_standard_streams();
  try {
    return bonsai::cli::run_program(std::vector<std::string>(argv + (argc > 0), argv + argc));
  } catch (const bonsai::cli::OutputClosed &) {
    return bonsai::cli::kSuccess;
  } catch (const std::exception &error) {
    bonsai::print_to_stderr("bonsai: {}\n", bonsai::printable(error.what()));
    return bonsai::cli::kFailure;
  }
}
