// bonsai-quantize: a model file's matrices in another format.
#include <fmt/format.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>

#include "tools/common/formats.h"
#include "tools/common/progress.h"
#include "tools/quantize/quantize.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

constexpr int kFailure = 1, kUsage = 2;
constexpr int kMostThreads = 1024;

po::options_description describe_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("help,h", "this text");
  add("type", po::value<std::string>()->required(), ("format of every matrix: " + tools::format_names()).c_str());
  add("keep", po::value<std::vector<std::string>>()->default_value({}, ""),
      "PATTERN=TYPE: another format for the matrices whose names match, * and ? allowed; may be given more than once, "
      "and the last that matches wins");
  add("requantize", "let tensors that are quantised already lose more");
  add("table", "print what each tensor lost");
  add("threads,t", po::value<int>(), "threads (default: one for each core); the output does not depend on them");
  return options;
}

po::variables_map parse(int argc, char **argv, const po::options_description &visible) {
  po::options_description all;
  all.add(visible);
  all.add_options()("input", po::value<std::string>())("output", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("input", 1).add("output", 1);
  po::variables_map given;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), given);
  if (given.count("help")) return given;
  po::notify(given);
  if (!given.count("output")) throw po::error("expected the file to read and the file to write");
  return given;
}

Result<const quant::FormatTraits *> read_format(const std::string &option, const std::string &name) {
  const quant::FormatTraits *format = quant::find_format(name);
  if (!format) return fail("{}: expected one of {}; found '{}'", option, tools::format_names(), name);
  return format;
}

Result<quantize::KeepRule> read_rule(const std::string &text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return fail("--keep: expected PATTERN=TYPE, found '{}'", text);
  const auto format = read_format("--keep", text.substr(equals + 1));
  if (!format) return tl::unexpected(format.error());
  return quantize::KeepRule{text.substr(0, equals), *format};
}

Result<quantize::Request> read_request(const po::variables_map &given) {
  quantize::Request request;
  request.input = given["input"].as<std::string>();
  request.output = given["output"].as<std::string>();
  request.requantize = given.count("requantize") > 0;
  const auto format = read_format("--type", given["type"].as<std::string>());
  if (!format) return tl::unexpected(format.error());
  request.format = *format;
  for (const std::string &text : given["keep"].as<std::vector<std::string>>()) {
    const auto rule = read_rule(text);
    if (!rule) return tl::unexpected(rule.error());
    request.keep.push_back(*rule);
  }
  std::error_code ignored;  // the output need not exist
  if (std::filesystem::equivalent(request.input, request.output, ignored)) {
    return fail("{}: is the input, expected another file", request.output);
  }
  return request;
}

Result<std::optional<int>> read_threads(const po::variables_map &given) {
  if (!given.count("threads")) return std::nullopt;
  const int threads = given["threads"].as<int>();
  if (threads < 1 || threads > kMostThreads) {
    return fail("--threads: expected 1 to {}, found {}", kMostThreads, threads);
  }
  return threads;
}

void print_table(const std::vector<quantize::TensorError> &tensors) {
  size_t width = 6;
  for (const quantize::TensorError &tensor : tensors) width = std::max(width, tensor.name.size());
  fmt::print("{:<{}}  {:<10}  {:<10}  {:>12}  {:>12}\n", "tensor", width, "from", "to", "relative rms", "max error");
  for (const quantize::TensorError &tensor : tensors) {
    fmt::print("{:<{}}  {:<10}  {:<10}  {:>12.4e}  {:>12.4e}\n", tensor.name, width, tensor.from->name, tensor.to->name,
               tensor.relative_rms, tensor.max_absolute);
  }
}

Result<quantize::Report> quantize_with_progress(const quantize::Request &request) {
  constexpr uint64_t kParts = 1000;
  tools::ProgressBar bar(request.output, kParts);
  return quantize::quantize(request, [&](uint64_t done, uint64_t total) {
    bar.update(done * kParts / total);
    return !tools::interrupted();
  });
}

// More threads than cores are allowed, as everywhere.
Result<quantize::Report> quantize_on(std::optional<int> threads, const quantize::Request &request) {
  if (!threads) return quantize_with_progress(request);
  tbb::global_control limit(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(*threads));
  tbb::task_arena arena(*threads);
  return arena.execute([&] { return quantize_with_progress(request); });
}

int run(const quantize::Request &request, std::optional<int> threads, bool table) {
  tools::catch_interrupts();
  const auto report = quantize_on(threads, request);
  if (!report) {
    std::cerr << "bonsai-quantize: " << report.error().message << '\n';
    return tools::interrupted() ? tools::interrupted_exit_code() : kFailure;
  }
  for (const std::string &notice : report->notices) std::cerr << "bonsai-quantize: " << notice << '\n';
  if (table) print_table(report->tensors);
  if (std::fflush(stdout) != 0) {
    std::cerr << "bonsai-quantize: cannot print the table: " << std::strerror(errno) << '\n';
    return kFailure;
  }
  return 0;
}

int parse_and_run(int argc, char **argv) {
  const po::options_description options = describe_options();
  const po::variables_map given = parse(argc, argv, options);
  if (given.count("help")) {
    std::cout << "Usage: bonsai-quantize IN.gguf OUT.gguf --type TYPE [--keep PATTERN=TYPE]... [options]\n"
                 "Writes a model file again with its matrices in another format; vectors (norms) are kept in F32.\n\n"
              << options;
    return 0;
  }
  const auto request = read_request(given);
  const auto threads = read_threads(given);
  if (request && threads) return run(*request, *threads, given.count("table") > 0);
  std::cerr << "bonsai-quantize: " << (request ? threads.error() : request.error()).message << '\n';
  return kUsage;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const po::error &error) {
    std::cerr << "bonsai-quantize: " << error.what() << "; see bonsai-quantize --help\n";
    return kUsage;
  } catch (const std::exception &error) {  // out of memory, above all
    std::cerr << "bonsai-quantize: " << error.what() << '\n';
    return kFailure;
  }
}
