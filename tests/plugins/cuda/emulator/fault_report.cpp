#include "tests/plugins/cuda/emulator/fault_report.h"

#include <unistd.h>

#include <array>
#include <cstdio>

#include "tests/plugins/cuda/emulator/device.h"

namespace bonsai::emulation {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

FaultReport::FaultReport(const Kernel &) {}

FaultReport::~FaultReport() = default;

#else

namespace {

// One launch runs at a time. The handler has a stack of its own: the fiber's may be what was overrun.
const Kernel *running = nullptr;
std::array<char, 64 * 1024> handler_stack;

void report(int signal, siginfo_t *info, void *) {
  char text[512];
  const Position &at = position;
  const int n = std::snprintf(
      text, sizeof text, "%s: %s, block (%u, %u, %u), thread %u: an access to %p, which is not its memory\n",
      running->unit.c_str(), running->name.c_str(), at.block_x, at.block_y, at.block_z, at.thread, info->si_addr);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, static_cast<size_t>(n));
  ::signal(signal, SIG_DFL);  // the access is made again, and ends the program
}

}  // namespace

FaultReport::FaultReport(const Kernel &kernel) {
  running = &kernel;
  const stack_t stack = {.ss_sp = handler_stack.data(), .ss_flags = 0, .ss_size = handler_stack.size()};
  sigaltstack(&stack, &stack_before_);
  struct sigaction action = {};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &before_);
}

FaultReport::~FaultReport() {
  sigaction(SIGSEGV, &before_, nullptr);
  sigaltstack(&stack_before_, nullptr);
}

#endif

}  // namespace bonsai::emulation
