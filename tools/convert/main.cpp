// bonsai-convert: a Hugging Face Qwen3 checkpoint becomes a GGUF file.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <exception>
#include <iostream>

#include "tools/common/formats.h"
#include "tools/common/progress.h"
#include "tools/convert/convert.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

constexpr int kFailure = 1, kUsage = 2;

po::options_description describe_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("help,h", "this text");
  add("type", po::value<std::string>()->required(), ("format of every matrix: " + tools::format_names()).c_str());
  add("name", po::value<std::string>()->default_value(""), "the model's name in the file (default: the directory's)");
  return options;
}

po::variables_map parse(int argc, char **argv, const po::options_description &visible) {
  po::options_description all;
  all.add(visible);
  all.add_options()("directory", po::value<std::string>())("output", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("directory", 1).add("output", 1);
  po::variables_map given;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), given);
  if (given.count("help")) return given;
  po::notify(given);
  if (!given.count("output")) throw po::error("expected the checkpoint's directory and the file to write");
  return given;
}

int run(const convert::Request &request) {
  tools::catch_interrupts();
  Result<convert::Notices> notices;
  {
    constexpr uint64_t kParts = 1000;
    tools::ProgressBar bar(request.output, kParts);
    notices = convert::convert(request, [&](uint64_t done, uint64_t total) {
      bar.update(done * kParts / total);
      return !tools::interrupted();
    });
  }
  if (!notices) {
    std::cerr << "bonsai-convert: " << notices.error().message << '\n';
    return tools::interrupted() ? tools::interrupted_exit_code() : kFailure;
  }
  for (const std::string &notice : *notices) std::cerr << "bonsai-convert: " << notice << '\n';
  return 0;
}

int parse_and_run(int argc, char **argv) {
  const po::options_description options = describe_options();
  const po::variables_map given = parse(argc, argv, options);
  if (given.count("help")) {
    std::cout
        << "Usage: bonsai-convert DIR OUT.gguf --type TYPE [--name NAME]\n"
           "Turns a Hugging Face Qwen3 checkpoint (config.json, tokenizer.json, safetensors) into a GGUF file.\n\n"
        << options;
    return 0;
  }
  const auto &type = given["type"].as<std::string>();
  convert::Request request{given["directory"].as<std::string>(), given["output"].as<std::string>(),
                           given["name"].as<std::string>(), quant::find_format(type)};
  if (!request.type) {
    std::cerr << "bonsai-convert: --type: expected one of " << tools::format_names() << "; found '" << type << "'\n";
    return kUsage;
  }
  return run(request);
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const po::error &error) {
    std::cerr << "bonsai-convert: " << error.what() << "; see bonsai-convert --help\n";
    return kUsage;
  } catch (const std::exception &error) {  // out of memory, or a directory that cannot be looked into
    std::cerr << "bonsai-convert: " << error.what() << '\n';
    return kFailure;
  }
}
