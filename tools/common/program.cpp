#include "tools/common/program.h"

#include <boost/program_options/cmdline.hpp>
#include <boost/program_options/errors.hpp>
#include <boost/program_options/parsers.hpp>
#include <boost/program_options/positional_options.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <sstream>
#include <stdexcept>

#include "core/base/standard_streams.h"
#include "core/base/utf8.h"
#include "tools/common/formats.h"

namespace bonsai::tools {
namespace {

namespace po = boost::program_options;

po::options_description visible_options(const Program &program) {
  const po::options_description own = program.describe();
  po::options_description options("Options");
  options.add_options()("help,h", "this text")("version", "the version");
  for (const auto &option : own.options()) options.add(option);
  return options;
}

po::variables_map parse(const Program &program, const po::options_description &visible, int argc, char **argv) {
  po::options_description all;
  all.add(visible);
  po::positional_options_description positional;
  for (const char *file : program.files) {
    all.add_options()(file, po::value<std::string>());
    positional.add(file, 1);
  }
  po::variables_map given;
  constexpr int kStyle = po::command_line_style::default_style & ~po::command_line_style::allow_guessing;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positional).style(kStyle).run(), given);
  if (given.count("help") || given.count("version")) return given;
  po::notify(given);
  const bool needs_files = !given.count(program.without_files);
  if (needs_files && !given.count(program.files.back())) throw po::error(program.files_expected);
  return given;
}

int parse_and_run(const Program &program, int argc, char **argv) {
  const po::options_description options = visible_options(program);
  const po::variables_map given = parse(program, options, argc, argv);
  std::ostringstream text;
  if (given.count("help")) {
    text << "Usage: " << program.name << ' ' << program.usage << '\n' << options;
  } else if (given.count("version")) {
    text << program.name << " " BONSAI_VERSION "\n";
  } else {
    return program.run(program, given);
  }
  print(text.str());
  return 0;
}

}  // namespace

int run_program(const Program &program, int argc, char **argv) {
  prepare_standard_streams();
  catch_interrupts();
  try {
    return parse_and_run(program, argc, argv);
  } catch (const po::error &error) {
    print_to_stderr("{}: {}; see {} --help\n", program.name, printable(error.what()), program.name);
    return kUsage;
  } catch (const std::exception &error) {  // out of memory, above all
    notice(program, error.what());
    return kFailure;
  }
}

void print(std::string_view text) {
  const bool is_printed = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!is_printed && errno != EPIPE) throw std::runtime_error(fmt::format("cannot print: {}", std::strerror(errno)));
}

void notice(const Program &program, const std::string &text) {
  print_to_stderr("{}: {}\n", program.name, printable(text));
}

int report(const Program &program, const Error &error, int exit_code) {
  notice(program, error.message);
  return interrupted() ? interrupted_exit_code() : exit_code;
}

Result<const quant::FormatTraits *> read_format(const std::string &option, const std::string &name) {
  const quant::FormatTraits *format = quant::find_format(name);
  if (!format) return fail("{}: expected one of {}; found '{}'", option, format_names(), name);
  return format;
}

}  // namespace bonsai::tools
