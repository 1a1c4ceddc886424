// How text is generated: the options that `run`, `chat` and `serve` share.
#pragma once

#include <bonsai/engine.h>

#include <string>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares --preset alone, which `bench` has too.
void add_preset_option(Options &options, const std::string &default_is = "balanced");

// What it names, the default if it is not there. Throws UsageError.
SamplingOptions preset_option(const Arguments &arguments);

// Declares -n, the sampling options, --stop and --ignore-eos. `without_n` is what the help says of its default.
void add_plain_generate_options(Options &options, const std::string &without_n);
// And grammars, and speculation, which read_speculation_options() reads once the model is there.
void add_generate_options(Options &options, const std::string &without_n = "256");

// Everything that was declared, but for speculation. Throw UsageError.
GenerateOptions plain_generate_options(const Arguments &arguments);
GenerateOptions generate_options(const Arguments &arguments);

// Where no --preset is given, what the model's file says of sampling takes the place of the default one.
void follow_model(const Arguments &arguments, const Engine &engine, GenerateOptions &options);

}  // namespace bonsai::cli
