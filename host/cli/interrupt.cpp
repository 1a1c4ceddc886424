#include "host/cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace bonsai::cli {
namespace {

bool is_ignored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

sigset_t InterruptGuard::signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  for (const int signal : {SIGINT, SIGHUP})
    if (!is_ignored(signal)) sigaddset(&signals, signal);
  return signals;
}

InterruptGuard::InterruptGuard() : has_terminal_(::tcgetattr(STDIN_FILENO, &terminal_) == 0) {
  pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
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
  if (kept_ != 0) {
    exit_code_ = 128 + std::exchange(kept_, 0);
    stop_.request_stop();
  }
  return stop_.get_token();
}

void InterruptGuard::abrupt(bool ignores_interrupts) {
  const std::lock_guard lock(mutex_);
  is_graceful_ = false;
  ignores_interrupts_ = ignores_interrupts;
}

InterruptGuard::LastWords::LastWords(InterruptGuard &guard, std::function<void()> last) : guard_(guard) {
  const std::lock_guard lock(guard_.mutex_);
  guard_.last_ = std::move(last);
}

InterruptGuard::LastWords::~LastWords() {
  const std::lock_guard lock(guard_.mutex_);
  guard_.last_ = nullptr;
}

InterruptGuard::Busy::Busy(InterruptGuard &guard) : guard_(guard) {
  const std::lock_guard lock(guard_.mutex_);
  guard_.is_busy_ = true;
}

InterruptGuard::Busy::~Busy() {
  const std::lock_guard lock(guard_.mutex_);
  guard_.is_busy_ = false;
  if (guard_.kept_ != 0) guard_.say_last_and_end(guard_.kept_);
}

void InterruptGuard::wait_for_signals() {
  for (;;) {
    int signal = 0;
    if (sigwait(&signals_, &signal) != 0 || ending_) return;
    handle(signal);
  }
}

void InterruptGuard::say_last_and_end(int signal) const {
  if (last_) last_();
  end_process(signal);
}

// In the middle of a line the terminal shows no keys: a shell would inherit that.
void InterruptGuard::end_process(int signal) const {
  if (has_terminal_) ::tcsetattr(STDIN_FILENO, TCSANOW, &terminal_);
  ::_exit(128 + signal);
}

void InterruptGuard::handle(int signal) {
  const std::lock_guard lock(mutex_);
  if (!is_graceful_) {
    if (ignores_interrupts_ && signal == SIGINT) return;
    if (!is_busy_) say_last_and_end(signal);
    kept_ = signal;
    return;
  }
  const bool counts = signal == SIGTERM || (signal == SIGINT && ends_on_second_);
  if (stop_.stop_requested() && counts) end_process(signal);
  exit_code_ = 128 + signal;
  stop_.request_stop();
}

}  // namespace bonsai::cli
