// bonsai-synth: model files with random weights, for speed and memory measurements without a download.
#include <fmt/format.h>

#include <boost/program_options.hpp>
#include <exception>
#include <iostream>

#include "tools/common/formats.h"
#include "tools/common/progress.h"
#include "tools/synth/synthesise.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

constexpr int kFailure = 1, kUsage = 2;

std::string shape_names() {
  std::string names;
  for (const synth::Shape &shape : synth::shapes()) names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  return names;
}

po::options_description describe_options() {
  po::options_description options("Options");
  auto add = options.add_options();
  add("help,h", "this text");
  add("shape", po::value<std::string>()->required(), ("one of " + shape_names()).c_str());
  add("type", po::value<std::string>()->required(), ("format of every matrix: " + tools::format_names()).c_str());
  add("untied", "give the head a matrix of its own (8b has one in any case)");
  add("yarn", po::value<double>(), "stretch the context by this factor with YaRN");
  add("yarn-original", po::value<int64_t>()->default_value(16384), "the context that --yarn stretches");
  add("vocab-from", po::value<std::string>(), "copy the tokenizer of this GGUF file; else one token for each byte");
  add("seed", po::value<uint64_t>()->default_value(1), "the same seed gives the same file");
  return options;
}

po::variables_map parse(int argc, char **argv, const po::options_description &visible) {
  po::options_description all;
  all.add(visible);
  all.add_options()("output", po::value<std::string>());
  po::positional_options_description positional;
  positional.add("output", 1);
  po::variables_map given;
  po::store(po::command_line_parser(argc, argv).options(all).positional(positional).run(), given);
  if (given.count("help")) return given;
  po::notify(given);
  if (!given.count("output")) throw po::error("expected the file to write");
  return given;
}

Result<void> read_yarn(const po::variables_map &given, synth::Request &request) {
  const po::variable_value &original = given["yarn-original"];
  if (!given.count("yarn")) {
    if (!original.defaulted()) return fail("--yarn-original: expected --yarn too");
    return {};
  }
  const auto factor = given["yarn"].as<double>();
  const auto positions = original.as<int64_t>();
  if (!(factor > 1 && factor <= 64)) return fail("--yarn: expected a factor above 1 and at most 64, found {}", factor);
  if (positions < 128 || positions > (1 << 20)) {
    return fail("--yarn-original: expected 128 to 1048576 positions, found {}", positions);
  }
  request.yarn_factor = factor;
  request.yarn_original = static_cast<uint32_t>(positions);
  return {};
}

Result<synth::Request> read_request(const po::variables_map &given) {
  synth::Request request;
  const auto &shape_name = given["shape"].as<std::string>();
  const synth::Shape *shape = synth::find_shape(shape_name);
  if (!shape) return fail("--shape: expected one of {}; found '{}'", shape_names(), shape_name);
  request.shape = *shape;
  if (given.count("untied")) request.shape.tied = false;
  const auto &type = given["type"].as<std::string>();
  const quant::FormatTraits *format = quant::find_format(type);
  if (!format) return fail("--type: expected one of {}; found '{}'", tools::format_names(), type);
  request.format = format->format;
  if (const auto stretched = read_yarn(given, request); !stretched) return tl::unexpected(stretched.error());
  if (given.count("vocab-from")) request.vocabulary_file = given["vocab-from"].as<std::string>();
  request.seed = given["seed"].as<uint64_t>();
  request.output = given["output"].as<std::string>();
  request.name = fmt::format("Synthetic {} {}", shape->name, format->name);
  return request;
}

int run(const synth::Request &request) {
  tools::catch_interrupts();
  Result<void> made;
  {
    constexpr uint64_t kParts = 1000;
    tools::ProgressBar bar(request.output, kParts);
    made = synth::synthesise(request, [&](uint64_t done, uint64_t total) {
      bar.update(done * kParts / total);
      return !tools::interrupted();
    });
  }
  if (made) return 0;
  std::cerr << "bonsai-synth: " << made.error().message << '\n';
  return tools::interrupted() ? tools::interrupted_exit_code() : kFailure;
}

int parse_and_run(int argc, char **argv) {
  const po::options_description options = describe_options();
  const po::variables_map given = parse(argc, argv, options);
  if (given.count("help")) {
    std::cout << "Usage: bonsai-synth --shape SHAPE --type TYPE [options] OUT.gguf\n"
                 "Writes a Qwen3 model with random weights in a real model's shape.\n\n"
              << options;
    return 0;
  }
  const auto request = read_request(given);
  if (request) return run(*request);
  std::cerr << "bonsai-synth: " << request.error().message << '\n';
  return kUsage;
}

}  // namespace

int main(int argc, char **argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const po::error &error) {
    std::cerr << "bonsai-synth: " << error.what() << "; see bonsai-synth --help\n";
    return kUsage;
  } catch (const std::exception &error) {  // out of memory, above all
    std::cerr << "bonsai-synth: " << error.what() << '\n';
    return kFailure;
  }
}
