// Faults of the faulty backend against the process that it lives in.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cfenv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace bonsai::test {

// Does what the fault says if it is one of these and says it of this function: "crashes in gemv". It crashes by
// std::abort, since sanitizers catch bad addresses themselves.
inline void commit_process_fault(std::string_view fault, std::string_view function) {
  if (!fault.ends_with(function)) return;
  if (fault.starts_with("crashes in ")) std::abort();
  if (fault.starts_with("crashes after ")) std::atexit([] { std::abort(); });
  if (fault.starts_with("ends the process in ")) std::_Exit(7);
  if (fault.starts_with("rounds otherwise after ")) {
    std::fesetround(std::fegetround() == FE_UPWARD ? FE_DOWNWARD : FE_UPWARD);
  }
  if (fault.starts_with("leaves a file open in ")) (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (fault.starts_with("leaves a thread behind in ")) std::thread([] { pause(); }).detach();
  if (fault.starts_with("prints in ")) std::puts("words of the plugin");
  while (fault.starts_with("hangs in ")) pause();
}

}  // namespace bonsai::test
