// What the programs that write model files share: their command lines, and how they end.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/quant/format.h"
#include "tools/common/progress.h"

namespace bonsai::tools {

inline constexpr int kFailure = 1, kUsage = 2;  // exit codes

struct Program {
  std::string name;                 // as it is called
  std::string usage;                // what stands behind the name, and then a line on what it does
  std::vector<const char *> files;  // what `run` finds the arguments under that are no options; all are needed
  std::string files_expected;       // what is said when one of them is missing
  const char *without_files = "";   // the option, if there is one, with which none is needed
  boost::program_options::options_description (*describe)();  // the options but --help and --version
  int (*run)(const Program &program, const boost::program_options::variables_map &given);  // the exit code
};

// Reads the command line and runs. What cannot be read, and exceptions, become one line on stderr and kUsage or
// kFailure.
int run_program(const Program &program, int argc, char **argv);

// Prints to stdout, at once. Who reads no further has seen enough; throws std::runtime_error where it cannot be written
// for another reason.
void print(std::string_view text);

// Says something on stderr, in one line whatever names from files it holds.
void notice(const Program &program, const std::string &text);

// Says the error likewise and returns the code; that of an interruption if there was one.
int report(const Program &program, const Error &error, int exit_code);

// The format that an option names. Errors: the option, and the names that there are.
Result<const quant::FormatTraits *> read_format(const std::string &option, const std::string &name);

// Works on `file` with a bar on stderr until it is done or interrupted: work(go_on) calls go_on(done, total), in any
// unit, and stops when that is false.
template <class Work>
auto with_progress(const std::string &file, Work work) {
  constexpr uint64_t kParts = 1000;
  ProgressBar bar(file, kParts);
  return work([&](uint64_t done, uint64_t total) {
    bar.update(done * kParts / total);
    return !interrupted();
  });
}

}  // namespace bonsai::tools
