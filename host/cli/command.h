// What the commands of the `bonsai` program have in common.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "host/cli/output.h"

namespace spdlog {
class logger;
}

namespace bonsai::cli {

enum ExitCode { kSuccess = 0, kFailure = 1, kUsage = 2 };

// A command line that makes no sense; the message is one line. Ends the program with kUsage.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Something that could not be done; the message is one line. Ends the program with kFailure.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a command works with: results go to `out`, everything else to `log` or stderr.
struct Terminal {
  Output &out;
  spdlog::logger &log;
};

// A command gets what follows its name and returns the exit code; errors are thrown.
using CommandFunction = int (*)(const std::vector<std::string> &arguments, Terminal &terminal);

int backends_command(const std::vector<std::string> &arguments, Terminal &terminal);
int bench_command(const std::vector<std::string> &arguments, Terminal &terminal);
int chat_command(const std::vector<std::string> &arguments, Terminal &terminal);
int embed_command(const std::vector<std::string> &arguments, Terminal &terminal);
int info_command(const std::vector<std::string> &arguments, Terminal &terminal);
int logits_command(const std::vector<std::string> &arguments, Terminal &terminal);
int perplexity_command(const std::vector<std::string> &arguments, Terminal &terminal);
int run_command(const std::vector<std::string> &arguments, Terminal &terminal);
int serve_command(const std::vector<std::string> &arguments, Terminal &terminal);
int tokenize_command(const std::vector<std::string> &arguments, Terminal &terminal);
int validate_command(const std::vector<std::string> &arguments, Terminal &terminal);

}  // namespace bonsai::cli
