#include "host/cli/chat_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/atomic_file.h"
#include "core/base/mapped_file.h"
#include "core/base/standard_streams.h"
#include "core/base/utf8.h"
#include "host/cli/session_options.h"
#include "host/cli/speculation_options.h"
#include "host/cli/units.h"

namespace bonsai::cli {
namespace {

constexpr int kInterrupted = 128 + 2;  // SIGINT ends an answer, the other signals the program as well

std::string messages_are(size_t n) { return counted(n, "message") + (n == 1 ? " is" : " are"); }

constexpr std::string_view kBlanks = " \t\r\n";

std::string_view first_word(std::string_view message) {
  return message.substr(0, std::min(message.find_first_of(kBlanks), message.size()));
}

// A command, or a mistyped one: /etc/hosts, // or Qwen3's /no_think begin messages.
bool looks_like_command(std::string_view message) {
  if (!message.starts_with('/')) return false;
  const std::string_view name = first_word(message).substr(1);
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c == '-' || (c >= 'a' && c <= 'z'); });
}

double per_second(uint32_t tokens, double seconds) { return seconds > 0 ? tokens / seconds : 0; }

nlohmann::ordered_json to_json(const ChatReply &reply) {
  const GenerationStats &stats = reply.generation.stats;
  nlohmann::ordered_json json = message_json(reply.message);
  json.update({{"tokens", reply.generation.tokens},
               {"finish_reason", finish_reason_name(reply.generation.finish)},
               {"seed", stats.seed},
               {"reused_tokens", reply.reused_tokens},
               {"prompt_tokens", stats.prompt_tokens},
               {"prompt_tokens_per_second", per_second(stats.prompt_tokens, stats.prompt_seconds)},
               {"decode_tokens_per_second", per_second(stats.decode_steps, stats.decode_seconds)}});
  return json;
}

}  // namespace

ChatSession::ChatSession(const Engine &engine, const Arguments &arguments, const ChatOptions &chat,
                         GenerateOptions options, Terminal &terminal, InterruptGuard &interrupt)
    : engine_(engine),
      options_(std::move(options)),
      terminal_(terminal),
      interrupt_(interrupt),
      printer_(arguments, terminal.out),
      reader_(LineReader::open()),
      chat_(engine, chat),
      model_files_(arguments),
      save_session_to_(arguments.text("save-session")),
      json_(arguments.flag("json")) {
  if (const auto file = arguments.text("load-session")) load_session_command(*file);
}

int ChatSession::run() {
  interrupt_.abrupt(reader_->is_terminal());
  bool is_saved = !save_session_to_;
  const auto save = [&] {
    if (std::exchange(is_saved, true)) return;
    save_session_command(*save_session_to_);
  };
  const InterruptGuard::LastWords last(interrupt_, [&] { save_or_complain(save); });
  // A terminal that is closed gives the end of the input and SIGHUP, in any order.
  const auto finish = [&] {
    const InterruptGuard::Busy busy(interrupt_);
    save();
  };
  try {
    while (!done_) {
      const auto message = read_message(*reader_, "> ");
      const InterruptGuard::Busy busy(interrupt_);
      if (!message) break;
      handle(*message);
    }
  } catch (const OutputClosed &) {  // nobody reads on, but the conversation is to be kept
    finish();
    return exit_code_;
  } catch (const std::exception &) {  // a full disk, or a backend that failed
    const InterruptGuard::Busy busy(interrupt_);
    save_or_complain(save);
    throw;
  }
  finish();
  return exit_code_;
}

void ChatSession::handle(const std::string &message) {
  if (message.find_first_not_of(kBlanks) == std::string::npos) return;
  if (looks_like_command(message)) return run_command(message);
  const bool answered = show_answer([&](const GenerateOptions &options, const ChatCallback &callback) {
    return chat_.send(message, options, callback);
  });
  if (!answered) note_undone();
}

const ChatSession::Command *ChatSession::find_command(std::string_view name) {
  static constexpr Command kCommands[] = {
      {"/help", "", "this list", &ChatSession::help_command},
      {"/system", "TEXT", "what the model is told first; without TEXT: show it", &ChatSession::system_command},
      {"/tool", "RESULT", "what a tool that the model called has said", &ChatSession::tool_command},
      {"/think", "on|off|auto", "ask the model to reason before it answers", &ChatSession::think_command},
      {"/regen", "", "answer the last message once more", &ChatSession::regenerate_command},
      {"/reset", "", "forget the conversation; the system prompt stays", &ChatSession::reset_command},
      {"/save", "FILE", "write the conversation, as JSON", &ChatSession::save_command},
      {"/load", "FILE", "go on with a conversation that was saved", &ChatSession::load_command},
      {"/save-session", "FILE", "write it with its keys and values", &ChatSession::save_session_command},
      {"/load-session", "FILE", "go on with these: nothing is computed again", &ChatSession::load_session_command},
      {"/exit", "", "leave, as Ctrl-D does", &ChatSession::exit_command},
  };
  if (name.empty()) {
    for (const Command &command : kCommands)
      print_to_stderr("  {:<19} {}\n", fmt::format("{} {}", command.name, command.argument), command.help);
    return nullptr;
  }
  const auto *found = std::find_if(std::begin(kCommands), std::end(kCommands),
                                   [name](const Command &command) { return command.name == name; });
  return found == std::end(kCommands) ? nullptr : found;
}

void ChatSession::run_command(const std::string &line) {
  const std::string name(first_word(line));
  const size_t begin = std::min(line.find_first_not_of(kBlanks, name.size()), line.size());
  const size_t end = std::max(begin, line.find_last_not_of(kBlanks) + 1);
  const std::string argument = line.substr(begin, end - begin);
  const Command *command = find_command(name);
  if (command == nullptr) {
    print_to_stderr("unknown command {}: /help shows them all; with a blank in front it is a message\n",
                    bonsai::quoted(name));
    return note_undone();
  }
  if (command->argument.empty() && !argument.empty()) {
    print_to_stderr("{} takes no argument\n", name);
    return note_undone();
  }
  try {
    (this->*command->function)(argument);
    return;
  } catch (const EngineError &error) {
    complain(name, error);
  } catch (const Failure &error) {
    complain(name, error);
  }
  note_undone();
}

void ChatSession::complain(std::string_view what, const std::exception &error) const {
  print_to_stderr("{}{}{}\n", what, what.empty() ? "" : ": ", bonsai::printable(error.what()));
}

// A person reads why; a script has the exit code. Whatever ended the program before this is the better reason.
void ChatSession::note_undone() {
  if (exit_code_ == kSuccess && !::isatty(STDIN_FILENO)) exit_code_ = kFailure;
}

template <class Answer>
bool ChatSession::show_answer(Answer answer) {
  bool answered = true;
  GenerateOptions options = options_;
  options.cancel = interrupt_.graceful(false);
  const auto show = [this](ChatPiece kind, std::string_view text) {
    printer_.print(kind, text);
    return true;
  };
  try {
    const ChatReply reply = answer(options, show);
    printer_.finish();
    if (json_) terminal_.out.write_json(to_json(reply));
    if (!json_) print_summary(reply);
    explain_end(reply);
  } catch (const EngineError &error) {
    answered = false;
    printer_.finish();
    if (error.kind() == ErrorKind::kBackend) throw;  // nobody is left who could answer the next message
    complain("", error);
    if (error.kind() == ErrorKind::kContextFull)
      print_to_stderr("(/reset starts anew{})\n", more_context("more context"));
  }
  interrupt_.abrupt(reader_->is_terminal());
  if (const int signal = interrupt_.exit_code(); signal != 0 && signal != kInterrupted) {
    exit_code_ = signal;
    done_ = true;
  }
  return answered;
}

// Behind a piece of advice; empty where the model knows no more.
std::string ChatSession::more_context(std::string_view what) const {
  const ModelInfo model = engine_.model();
  if (model.context >= model.trained_context) return "";
  return fmt::format("; the option -c N gives {}, up to the model's {}", what, model.trained_context);
}

void ChatSession::print_summary(const ChatReply &reply) const {
  const GenerationStats &stats = reply.generation.stats;
  const uint32_t prompt = stats.prompt_tokens + reply.reused_tokens;
  print_to_stderr("[prompt {}, {} reused, {:.1f} tokens/s; decode {}, {:.1f} tokens/s, ended by {}; seed {}]\n",
                  counted(prompt, "token"), reply.reused_tokens, per_second(stats.prompt_tokens, stats.prompt_seconds),
                  counted(reply.generation.tokens.size(), "token"),
                  per_second(stats.decode_steps, stats.decode_seconds), finish_reason_name(reply.generation.finish),
                  stats.seed);
  const std::string guesses = speculation_summary(stats, options_);
  if (!guesses.empty()) print_to_stderr("[{}]\n", guesses);
  if (!stats.failed_over.empty()) print_to_stderr("[the CPU took over: {}]\n", stats.failed_over);
}

void ChatSession::explain_end(const ChatReply &reply) const {
  if (!reply.message.tool_calls.empty()) print_to_stderr("(/tool RESULT says what came of the call)\n");
  if (reply.generation.finish == FinishReason::kContextFull)
    print_to_stderr("the context of {} is full, so the answer ends here: /reset starts anew{}\n",
                    counted(engine_.model().context, "token"), more_context("more"));
}

void ChatSession::exit_command(const std::string &) { done_ = true; }

void ChatSession::help_command(const std::string &) {
  find_command("");
  print_to_stderr(
      "At a terminal a backslash at a line's end goes on with the next line; \"\"\" begins and ends a text of\n"
      "several lines; one that is pasted is one message. Over a pipe every line is a message. A blank in front\n"
      "makes a message of what would be a command.\n"
      "Ctrl-C stops an answer, and throws away a message of several lines that is not finished.\n");
}

void ChatSession::system_command(const std::string &text) {
  if (text.empty()) {
    const std::string &system = chat_.options().system;
    print_to_stderr("{}\n", system.empty() ? "no system prompt" : system);
    return;
  }
  chat_.set_system(text);
  print_to_stderr("the system prompt is set\n");
}

void ChatSession::think_command(const std::string &choice) {
  if (choice != "on" && choice != "off" && choice != "auto")
    throw Failure(fmt::format("expected on, off or auto, found {}", bonsai::quoted(choice)));
  chat_.set_enable_thinking(choice == "auto" ? std::nullopt : std::optional(choice == "on"));
  print_to_stderr("thinking is {}\n", choice == "auto" ? "as the model likes it" : choice);
}

void ChatSession::tool_command(const std::string &result) {
  if (chat_.options().tools.empty()) throw Failure("the model was given no tools: the option --tools FILE does");
  const bool answered = show_answer([&](const GenerateOptions &options, const ChatCallback &callback) {
    return chat_.send({.role = "tool", .content = result}, options, callback);
  });
  if (!answered) note_undone();
}

void ChatSession::regenerate_command(const std::string &) {
  const bool answered = show_answer([&](const GenerateOptions &options, const ChatCallback &callback) {
    return chat_.regenerate(options, callback);
  });
  if (!answered) note_undone();
}

void ChatSession::reset_command(const std::string &) {
  chat_.reset();
  print_to_stderr("the conversation is forgotten\n");
}

void ChatSession::save_command(const std::string &file) {
  if (file.empty()) throw Failure("expected the name of a file");
  model_files_.check_spared(file, "conversation");
  if (const auto written = write_whole_file(file, chat_.save()); !written) throw Failure(written.error().message);
  print_to_stderr("{} in {}\n", messages_are(chat_.messages().size()), bonsai::printable(file));
}

void ChatSession::load_command(const std::string &file) {
  if (file.empty()) throw Failure("expected the name of a file");
  const auto mapped = MappedFile::open(file);
  if (!mapped) throw Failure(mapped.error().message);
  try {
    chat_.load({reinterpret_cast<const char *>(mapped->bytes().data()), mapped->bytes().size()});
  } catch (const EngineError &error) {
    throw Failure(fmt::format("{}: {}", file, error.what()));
  }
  print_to_stderr("{} loaded\n", messages_are(chat_.messages().size()));
}

void ChatSession::save_session_command(const std::string &file) {
  if (file.empty()) throw Failure("expected the name of a file");
  model_files_.check_spared(file, "session");
  chat_.save_session(file);
  print_to_stderr("{} in {}\n", messages_are(chat_.messages().size()), bonsai::printable(file));
}

void ChatSession::load_session_command(const std::string &file) {
  if (file.empty()) throw Failure("expected the name of a file");
  chat_.load_session(file);
  print_to_stderr("{} loaded\n", messages_are(chat_.messages().size()));
}

nlohmann::ordered_json message_json(const ChatMessage &message) {
  const std::string &calls = message.tool_calls;
  return {{"text", message.content},
          {"reasoning", message.reasoning},
          {"tool_calls", nlohmann::ordered_json::parse(calls.empty() ? "[]" : calls)}};
}

ChatReply chat_once(const Engine &engine, const Arguments &arguments, const GenerateOptions &options,
                    const std::string &message, Terminal &terminal) {
  AnswerPrinter printer(arguments, terminal.out);
  Chat chat(engine, chat_options(arguments));
  const auto show = [&printer](ChatPiece kind, std::string_view text) {
    printer.print(kind, text);
    return true;
  };
  ChatReply reply = chat.send(message, options, show);
  printer.finish();
  return reply;
}

}  // namespace bonsai::cli
