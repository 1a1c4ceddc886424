// --lookup and --draft: guesses at the next tokens, verified several at a time.
#pragma once

#include <bonsai/engine.h>

#include <string>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares them.
void add_speculation_options(Options &options);

// Reads them into `options`. The draft model is loaded as the model was, with its `engine` options. Throws EngineError
// where it cannot be.
void read_speculation_options(const Arguments &arguments, EngineOptions engine, GenerateOptions &options);

// How many guesses were right and what they gained, "30 of 45 guesses right (66.7 %), ..."; empty where none were asked
// for.
std::string speculation_summary(const GenerationStats &stats, const GenerateOptions &options);

}  // namespace bonsai::cli
