// The floating-point environment in which a plugin is called, and whether it leaves that as it finds it.
#pragma once

#include <string>

#include "core/base/floating_point_environment.h"
#include "tools/plugin-check/context.h"

namespace bonsai::check {

// What a caller may have set: rounding up, and subnormals that count as zero, as operands and as results.
#if defined(__x86_64__)
inline constexpr FloatingPointControl::Register kUnusualEnvironment = FloatingPointControl::kDefault | 0xC040;
#elif defined(__aarch64__)
inline constexpr FloatingPointControl::Register kUnusualEnvironment = 1u << 24 | 1u << 22;
#endif

// While it lives, every call into the plugin is made as by a thread with kUnusualEnvironment; the checks themselves
// compute as always. There is one at a time.
class UnusualCaller {
 public:
  UnusualCaller();
  ~UnusualCaller();
  UnusualCaller(const UnusualCaller &) = delete;
  UnusualCaller &operator=(const UnusualCaller &) = delete;
};

// Work whose calls are made so. A fault that it finds is said to be one under such a caller.
template <class Work>
void under_unusual_caller(Work work) {
  try {
    const UnusualCaller caller;
    work();
  } catch (const Failed &fault) {
    failed("called with rounding up and subnormals off: {}", fault.what());
  }
}

// The time of one call into the plugin, or of loading it. The thread has its own environment back afterwards.
class KeptEnvironment {
 public:
  explicit KeptEnvironment(const char *call);  // "gemv", for the fault
  ~KeptEnvironment();
  KeptEnvironment(const KeptEnvironment &) = delete;
  KeptEnvironment &operator=(const KeptEnvironment &) = delete;

 private:
  const char *const call_;
  const FloatingPointControl::Register own_;
  FloatingPointControl::Register found_;  // by the plugin
};

// The first call that left another environment than it found, since this was last asked; empty: there was none.
std::string take_environment_fault();

}  // namespace bonsai::check
