// Ctrl-C and SIGTERM as a stop token.
#pragma once

#include <termios.h>

#include <atomic>
#include <mutex>
#include <stop_token>
#include <thread>

namespace bonsai::cli {

// While it lives, and once graceful() was called, the first SIGINT or SIGTERM requests a stop and the second ends the
// process at once; before graceful() the first does. Make it before other threads, which inherit that these signals
// are blocked and leave them to the one that waits for them here.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  // Each call begins anew, with a token that no signal has stopped. `ends_on_second`: as above; else SIGINT, however
  // often, only requests that stop, and SIGTERM alone can end the process.
  std::stop_token graceful(bool ends_on_second = true);
  // As before graceful(): the next signal ends the process; but where a person types a line, SIGINT is none of ours.
  void abrupt(bool ignores_interrupts = false);

  // The exit code that tells a shell which signal it was, 128 + its number; 0: none came since graceful().
  int exit_code() const { return exit_code_; }

 private:
  void wait_for_signals();
  void handle(int signal);
  [[noreturn]] void end_process(int signal) const;

  termios terminal_{};  // as it was, if stdin is one
  bool has_terminal_ = false;
  std::mutex mutex_;  // for the next four
  std::stop_source stop_;
  bool is_graceful_ = false;
  bool ends_on_second_ = true;
  bool ignores_interrupts_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<int> exit_code_ = 0;
  std::thread thread_;
};

}  // namespace bonsai::cli
