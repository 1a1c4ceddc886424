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

// Takes the last line's end away, which nobody typed on purpose.
void drop_line_end(std::string &text);

// What comes through a pipe or from a file on stdin although no option asks for it. nullopt: nothing, or stdin is
// closed, a terminal or another device (/dev/null), or an option has read it. Throws Failure if it cannot be read.
std::optional<std::string> read_unasked_stdin(const Arguments &arguments);

// Throws UsageError where stdin is asked for twice: by two of -p, -f, --grammar, --json-schema and --tools, or by one
// of these and for a conversation's messages. At a terminal a person can type the one after the other.
enum class StdinUse { kOptions, kMessages };
void check_stdin(const Arguments &arguments, StdinUse use);

// Throws the Failure that tells why a file cannot be read, by errno.
[[noreturn]] void cannot_read(const std::string &name);

// A file's bytes; "-" is standard input. Throws Failure if it cannot be read.
std::string read_file(const std::string &path);

// Whether the text comes from a file or a pipe, whose last line ends with a newline that nobody typed on purpose.
bool text_is_from_file(const Arguments &arguments);

}  // namespace bonsai::cli
