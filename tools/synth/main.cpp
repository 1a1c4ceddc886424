// bonsai-synth: model files with random weights, for speed and memory measurements without a download.
#include <fmt/format.h>

#include <boost/program_options/value_semantic.hpp>
#include <charconv>
#include <limits>
#include <system_error>

#include "core/model/config.h"
#include "tools/common/formats.h"
#include "tools/common/program.h"
#include "tools/synth/synthesise.h"

namespace po = boost::program_options;
using namespace bonsai;

namespace {

std::string shape_names() {
  std::string names;
  for (const synth::Shape &shape : synth::shapes()) names += fmt::format("{}{}", names.empty() ? "" : ", ", shape.name);
  return names;
}

po::options_description describe_options() {
  po::options_description options;
  auto add = options.add_options();
  add("shape", po::value<std::string>()->required(), ("one of " + shape_names()).c_str());
  add("type", po::value<std::string>()->required(), ("format of every matrix: " + tools::format_names()).c_str());
  add("untied", "give the head a matrix of its own (8b has one in any case)");
  add("yarn", po::value<double>(), "stretch the context by this factor with YaRN");
  add("yarn-original", po::value<int64_t>()->default_value(16384), "the context that --yarn stretches");
  add("vocab-from", po::value<std::string>(), "copy the tokenizer of this GGUF file; else one token for each byte");
  add("seed", po::value<std::string>()->default_value("1"),
      "a whole number of 64 bits: the same seed gives the same file");
  return options;
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
  if (factor * static_cast<double>(positions) > model::kMostContext) {
    return fail("--yarn: {} times --yarn-original {} is more than the {} positions that a model may have", factor,
                positions, model::kMostContext);
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
  const auto format = tools::read_format("--type", given["type"].as<std::string>());
  if (!format) return tl::unexpected(format.error());
  request.format = (*format)->format;
  if (const auto stretched = read_yarn(given, request); !stretched) return tl::unexpected(stretched.error());
  if (given.count("vocab-from")) request.vocabulary_file = given["vocab-from"].as<std::string>();
  const auto &seed = given["seed"].as<std::string>();
  const auto [end, error] = std::from_chars(seed.data(), seed.data() + seed.size(), request.seed);
  if (error != std::errc() || end != seed.data() + seed.size()) {
    return fail("--seed: expected a whole number from 0 to {}, found '{}'", std::numeric_limits<uint64_t>::max(), seed);
  }
  request.output = given["output"].as<std::string>();
  request.name = fmt::format("Synthetic {} {}", shape->name, (*format)->name);
  return request;
}

int run(const tools::Program &program, const po::variables_map &given) {
  const auto request = read_request(given);
  if (!request) return tools::report(program, request.error(), tools::kUsage);
  const auto made =
      tools::with_progress(request->output, [&](auto go_on) { return synth::synthesise(*request, go_on); });
  return made ? 0 : tools::report(program, made.error(), tools::kFailure);
}

}  // namespace

int main(int argc, char **argv) {
  tools::Program program;
  program.name = "bonsai-synth";
  program.usage =
      "--shape SHAPE --type TYPE [options] OUT.gguf\n"
      "Writes a Qwen3 model with random weights in a real model's shape.\n";
  program.describe = describe_options;
  program.files = {"output"};
  program.files_expected = "expected the file to write";
  program.run = run;
  return tools::run_program(program, argc, argv);
}
