#include "host/cli/session_options.h"

#include <exception>
#include <string>

#include "core/base/standard_streams.h"
#include "core/base/utf8.h"
#include "host/cli/model_options.h"
#include "host/engine/session_file.h"

namespace bonsai::cli {

void add_session_options(Options &options, const char *load_help, const char *save_help) {
  options.value("load-session", "FILE", load_help);
  options.value("save-session", "FILE", save_help);
}

void check_session_file(const Arguments &arguments) {
  const auto path = arguments.text("save-session");
  if (!path) return;
  ModelFiles(arguments).check_spared(*path, "session");
  if (const auto checked = host::check_session_replaceable(*path); !checked) throw Failure(checked.error().message);
}

bool loads_session(const Arguments &arguments) { return arguments.text("load-session").has_value(); }

void load_session(const Arguments &arguments, Session &session) {
  if (const auto path = arguments.text("load-session")) session.load(*path);
}

void save_session(const Arguments &arguments, const Session &session) {
  if (const auto path = arguments.text("save-session")) session.save(*path);
}

void save_or_complain(const std::function<void()> &save) {
  try {
    save();
  } catch (const std::exception &error) {
    print_to_stderr("--save-session: {}\n", bonsai::printable(error.what()));
  }
}

}  // namespace bonsai::cli
