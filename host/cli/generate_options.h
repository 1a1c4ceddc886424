// How text is generated: the options that `run` and `chat` share.
#pragma once

#include <bonsai/engine.h>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares -n, the sampling options, --stop and --ignore-eos.
void add_generate_options(Options &options);

// Everything that add_generate_options() declared. Throws UsageError.
GenerateOptions generate_options(const Arguments &arguments);

}  // namespace bonsai::cli
