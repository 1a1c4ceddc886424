#include "host/cli/generate_options.h"

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "core/base/utf8.h"
#include "host/cli/grammar_options.h"
#include "host/cli/speculation_options.h"

namespace bonsai::cli {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr uint32_t kMaxCount = std::numeric_limits<uint32_t>::max();

LogitBias parse_logit_bias(const std::string &text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos) {
    const auto token = parse_number<int32_t>(std::string_view(text).substr(0, equals));
    const bool has_plus = text[equals + 1] == '+' && text[equals + 2] != '-';
    const size_t sign = has_plus ? 1 : 0;
    const auto add = parse_number<float>(std::string_view(text).substr(equals + 1 + sign));
    if (token && add && *token >= 0 && *add <= kMax) return {*token, *add};
  }
  throw UsageError(fmt::format("--logit-bias: expected ID=NUMBER or ID=-inf, found {}", bonsai::quoted(text)));
}

// What the options say, on top of `sampling`.
SamplingOptions sampling_options(const Arguments &arguments, SamplingOptions sampling) {
  constexpr float kSmallest = std::numeric_limits<float>::min();
  sampling.temperature = arguments.number("temp", 0, kMax, "a number >= 0").value_or(sampling.temperature);
  sampling.top_k = static_cast<uint32_t>(arguments.count_or_all("top-k", 0, 0).value_or(sampling.top_k));
  sampling.top_p = arguments.number("top-p", 0, 1, "a number from 0 to 1").value_or(sampling.top_p);
  sampling.min_p = arguments.number("min-p", 0, 1, "a number from 0 to 1").value_or(sampling.min_p);
  sampling.repetition_penalty =
      arguments.number("repeat-penalty", kSmallest, kMax, "a number > 0").value_or(sampling.repetition_penalty);
  sampling.presence_penalty =
      arguments.number("presence-penalty", -kMax, kMax, "a number").value_or(sampling.presence_penalty);
  sampling.frequency_penalty =
      arguments.number("frequency-penalty", -kMax, kMax, "a number").value_or(sampling.frequency_penalty);
  sampling.penalty_window = static_cast<int32_t>(
      arguments.integer("repeat-last-n", -1, std::numeric_limits<int32_t>::max()).value_or(sampling.penalty_window));
  for (const std::string &bias : arguments.texts("logit-bias")) sampling.logit_bias.push_back(parse_logit_bias(bias));
  if (arguments.text("seed") != "-1")
    sampling.seed = arguments.count_or_all("seed", 0, 0, std::numeric_limits<uint64_t>::max());
  return sampling;
}

}  // namespace

SamplingOptions preset_option(const Arguments &arguments) {
  const std::string preset = arguments.text("preset").value_or("balanced");
  const auto found = sampling_preset(preset);
  if (!found)
    throw UsageError(
        fmt::format("--preset: expected greedy, balanced, creative or code, found {}", bonsai::quoted(preset)));
  return *found;
}

void follow_model(const Arguments &arguments, const Engine &engine, GenerateOptions &options) {
  if (!arguments.text("preset")) options.sampling = sampling_options(arguments, engine.model().sampling);
}

void add_preset_option(Options &options, const std::string &default_is) {
  const std::string help = "temperature, top-k and top-p: greedy, balanced, creative or code (" + default_is + ")";
  options.value("preset", "NAME", help.c_str());
}

void add_plain_generate_options(Options &options, const std::string &without_n) {
  options.value("predict,n", "N",
                fmt::format("most tokens to generate; -1: until the text ends ({})", without_n).c_str());
  add_preset_option(options, "what the model's file says, balanced where it does not");
  options.value("temp", "T", "temperature; 0: always the likeliest token (balanced: 0.7)");
  options.value("top-k", "K", "choose among the K likeliest; 0 or -1: all (balanced: 40)");
  options.value("top-p", "P", "and the fewest that together hold this probability; 1: all (balanced: 0.9)");
  options.value("min-p", "P", "and those at least this likely, relative to the likeliest (0)");
  options.value("seed", "N", "the same seed, the same text; -1: any (random)");
  options.value("repeat-penalty", "X", "divides the logits of tokens that occurred; 1: off (1)");
  options.value("presence-penalty", "X", "lowers the logits of tokens that occurred (0)");
  options.value("frequency-penalty", "X", "lowers them for each time that they occurred (0)");
  options.value("repeat-last-n", "N", "penalties look back on so many tokens; -1: all (64)");
  options.values("logit-bias", "ID=X", "added to a token's logit; -inf forbids it; may be repeated");
  options.values("stop", "TEXT", "the text ends before this; may be repeated");
  options.flag("ignore-eos", "go on where the model would end its text");
}

void add_generate_options(Options &options, const std::string &without_n) {
  add_plain_generate_options(options, without_n);
  add_grammar_options(options);
  add_speculation_options(options);
}

GenerateOptions plain_generate_options(const Arguments &arguments) {
  GenerateOptions options;
  options.max_tokens =
      static_cast<uint32_t>(arguments.count_or_all("predict", 1, kMaxCount).value_or(options.max_tokens));
  options.sampling = sampling_options(arguments, preset_option(arguments));
  options.stop = arguments.texts("stop");
  for (const std::string &stop : options.stop)
    if (stop.empty()) throw UsageError("--stop: expected a text, found an empty one");
  options.ignore_eos = arguments.flag("ignore-eos");
  return options;
}

GenerateOptions generate_options(const Arguments &arguments) {
  GenerateOptions options = plain_generate_options(arguments);
  read_grammar_options(arguments, options);
  return options;
}

}  // namespace bonsai::cli
