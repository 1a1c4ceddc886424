// --pooling, which `embed` and `serve` have.
#pragma once

#include <bonsai/embedding.h>

#include "host/cli/arguments.h"

namespace bonsai::cli {

void add_pooling_option(Options &options);
// Throws UsageError.
Pooling pooling_option(const Arguments &arguments);

}  // namespace bonsai::cli
