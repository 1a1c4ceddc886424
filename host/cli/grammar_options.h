// --grammar and --json-schema: what a text has to follow.
#pragma once

#include <bonsai/engine.h>

#include <string>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares them.
void add_grammar_options(Options &options);

// Reads what they name into `options`. Throws UsageError if both were given, Failure if a file cannot be read.
void read_grammar_options(const Arguments &arguments, GenerateOptions &options);

// Throws Failure with what is wrong with the grammar or the schema; generating a text would find the same, once the
// model is loaded and there is a message to answer.
void check_grammar(const GenerateOptions &options);

// A summary's line about what the grammar cost, with its newline; empty where there was none.
std::string grammar_summary(const GenerationStats &stats);

}  // namespace bonsai::cli
