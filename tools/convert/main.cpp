// bonsai-convert: a Hugging Face Qwen3 checkpoint becomes a GGUF file.
#include <fmt/format.h>

#include <boost/program_options/value_semantic.hpp>

#include "tools/common/formats.h"
#include "tools/common/program.h"
#include "tools/common/threads.h"
#include "tools/convert/convert.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

po::options_description describe_options() {
  po::options_description options;
  auto add = options.add_options();
  add("type", po::value<std::string>()->required(), ("format of every matrix: " + tools::format_names()).c_str());
  add("name", po::value<std::string>()->default_value(""),
      "the model's name in the file (default: the directory's, or the repository's in Hugging Face's cache)");
  tools::add_threads_option(options);
  return options;
}

int run(const tools::Program &program, const po::variables_map &given) {
  const auto type = tools::read_format("--type", given["type"].as<std::string>());
  if (!type) return tools::report(program, type.error(), tools::kUsage);
  const auto threads = tools::read_threads(given);
  if (!threads) return tools::report(program, threads.error(), tools::kUsage);
  const convert::Request request{given["directory"].as<std::string>(), given["output"].as<std::string>(),
                                 given["name"].as<std::string>(), *type};
  const auto notices = tools::on_threads(*threads, [&] {
    return tools::with_progress(request.output, [&](auto go_on) { return convert::convert(request, go_on); });
  });
  if (!notices) return tools::report(program, notices.error(), tools::kFailure);
  for (const std::string &notice : *notices) tools::notice(program, notice);
  return 0;
}

}  // namespace

int main(int argc, char **argv) {
  tools::Program program;
  program.name = "bonsai-convert";
  program.usage =
      "DIR OUT.gguf --type TYPE [options]\n"
      "Turns a Hugging Face Qwen3 checkpoint (config.json, tokenizer.json, safetensors) into a GGUF file.\n";
  program.describe = describe_options;
  program.files = {"directory", "output"};
  program.files_expected = "expected the checkpoint's directory and the file to write";
  program.run = run;
  return tools::run_program(program, argc, argv);
}
