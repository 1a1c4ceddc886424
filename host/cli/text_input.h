// Text from the command line, a file or standard input.
#pragma once

#include <optional>
#include <string>

#include "host/cli/arguments.h"

namespace bonsai::cli {

// Declares -p TEXT and -f FILE.
void add_text_options(Options &options);

// What -p or -f names, byte for byte; "-" is standard input with both. nullopt: neither was given. Throws UsageError if
// both were, Failure if the file cannot be read.
std::optional<std::string> read_text(const Arguments &arguments);

// A file's bytes; "-" is standard input. Throws Failure if it cannot be read.
std::string read_file(const std::string &path);

// Whether the text comes from a file or a pipe, whose last line ends with a newline that nobody typed on purpose.
bool text_is_from_file(const Arguments &arguments);

}  // namespace bonsai::cli
