// --save-session and --load-session: a text or a conversation that goes on another time.
#pragma once

#include <bonsai/engine.h>

#include <functional>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares them, with what a command's help says of each.
void add_session_options(Options &options, const char *load_help, const char *save_help);

// Whether a session is loaded, so that there need not be a prompt.
bool loads_session(const Arguments &arguments);

// Throws Failure where --save-session names what cannot be written: better than after a long text.
void check_session_file(const Arguments &arguments);

// Does what was asked for; nothing was: nothing. Throw EngineError.
void load_session(const Arguments &arguments, Session &session);
void save_session(const Arguments &arguments, const Session &session);

// Where the command ends with another error anyway: that `save` fails, too, is said beside it.
void save_or_complain(const std::function<void()> &save);

}  // namespace bonsai::cli
