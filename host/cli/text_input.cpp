#include "host/cli/text_input.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <system_error>
#include <vector>

#include "core/base/standard_streams.h"

namespace bonsai::cli {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

std::string read_all(std::FILE *file, const std::string &name) {
  std::string text;
  char piece[65536];
  for (;;) {
    const size_t n = std::fread(piece, 1, sizeof piece, file);
    text.append(piece, n);
    if (n == sizeof piece) continue;
    if (std::feof(file)) return text;
    if (errno != EAGAIN) cannot_read(name);
    wait_until_ready(::fileno(file), POLLIN);
    std::clearerr(file);
  }
}

// The options that ask for stdin, as a person types them.
std::vector<std::string> stdin_options(const Arguments &arguments) {
  struct Name {
    const char *option, *typed;
  };
  constexpr Name kNames[] = {{"prompt", "-p"},         {"file", "-f"},
                             {"grammar", "--grammar"}, {"json-schema", "--json-schema"},
                             {"tools", "--tools"},     {"chat-template-file", "--chat-template-file"}};
  std::vector<std::string> typed;
  for (const Name &name : kNames)
    if (arguments.text(name.option) == "-") typed.emplace_back(name.typed);
  return typed;
}

// Who has left a pipe open without a thought of it would wonder.
void tell_if_waiting() {
  constexpr int kPatienceMs = 1000;
  pollfd waiting{STDIN_FILENO, POLLIN, 0};
  if (::poll(&waiting, 1, kPatienceMs) == 0)
    print_to_stderr("waiting for a text on stdin: -p TEXT gives one, </dev/null says that there is none\n");
}

}  // namespace

void cannot_read(const std::string &name) {
  throw Failure(fmt::format("{}: cannot read: {}", name, std::generic_category().message(errno)));
}

std::string read_file(const std::string &path) {
  if (path == "-") return read_all(stdin, "stdin");
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) cannot_read(path);
  return read_all(file.get(), path);
}

void add_text_options(Options &options) {
  options.value("prompt,p", "TEXT", "the text; -: from stdin");
  options.value("file,f", "FILE", "the text, from a file; -: from stdin");
}

std::optional<std::string> read_text(const Arguments &arguments) {
  const auto prompt = arguments.text("prompt"), file = arguments.text("file");
  if (prompt && file) throw UsageError("-p and -f both give the text: choose one");
  if (file) return read_file(*file);
  if (prompt == "-") return read_file("-");
  return prompt;
}

void drop_line_end(std::string &text) {
  if (!text.ends_with('\n')) return;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

std::optional<std::string> read_unasked_stdin(const Arguments &arguments) {
  struct stat status;
  if (!stdin_options(arguments).empty() || ::fstat(STDIN_FILENO, &status) != 0 || S_ISCHR(status.st_mode))
    return std::nullopt;
  tell_if_waiting();
  std::string text = read_file("-");
  if (text.empty()) return std::nullopt;
  return text;
}

void check_stdin(const Arguments &arguments, StdinUse use) {
  std::vector<std::string> users = stdin_options(arguments);
  if (use == StdinUse::kMessages && !::isatty(STDIN_FILENO)) users.emplace_back("the messages");
  if (users.size() > 1) throw UsageError(fmt::format("stdin is asked for twice: by {} and {}", users[0], users[1]));
}

bool text_is_from_file(const Arguments &arguments) {
  return arguments.text("file").has_value() || arguments.text("prompt") == "-";
}

}  // namespace bonsai::cli
