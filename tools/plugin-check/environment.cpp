#include "tools/plugin-check/environment.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace bonsai::check {
namespace {

// Calls come from destructors too, which cannot throw, and from several threads.
std::atomic<bool> is_unusual = false;
std::mutex first_fault_mutex;
std::string first_fault;

FloatingPointControl::Register settings() { return FloatingPointControl::read() & ~FloatingPointControl::kFlags; }

void note(const char *call, FloatingPointControl::Register found, FloatingPointControl::Register left) {
  const std::lock_guard lock(first_fault_mutex);
  if (!first_fault.empty()) return;
  first_fault = fmt::format("{} leaves another floating-point environment: a control register of {:#x}, found as {:#x}",
                            call, left, found);
}

}  // namespace

UnusualCaller::UnusualCaller() { is_unusual = true; }
UnusualCaller::~UnusualCaller() { is_unusual = false; }

KeptEnvironment::KeptEnvironment(const char *call) : call_(call), own_(FloatingPointControl::read()) {
  if (is_unusual) FloatingPointControl::write(kUnusualEnvironment);
  found_ = settings();
}

KeptEnvironment::~KeptEnvironment() {
  const FloatingPointControl::Register left = settings();
  FloatingPointControl::write(own_);
  if (left != found_) note(call_, found_, left);
}

std::string take_environment_fault() {
  const std::lock_guard lock(first_fault_mutex);
  return std::exchange(first_fault, {});
}

}  // namespace bonsai::check
