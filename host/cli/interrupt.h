// Ctrl-C and SIGTERM as a stop token.
#pragma once

#include <atomic>
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

  std::stop_token graceful();

  // The exit code that tells a shell which signal it was, 128 + its number; 0: none came.
  int exit_code() const { return exit_code_; }

 private:
  void wait_for_signals();

  std::stop_source stop_;
  std::atomic<bool> is_graceful_ = false;
  std::atomic<bool> ending_ = false;
  std::atomic<int> exit_code_ = 0;
  std::thread thread_;
};

}  // namespace bonsai::cli
