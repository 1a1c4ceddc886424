// bonsai-quantize: a model file's matrices in another format.
#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options/value_semantic.hpp>

#include "tools/common/formats.h"
#include "tools/common/program.h"
#include "tools/common/threads.h"
#include "tools/quantize/quantize.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

po::options_description describe_options() {
  po::options_description options;
  auto add = options.add_options();
  add("type", po::value<std::string>()->required(), ("format of every matrix: " + tools::format_names()).c_str());
  add("keep", po::value<std::vector<std::string>>()->default_value({}, ""),
      "PATTERN=TYPE: another format for the matrices whose names match, * and ? allowed; may be given more than once, "
      "and the last that matches wins");
  add("requantize", "let tensors that are quantised already lose more");
  add("table", "print what each tensor lost");
  tools::add_threads_option(options);
  return options;
}

Result<quantize::KeepRule> read_rule(const std::string &text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return fail("--keep: expected PATTERN=TYPE, found '{}'", text);
  const auto format = tools::read_format("--keep", text.substr(equals + 1));
  if (!format) return tl::unexpected(format.error());
  return quantize::KeepRule{text.substr(0, equals), *format};
}

Result<quantize::Request> read_request(const po::variables_map &given) {
  quantize::Request request;
  request.input = given["input"].as<std::string>();
  request.output = given["output"].as<std::string>();
  request.requantize = given.count("requantize") > 0;
  const auto format = tools::read_format("--type", given["type"].as<std::string>());
  if (!format) return tl::unexpected(format.error());
  request.format = *format;
  for (const std::string &text : given["keep"].as<std::vector<std::string>>()) {
    const auto rule = read_rule(text);
    if (!rule) return tl::unexpected(rule.error());
    request.keep.push_back(*rule);
  }
  return request;
}

std::string to_table(const std::vector<quantize::TensorError> &tensors) {
  size_t width = 6;
  for (const quantize::TensorError &tensor : tensors) width = std::max(width, tensor.name.size());
  std::string table = fmt::format("{:<{}}  {:<10}  {:<10}  {:>12}  {:>12}\n", "tensor", width, "from", "to",
                                  "relative rms", "max error");
  for (const quantize::TensorError &tensor : tensors) {
    table += fmt::format("{:<{}}  {:<10}  {:<10}  {:>12.4e}  {:>12.4e}\n", tensor.name, width, tensor.from->name,
                         tensor.to->name, tensor.relative_rms, tensor.max_absolute);
  }
  return table;
}

Result<quantize::Report> quantize_with_progress(const quantize::Request &request) {
  return tools::with_progress(request.output, [&](auto go_on) { return quantize::quantize(request, go_on); });
}

int print_report(const tools::Program &program, const quantize::Report &report, bool table) {
  for (const std::string &notice : report.notices) tools::notice(program, notice);
  if (table) tools::print(to_table(report.tensors));
  return 0;
}

int run(const tools::Program &program, const po::variables_map &given) {
  const auto request = read_request(given);
  if (!request) return tools::report(program, request.error(), tools::kUsage);
  const auto threads = tools::read_threads(given);
  if (!threads) return tools::report(program, threads.error(), tools::kUsage);
  const auto report = tools::on_threads(*threads, [&] { return quantize_with_progress(*request); });
  if (!report) return tools::report(program, report.error(), tools::kFailure);
  return print_report(program, *report, given.count("table") > 0);
}

}  // namespace

int main(int argc, char **argv) {
  tools::Program program;
  program.name = "bonsai-quantize";
  program.usage =
      "IN.gguf OUT.gguf --type TYPE [--keep PATTERN=TYPE]... [options]\n"
      "Writes a model file again with its matrices in another format; vectors (norms) are kept in F32.\n";
  program.describe = describe_options;
  program.files = {"input", "output"};
  program.files_expected = "expected the file to read and the file to write";
  program.run = run;
  return tools::run_program(program, argc, argv);
}
