#include "host/cli/session_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace bonsai::cli {

void add_session_options(Options &options, const char *load_help, const char *save_help) {
  options.value("load-session", "FILE", load_help);
  options.value("save-session", "FILE", save_help);
}

// A file of that name need not be writable: another one takes its place.
void check_session_folder(const Arguments &arguments) {
  const auto path = arguments.text("save-session");
  if (!path) return;
  const std::filesystem::path folder = std::filesystem::path(*path).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
    throw Failure(fmt::format("{}: cannot be written: {}", *path, std::generic_category().message(errno)));
}

bool loads_session(const Arguments &arguments) { return arguments.text("load-session").has_value(); }

void load_session(const Arguments &arguments, Session &session) {
  if (const auto path = arguments.text("load-session")) session.load(*path);
}

void save_session(const Arguments &arguments, const Session &session) {
  if (const auto path = arguments.text("save-session")) session.save(*path);
}

}  // namespace bonsai::cli
