// --save-session and --load-session: a text that goes on another time.
#pragma once

#include <bonsai/engine.h>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares them.
void add_session_options(Options &options);

// Whether a session is loaded, so that there need not be a prompt.
bool loads_session(const Arguments &arguments);

// Does what was asked for; nothing was: nothing. Throw EngineError.
void load_session(const Arguments &arguments, Session &session);
void save_session(const Arguments &arguments, const Session &session);

}  // namespace bonsai::cli
