// A conversation at a terminal or over a pipe: what a person types is sent, or is a command.
#pragma once

#include <bonsai/chat.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "host/cli/chat_options.h"
#include "host/cli/interrupt.h"
#include "host/cli/line_reader.h"
#include "host/cli/model_options.h"

namespace bonsai::cli {

class ChatSession {
 public:
  ChatSession(const Engine &engine, const Arguments &arguments, const ChatOptions &chat, GenerateOptions options,
              Terminal &terminal, InterruptGuard &interrupt);

  // Until /exit or the end of the input. Returns the exit code: where nobody sits at a terminal it tells that a message
  // was not answered. Throws EngineError where --load-session or --save-session fails. Where it throws anything else,
  // the conversation was saved before.
  int run();

 private:
  struct Command {
    std::string_view name, argument, help;
    void (ChatSession::*function)(const std::string &argument);
  };
  static const Command *find_command(std::string_view name);

  void handle(const std::string &message);
  void run_command(const std::string &line);
  // `answer` is Chat::send() or regenerate(). False: there is none, and why was said.
  template <class Answer>
  bool show_answer(Answer answer);
  void note_undone();
  void print_summary(const ChatReply &reply) const;
  void explain_end(const ChatReply &reply) const;
  std::string more_context(std::string_view what) const;
  void complain(std::string_view what, const std::exception &error) const;

  void exit_command(const std::string &);
  void help_command(const std::string &);
  void load_command(const std::string &file);
  void load_session_command(const std::string &file);
  void regenerate_command(const std::string &);
  void reset_command(const std::string &);
  void save_command(const std::string &file);
  void save_session_command(const std::string &file);
  void system_command(const std::string &text);
  void think_command(const std::string &choice);
  void tool_command(const std::string &result);

  const Engine &engine_;
  const GenerateOptions options_;
  Terminal &terminal_;
  InterruptGuard &interrupt_;
  AnswerPrinter printer_;
  std::unique_ptr<LineReader> reader_;
  Chat chat_;
  const ModelFiles model_files_;
  const std::optional<std::string> save_session_to_;
  const bool json_;
  bool done_ = false;
  int exit_code_ = kSuccess;
};

// One message of `run --chat`, and its answer, which is shown.
ChatReply chat_once(const Engine &engine, const Arguments &arguments, const GenerateOptions &options,
                    const std::string &message, Terminal &terminal);

// What --json tells of an answer first: {"text", "reasoning", "tool_calls"}.
nlohmann::ordered_json message_json(const ChatMessage &message);

}  // namespace bonsai::cli
