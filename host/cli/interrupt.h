// Ctrl-C, SIGTERM and SIGHUP as a stop token.
#pragma once

#include <termios.h>

#include <atomic>
#include <csignal>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace bonsai::cli {

// While it lives, and once graceful() was called, the first of these signals requests a stop and the second ends the
// process at once (but no SIGHUP: a terminal that closes sends two); before graceful() the first does. Make it before
// other threads, which inherit that these signals are blocked and leave them to the one that waits for them here.
// SIGINT and SIGHUP stay ignored where they are, as nohup and shells' background jobs have it.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard &) = delete;
  InterruptGuard &operator=(const InterruptGuard &) = delete;

  // Each call begins anew, with a token that no signal has stopped but one that Busy has kept. `ends_on_second`: as
  // above; else SIGINT, however often, only requests that stop, and SIGTERM alone can end the process.
  std::stop_token graceful(bool ends_on_second = true);
  // As before graceful(): the next signal ends the process; but where a person types a line, SIGINT is none of ours.
  void abrupt(bool ignores_interrupts = false);

  // While it lives, a signal that ends the process runs `last` before, perhaps in a thread of ours. Its destructor
  // waits for that. Precondition: `last` throws nothing.
  class LastWords {
   public:
    LastWords(InterruptGuard &guard, std::function<void()> last);
    ~LastWords();
    LastWords(const LastWords &) = delete;
    LastWords &operator=(const LastWords &) = delete;

   private:
    InterruptGuard &guard_;
  };

  // While it lives, such a signal waits for its destructor, or for graceful(): what LastWords would use is at work.
  class Busy {
   public:
    explicit Busy(InterruptGuard &guard);
    ~Busy();
    Busy(const Busy &) = delete;
    Busy &operator=(const Busy &) = delete;

   private:
    InterruptGuard &guard_;
  };

  // The exit code that tells a shell which signal it was, 128 + its number; 0: none came since graceful().
  int exit_code() const { return exit_code_; }

 private:
  static sigset_t signals();
  void wait_for_signals();
  void handle(int signal);
  [[noreturn]] void say_last_and_end(int signal) const;
  [[noreturn]] void end_process(int signal) const;

  const sigset_t signals_ = signals();
  termios terminal_{};  // as it was, if stdin is one
  bool has_terminal_ = false;
  std::mutex mutex_;  // for the next seven
  std::stop_source stop_;
  bool is_graceful_ = false;
  bool ends_on_second_ = true;
  bool ignores_interrupts_ = false;
  std::function<void()> last_;
  bool is_busy_ = false;
  int kept_ = 0;  // the signal that waits until nothing is busy; 0: none
  std::atomic<bool> ending_ = false;
  std::atomic<int> exit_code_ = 0;
  std::thread thread_;
};

}  // namespace bonsai::cli
