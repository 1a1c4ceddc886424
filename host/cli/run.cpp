// `bonsai run`: continues a text.
#include <fmt/format.h>

#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/utf8.h"
#include "host/cli/command.h"
#include "host/cli/interrupt.h"
#include "host/cli/model_options.h"
#include "host/cli/text_input.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

constexpr float kMax = std::numeric_limits<float>::max();
constexpr const char *kSeedlingPrompt = "Once upon a time";

Options run_options() {
  Options options("run", "[-m FILE] [-p TEXT | -f FILE] [OPTIONS]",
                  "Continues a text. The text and what follows go to stdout as they come, a summary to stderr.\n"
                  "The choice of a token: logit bias, penalties, top-k, top-p, min-p, temperature, in this order.");
  add_engine_options(options);
  add_text_options(options);
  options.value("predict,n", "N", "most tokens to generate (256)");
  options.value("preset", "NAME", "temperature, top-k and top-p: greedy, balanced (default), creative or code");
  options.value("temp", "T", "temperature; 0: always the likeliest token (0.7)");
  options.value("top-k", "K", "choose among the K likeliest; 0: all (40)");
  options.value("top-p", "P", "and the fewest that together hold this probability; 1: all (0.9)");
  options.value("min-p", "P", "and those at least this likely, relative to the likeliest (0)");
  options.value("seed", "N", "the same seed, the same text (random)");
  options.value("repeat-penalty", "X", "divides the logits of tokens that occurred; 1: off (1)");
  options.value("presence-penalty", "X", "lowers the logits of tokens that occurred (0)");
  options.value("frequency-penalty", "X", "lowers them for each time that they occurred (0)");
  options.value("repeat-last-n", "N", "penalties look back on so many tokens; -1: all (64)");
  options.values("logit-bias", "ID=X", "added to a token's logit; -inf forbids it; may be repeated");
  options.values("stop", "TEXT", "the text ends before this; may be repeated");
  options.flag("ignore-eos", "go on where the model would end its text");
  return options;
}

LogitBias parse_logit_bias(const std::string &text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos) {
    const auto token = parse_number<int32_t>(std::string_view(text).substr(0, equals));
    const auto add = parse_number<float>(std::string_view(text).substr(equals + 1));
    if (token && add && *token >= 0 && *add <= kMax) return {*token, *add};
  }
  throw UsageError(fmt::format("--logit-bias: expected ID=NUMBER or ID=-inf, found {}", bonsai::quoted(text)));
}

SamplingOptions sampling_options(const Arguments &arguments) {
  const std::string preset = arguments.text("preset").value_or("balanced");
  const auto found = sampling_preset(preset);
  if (!found)
    throw UsageError(
        fmt::format("--preset: expected greedy, balanced, creative or code, found {}", bonsai::quoted(preset)));
  SamplingOptions sampling = *found;
  constexpr uint32_t kMaxCount = std::numeric_limits<uint32_t>::max();
  constexpr float kSmallest = std::numeric_limits<float>::min();
  sampling.temperature = arguments.number("temp", 0, kMax, "a number >= 0").value_or(sampling.temperature);
  sampling.top_k = static_cast<uint32_t>(arguments.count("top-k", 0, kMaxCount).value_or(sampling.top_k));
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
  sampling.seed = arguments.count("seed", 0, std::numeric_limits<uint64_t>::max());
  return sampling;
}

GenerateOptions generate_options(const Arguments &arguments) {
  GenerateOptions options;
  options.max_tokens = static_cast<uint32_t>(arguments.count("predict", 1).value_or(options.max_tokens));
  options.sampling = sampling_options(arguments);
  options.stop = arguments.texts("stop");
  for (const std::string &stop : options.stop)
    if (stop.empty()) throw UsageError("--stop: expected a text, found an empty one");
  options.ignore_eos = arguments.flag("ignore-eos");
  return options;
}

// A pipe's or file's last newline is left out: the story shall go on in the same line. Without a prompt the seedling
// begins a tale; another model's user has to say something.
std::string prompt_text(const Arguments &arguments) {
  std::optional<std::string> text = read_text(arguments);
  if (text) {
    if (text_is_from_file(arguments) && text->ends_with('\n')) text->pop_back();
    return *std::move(text);
  }
  if (arguments.text("model")) throw UsageError("no prompt: expected -p TEXT, -f FILE or '-p -' for stdin");
  return kSeedlingPrompt;
}

double per_second(uint32_t tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

nlohmann::ordered_json to_json(const std::string &prompt, const Generation &generation, const Engine &engine) {
  const GenerationStats &stats = generation.stats;
  const BackendInfo backend = engine.backend();
  const MemoryInfo memory = engine.memory();
  return {{"prompt", prompt},
          {"text", generation.text},
          {"tokens", generation.tokens},
          {"finish_reason", finish_reason_name(generation.finish)},
          {"seed", stats.seed},
          {"prompt_tokens", stats.prompt_tokens},
          {"prompt_tokens_per_second", per_second(stats.prompt_tokens, stats.prompt_seconds)},
          {"decode_tokens_per_second", per_second(stats.decode_steps, stats.decode_seconds)},
          {"backend", backend.name},
          {"kernel", backend.kernel},
          {"threads", backend.threads},
          {"failed_over", backend.failed_over},
          {"memory",
           {{"weight_bytes", memory.weight_bytes},
            {"mapped_bytes", memory.mapped_bytes},
            {"session_bytes", memory.session_bytes},
            {"peak_bytes", peak_memory_bytes()}}}};
}

void print_summary(const Generation &generation, const Engine &engine) {
  const GenerationStats &stats = generation.stats;
  const BackendInfo backend = engine.backend();
  const MemoryInfo memory = engine.memory();
  fmt::print(stderr, "\nprompt   {} tokens, {:.1f} tokens/s\n", stats.prompt_tokens,
             per_second(stats.prompt_tokens, stats.prompt_seconds));
  fmt::print(stderr, "decode   {} tokens, {:.1f} tokens/s, ended by {}\n", generation.tokens.size(),
             per_second(stats.decode_steps, stats.decode_seconds), finish_reason_name(generation.finish));
  fmt::print(stderr, "backend  {} {}{}{}, {}\n", backend.name, backend.version,
             backend.kernel.empty() ? "" : ", kernel " + backend.kernel,
             backend.threads == 0 ? "" : fmt::format(", {} threads", backend.threads), backend.device);
  if (!backend.failed_over.empty()) fmt::print(stderr, "         took over: {}\n", backend.failed_over);
  fmt::print(stderr, "memory   weights {} and {} mapped, session {}, peak {}\n", format_bytes(memory.weight_bytes),
             format_bytes(memory.mapped_bytes), format_bytes(memory.session_bytes), format_bytes(peak_memory_bytes()));
  fmt::print(stderr, "seed     {}\n", stats.seed);
}

}  // namespace

int run_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  const auto arguments = Arguments::parse(run_options(), command_line, terminal);
  if (!arguments) return kSuccess;
  GenerateOptions options = generate_options(*arguments);
  InterruptGuard interrupt;
  const std::string prompt = prompt_text(*arguments);
  const Engine engine = load_engine(engine_options(*arguments, terminal));
  Session session = engine.new_session();
  session.append(prompt);

  // The prompt comes out with the first new text: not at all if an error comes first.
  const bool json = arguments->flag("json");
  bool shown = json;
  const auto show = [&](std::string_view text) {
    if (!std::exchange(shown, true)) terminal.out.write(prompt);
    if (!json) terminal.out.write(text);
    return true;
  };
  options.cancel = interrupt.graceful();
  const Generation generation = session.generate(options, show);
  if (json) {
    terminal.out.write_json(to_json(prompt, generation, engine));
  } else {
    show(generation.text.ends_with('\n') ? "" : "\n");
    print_summary(generation, engine);
  }
  if (generation.finish == FinishReason::kContextFull)
    terminal.log.warn("the context of {} tokens is full: -c gives more, up to the model's {}", session.length(),
                      engine.model().trained_context);
  return interrupt.exit_code();
}

}  // namespace bonsai::cli
