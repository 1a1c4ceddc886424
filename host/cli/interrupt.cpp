#include "host/cli/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

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

InterruptGuard::InterruptGuard() {
  const sigset_t signals = interrupt_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  thread_ = std::thread([this] { wait_for_signals(); });
}

InterruptGuard::~InterruptGuard() {
  ending_ = true;
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

std::stop_token InterruptGuard::graceful() {
  is_graceful_ = true;
  return stop_.get_token();
}

void InterruptGuard::wait_for_signals() {
  const sigset_t signals = interrupt_signals();
  for (;;) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || ending_) return;
    if (!is_graceful_ || stop_.stop_requested()) ::_exit(128 + signal);
    exit_code_ = 128 + signal;
    stop_.request_stop();
  }
}

}  // namespace bonsai::cli
