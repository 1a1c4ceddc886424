// A command's options: declared, parsed and read with checks.
#pragma once

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/variables_map.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/cli/command.h"

namespace bonsai::cli {

// Collects the options of one command.
class Options {
 public:
  // `usage` follows "bonsai NAME"; `text` says what the command does. --help, --json and the log options are there.
  Options(std::string name, std::string usage, std::string text);

  // `names`: "predict,n" for --predict and -n. `value` is what the help calls the argument.
  Options &value(const char *names, const char *value, const char *help);
  Options &values(const char *names, const char *value, const char *help);  // may be given several times
  Options &flag(const char *names, const char *help);
  // Arguments without a name go here: one, or any number where values() declared it. Not shown among the options.
  Options &positional(const char *name, int most);

  const std::string &name() const { return name_; }
  std::string help() const;

 private:
  friend class Arguments;

  std::string name_, usage_, text_;
  boost::program_options::options_description shown_, hidden_;
  std::string positional_;
  int most_positional_ = 0;
};

// A parsed command line. Readers throw UsageError, whose message names the option.
class Arguments {
 public:
  // Prints the help and returns nullopt if asked to; sets the log level. Throws UsageError.
  static std::optional<Arguments> parse(const Options &options, const std::vector<std::string> &arguments,
                                        Terminal &terminal);

  bool flag(const std::string &name) const;
  std::optional<std::string> text(const std::string &name) const;
  std::vector<std::string> texts(const std::string &name) const;
  std::optional<uint64_t> count(const std::string &name, uint64_t least,
                                uint64_t most = std::numeric_limits<uint32_t>::max()) const;
  // The same, or -1, which stands for `all`.
  std::optional<uint64_t> count_or_all(const std::string &name, uint64_t least, uint64_t all,
                                       uint64_t most = std::numeric_limits<uint32_t>::max()) const;
  std::optional<int64_t> integer(const std::string &name, int64_t least, int64_t most) const;
  // `expected` describes the range: "a number >= 0". NaN is in none.
  std::optional<float> number(const std::string &name, float least, float most, std::string_view expected) const;

 private:
  boost::program_options::variables_map values_;
};

// The number that `text` spells, all of it; nullopt otherwise.
template <class Number>
std::optional<Number> parse_number(std::string_view text);

}  // namespace bonsai::cli
