#include "tests/cli/pty.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

namespace bonsai::cli {
namespace {

constexpr int kPatienceMs = 30'000;

}  // namespace

TerminalProgram::TerminalProgram(const std::vector<std::string> &arguments,
                                 const std::vector<std::string> &environment) {
  const std::string program = BONSAI_BINARY_DIR "/bin/bonsai";
  std::vector<char *> argv = {const_cast<char *>(program.c_str())};
  for (const std::string &argument : arguments) argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  const winsize size{.ws_row = 24, .ws_col = 200, .ws_xpixel = 0, .ws_ypixel = 0};
  pid_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
  if (pid_ < 0) throw std::runtime_error("cannot make a terminal");
  if (pid_ > 0) return;
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  for (const std::string &variable : environment) ::putenv(const_cast<char *>(variable.c_str()));
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

TerminalProgram::~TerminalProgram() {
  if (terminal_ >= 0) ::close(terminal_);
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void TerminalProgram::type(std::string_view keys) const {
  if (::write(terminal_, keys.data(), keys.size()) != static_cast<ssize_t>(keys.size()))
    throw std::runtime_error("cannot type");
}

void TerminalProgram::send_signal(int signal) const { ::kill(pid_, signal); }

void TerminalProgram::resize(uint16_t rows, uint16_t columns) const {
  const winsize size{.ws_row = rows, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::ioctl(terminal_, TIOCSWINSZ, &size) != 0) throw std::runtime_error("cannot resize the terminal");
}

void TerminalProgram::close_terminal() {
  ::close(terminal_);
  terminal_ = -1;
}

bool TerminalProgram::read_more(int timeout_ms) {
  pollfd waiting{terminal_, POLLIN, 0};
  if (::poll(&waiting, 1, timeout_ms) <= 0) return false;
  std::array<char, 4096> piece;
  const ssize_t n = ::read(terminal_, piece.data(), piece.size());
  if (n <= 0) return false;
  screen_.append(piece.data(), static_cast<size_t>(n));
  return true;
}

bool TerminalProgram::wait_for(std::string_view text) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMs);
  for (;;) {
    const size_t at = screen_.find(text, found_);
    if (at != std::string::npos) {
      found_ = at + text.size();
      return true;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() > 0 && read_more(static_cast<int>(left.count()))) continue;
    ADD_FAILURE() << "'" << text << "' did not appear:\n" << screen_;
    return false;
  }
}

bool TerminalProgram::wait_for_prompt(std::string_view prompt) {
  if (!wait_for(prompt)) return false;
  termios modes{};
  for (int ms = 0; ms < kPatienceMs; ++ms) {
    if (::tcgetattr(terminal_, &modes) == 0 && (modes.c_lflag & ICANON) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ADD_FAILURE() << "the line is not edited:\n" << screen_;
  return false;
}

int TerminalProgram::finish() {
  while (terminal_ >= 0 && read_more(kPatienceMs)) {
  }
  pollfd closing{terminal_, 0, 0};
  ::poll(&closing, 1, 0);
  if (terminal_ >= 0 && (closing.revents & POLLHUP) == 0) ::kill(pid_, SIGKILL);
  int status = 0;
  bool ended = ::waitpid(pid_, &status, WNOHANG) > 0;
  for (int ms = 0; ms < kPatienceMs && !ended; ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ended = ::waitpid(pid_, &status, WNOHANG) > 0;
  }
  if (!ended) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace bonsai::cli
