// The program at a terminal of its own, typed at and looked at as a person would.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bonsai::cli {

class TerminalProgram {
 public:
  // `environment`: variables, "NAME=value", beside what the test itself has; TERM is xterm unless it is one of them.
  explicit TerminalProgram(const std::vector<std::string> &arguments, const std::vector<std::string> &environment = {});
  ~TerminalProgram();
  TerminalProgram(const TerminalProgram &) = delete;
  TerminalProgram &operator=(const TerminalProgram &) = delete;

  void type(std::string_view keys) const;
  void send_signal(int signal) const;
  // As a person does who pulls at the window's edge.
  void resize(uint16_t rows, uint16_t columns) const;
  // As a person who closes the window does.
  void close_terminal();
  // Waits until `text` is on the screen behind what was found before. False, and a failure with the screen, if it does
  // not come within 30 s.
  bool wait_for(std::string_view text);
  // Waits for the prompt, and until the program takes keys one by one: before that the kernel edits lines itself.
  bool wait_for_prompt(std::string_view prompt = "> ");
  // Waits for the end; the exit code. A program that does not end within 30 s is killed.
  int finish();
  const std::string &screen() const { return screen_; }

 private:
  bool read_more(int timeout_ms);

  pid_t pid_ = -1;
  int terminal_ = -1;
  std::string screen_;  // everything that was written, escape sequences included
  size_t found_ = 0;
};

inline constexpr std::string_view kCtrlC = "\x03", kCtrlD = "\x04", kUp = "\x1b[A", kBackspace = "\x7f";

}  // namespace bonsai::cli
