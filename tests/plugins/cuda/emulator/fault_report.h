// Names the kernel whose thread touches memory that is not there, before the program ends as it always would.
#pragma once

#include <signal.h>

#include "tests/plugins/cuda/emulator/emulator.h"

namespace bonsai::emulation {

// While it lives. Leaves the reporting to AddressSanitizer where there is one.
class FaultReport {
 public:
  explicit FaultReport(const Kernel &kernel);
  ~FaultReport();
  FaultReport(const FaultReport &) = delete;
  FaultReport &operator=(const FaultReport &) = delete;

 private:
  struct sigaction before_;
  stack_t stack_before_;
};

}  // namespace bonsai::emulation
