#include "host/cli/session_options.h"

namespace bonsai::cli {

void add_session_options(Options &options) {
  options.value("load-session", "FILE", "go on with a saved session: the text, if any, comes behind what it holds");
  options.value("save-session", "FILE", "save the session in the end: its tokens, and their keys and values");
}

bool loads_session(const Arguments &arguments) { return arguments.text("load-session").has_value(); }

void load_session(const Arguments &arguments, Session &session) {
  if (const auto path = arguments.text("load-session")) session.load(*path);
}

void save_session(const Arguments &arguments, const Session &session) {
  if (const auto path = arguments.text("save-session")) session.save(*path);
}

}  // namespace bonsai::cli
