// `bonsai run`: continues a text.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/base/standard_streams.h"
#include "host/cli/chat_session.h"
#include "host/cli/command.h"
#include "host/cli/generate_options.h"
#include "host/cli/grammar_options.h"
#include "host/cli/interrupt.h"
#include "host/cli/model_options.h"
#include "host/cli/session_options.h"
#include "host/cli/speculation_options.h"
#include "host/cli/text_input.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

constexpr const char *kSeedlingPrompt = "Once upon a time";

Options run_options() {
  const std::string text = fmt::format(
      "Continues a text. The text and what follows go to stdout as they come, a summary to stderr.\n"
      "Without -p and -f the text comes from stdin, if that is a pipe or a file with something in it; else, and\n"
      "without -m, the seedling continues '{}'.\n"
      "With --chat the text is a message, and only the answer goes to stdout; JSON has it as 'bonsai chat' does, with\n"
      "what the model thought and called apart from what it said.\n"
      "The choice of a token: logit bias, penalties, top-k, top-p, min-p, temperature, in this order.",
      kSeedlingPrompt);
  Options options("run", "[-m FILE] [-p TEXT | -f FILE] [OPTIONS]", text);
  add_engine_options(options);
  add_text_options(options);
  options.flag("chat", "put the text into the model's chat template, as the first message of a conversation");
  add_chat_options(options);
  add_session_options(options, "go on with a saved session: the text, if any, comes behind what it holds",
                      "save the session in the end: its tokens, and their keys and values");
  add_generate_options(options);
  options.value("logprobs", "N", "with --json: how likely the model found each token, and the N likeliest");
  return options;
}

// A pipe's or file's last newline is left out: the story shall go on in the same line. Without a prompt the seedling
// begins a tale; another model's user has to say something.
std::string prompt_text(const Arguments &arguments) {
  std::optional<std::string> text = read_text(arguments);
  const bool is_typed = text && !text_is_from_file(arguments);
  if (!text) text = read_unasked_stdin(arguments);
  if (text) {
    if (!is_typed) drop_line_end(*text);
    return *std::move(text);
  }
  if (loads_session(arguments)) return "";
  if (arguments.text("model")) throw UsageError("no prompt: expected -p TEXT, -f FILE or '-p -' for stdin");
  return kSeedlingPrompt;
}

double per_second(uint32_t tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

// A token's bytes need not be text by themselves: what is not is U+FFFD. Special tokens are spelled out. A token that
// cannot be has null.
nlohmann::ordered_json to_json(const LogProb &entry, const Engine &engine) {
  return {{"token", entry.token}, {"text", engine.detokenize({&entry.token, 1}, true)}, {"logprob", entry.logprob}};
}

nlohmann::ordered_json to_json(const std::vector<TokenLogProbs> &logprobs, const Engine &engine) {
  auto json = nlohmann::ordered_json::array();
  for (const TokenLogProbs &place : logprobs) {
    json.push_back(to_json(place.chosen, engine));
    for (const LogProb &entry : place.top) json.back()["top"].push_back(to_json(entry, engine));
  }
  return json;
}

// `said`: the text, or what an answer consists of.
nlohmann::ordered_json to_json(const std::string &prompt, const nlohmann::ordered_json &said,
                               const Generation &generation, const Engine &engine) {
  const GenerationStats &stats = generation.stats;
  const BackendInfo backend = engine.backend();
  const MemoryInfo memory = engine.memory();
  const std::optional<uint64_t> peak = peak_memory_bytes();
  nlohmann::ordered_json json = {{"prompt", prompt}};
  json.update(said);
  json.update({{"tokens", generation.tokens},
               {"logprobs", to_json(generation.logprobs, engine)},
               {"finish_reason", finish_reason_name(generation.finish)},
               {"seed", stats.seed},
               {"prompt_tokens", stats.prompt_tokens},
               {"prompt_tokens_per_second", per_second(stats.prompt_tokens, stats.prompt_seconds)},
               {"decode_tokens_per_second", per_second(stats.decode_steps, stats.decode_seconds)},
               {"decode_passes", stats.decode_passes},
               {"proposed_tokens", stats.proposed_tokens},
               {"accepted_tokens", stats.accepted_tokens},
               {"constraint_seconds", stats.constraint_seconds},
               {"backend", backend.name},
               {"kernel", backend.kernel},
               {"threads", backend.threads},
               {"failed_over", backend.failed_over},
               {"memory",
                {{"weight_bytes", memory.weight_bytes},
                 {"mapped_bytes", memory.mapped_bytes},
                 {"session_bytes", memory.session_bytes},
                 {"peak_bytes", peak ? nlohmann::json(*peak) : nlohmann::json(nullptr)}}}});
  return json;
}

void print_summary(const Generation &generation, const GenerateOptions &options, const Engine &engine) {
  const GenerationStats &stats = generation.stats;
  const BackendInfo backend = engine.backend();
  const MemoryInfo memory = engine.memory();
  const std::optional<uint64_t> peak = peak_memory_bytes();
  print_to_stderr("\nprompt   {}, {:.1f} tokens/s\n", counted(stats.prompt_tokens, "token"),
                  per_second(stats.prompt_tokens, stats.prompt_seconds));
  print_to_stderr("decode   {}, {:.1f} tokens/s, ended by {}\n", counted(generation.tokens.size(), "token"),
                  per_second(stats.decode_steps, stats.decode_seconds), finish_reason_name(generation.finish));
  const std::string guesses = speculation_summary(stats, options);
  if (!guesses.empty()) print_to_stderr("guesses  {}\n", guesses);
  write_to_stderr(grammar_summary(stats));
  print_to_stderr("backend  {} {}{}{}, {}\n", backend.name, backend.version,
                  backend.kernel.empty() ? "" : ", kernel " + backend.kernel,
                  backend.threads == 0 ? "" : ", " + counted(backend.threads, "thread"), backend.device);
  if (!backend.failed_over.empty()) print_to_stderr("         took over: {}\n", backend.failed_over);
  print_to_stderr("memory   weights {} and {} mapped, session {}{}\n", format_bytes(memory.weight_bytes),
                  format_bytes(memory.mapped_bytes), format_bytes(memory.session_bytes),
                  peak ? ", peak " + format_bytes(*peak) : "");
  print_to_stderr("seed     {}\n", stats.seed);
}

// The prompt comes out with the first new text: not at all if an error comes first.
Generation continue_text(const Engine &engine, const Arguments &arguments, const GenerateOptions &options,
                         const std::string &prompt, Terminal &terminal) {
  Session session = engine.new_session();
  load_session(arguments, session);
  advising(engine, [&] { session.append(prompt); });
  const uint32_t n_given = session.length();
  const bool json = arguments.flag("json");
  bool shown = json;
  const auto show = [&](std::string_view text) {
    if (!std::exchange(shown, true)) terminal.out.write(prompt);
    if (!json) terminal.out.write(text);
    return true;
  };
  const auto save = [&] { save_session(arguments, session); };
  Generation generation;
  try {
    generation = advising(engine, [&] { return session.generate(options, show); });
    show(generation.text.ends_with('\n') ? "" : "\n");
  } catch (const OutputClosed &) {  // nobody reads on, but the text is to be kept
    save();
    throw;
  } catch (const std::exception &) {  // nor is a text to be lost for a full disk or a backend that failed
    if (session.length() > n_given) save_or_complain(save);
    throw;
  }
  save();
  return generation;
}

// Without --chat none of its options has a meaning; conversations have files of their own.
void check_chat_options(const Arguments &arguments) {
  if (arguments.flag("chat")) {
    for (const char *option : {"load-session", "save-session"})
      if (arguments.text(option)) throw UsageError(fmt::format("--{} is not for --chat: 'bonsai chat' has it", option));
    return;
  }
  for (const char *option : {"system", "tools", "chat-template-file"})
    if (arguments.text(option)) throw UsageError(fmt::format("--{} is for --chat", option));
  for (const char *option : {"think", "no-think", "hide-thinking"})
    if (arguments.flag(option)) throw UsageError(fmt::format("--{} is for --chat", option));
}

}  // namespace

int run_command(const std::vector<std::string> &command_line, Terminal &terminal) {
  const auto arguments = Arguments::parse(run_options(), command_line, terminal);
  if (!arguments) return kSuccess;
  check_chat_options(*arguments);
  check_stdin(*arguments, StdinUse::kOptions);
  GenerateOptions options = generate_options(*arguments);
  check_session_file(*arguments);
  options.logprobs = static_cast<uint32_t>(arguments->count("logprobs", 1).value_or(0));
  if (options.logprobs > 0 && !arguments->flag("json")) throw UsageError("--logprobs is for --json");
  InterruptGuard interrupt;
  const std::string prompt = prompt_text(*arguments);
  const EngineOptions engine_choice = engine_options(*arguments, terminal);
  const Engine engine = load_engine(engine_choice);
  follow_model(*arguments, engine, options);
  read_speculation_options(*arguments, engine_choice, options);
  options.cancel = interrupt.graceful();
  const bool is_chat = arguments->flag("chat");
  ChatReply reply;
  if (is_chat)
    reply = chat_once(engine, *arguments, options, prompt, terminal);
  else
    reply.generation = continue_text(engine, *arguments, options, prompt, terminal);
  const Generation &generation = reply.generation;
  if (arguments->flag("json")) {
    const nlohmann::ordered_json text = {{"text", generation.text}};
    terminal.out.write_json(to_json(prompt, is_chat ? message_json(reply.message) : text, generation, engine));
  } else {
    print_summary(generation, options, engine);
  }
  if (generation.finish == FinishReason::kContextFull)
    terminal.log.warn("the context of {} is full{}", counted(engine.model().context, "token"), more_context(engine));
  return interrupt.exit_code();
}

}  // namespace bonsai::cli
