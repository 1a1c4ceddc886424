#include "host/cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <system_error>

namespace bonsai::cli {
namespace {

sigset_t interrupt_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

InterruptGuard::InterruptGuard() : has_terminal_(::tcgetattr(STDIN_FILENO, &terminal_) == 0) {
  const sigset_t signals = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  try {
    thread_ = std::thread([this] { wait_for_signals(); });
  } catch (const std::system_error &error) {
    throw std::runtime_error(std::string("the thread that waits for Ctrl-C cannot be started: ") + error.what());
  }
}

InterruptGuard::~InterruptGuard() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

std::stop_token InterruptGuard::graceful(bool ends_on_second) {
  const std::lock_guard lock(mutex_);
  is_graceful_ = true;
  ends_on_second_ = ends_on_second;
  exit_code_ = 0;
  stop_ = std::stop_source();
  return stop_.get_token();
}

void InterruptGuard::abrupt(bool ignores_interrupts) {
  const std::lock_guard lock(mutex_);
  is_graceful_ = false;
  ignores_interrupts_ = ignores_interrupts;
}

void InterruptGuard::wait_for_signals() {
  const sigset_t signals = interrupt_signals();
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || ending_) return;
    handle(signal);
  }
}

// In the middle of a line the terminal shows no keys: a shell would inherit that.
void InterruptGuard::end_process(int signal) const {
  if (has_terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_);
  ::_exit(128 + signal);
}

void InterruptGuard::handle(int signal) {
  const std::lock_guard lock(mutex_);
  const bool is_second = stop_.stop_requested() && (ends_on_second_ || signal == SIGTERM);
  if (!is_graceful_ && ignores_interrupts_ && signal == SIGINT) return;
  if (!is_graceful_ || is_second) end_process(signal);
  exit_code_ = 128 + signal;
  stop_.request_stop();
}

}  // namespace bonsai::cli
