// Runs the built tools, as a user's shell does.
#pragma once

#include <string>
#include <vector>

#include "tests/tools/tiny_checkpoint.h"

namespace bonsai::test {

struct Outcome {
  int exit_code;
  std::string out, err;
};

// A path as a command line takes it, whatever blanks it has.
std::string in_quotes(const std::string &path);

// A command line, or a few lines of sh; the build's programs come first in its PATH.
Outcome run_shell(const std::string &script);

// Names of the files in a directory, sorted.
std::vector<std::string> files_in(const TemporaryDirectory &directory);

// Starts `command`, which must take long, sends it `signal` ("TERM") when `directory` holds a temporary file of a GGUF
// writer, and waits for its end.
Outcome run_and_signal(const std::string &command, const std::string &signal, const TemporaryDirectory &directory);

}  // namespace bonsai::test
