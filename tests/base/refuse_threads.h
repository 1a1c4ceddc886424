// A process that is allowed no thread more. For a death test in the style "threadsafe": what oneTBB, or the C library,
// has started before is there.
#pragma once

#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <system_error>
#include <thread>

namespace bonsai::test {

// For good. Ends the process where threads are allowed all the same.
inline void refuse_threads() {
  constexpr uid_t kNobody = 65534;
  const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
  // The limit is nothing to the superuser.
  if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) std::_Exit(98);
  if (setrlimit(RLIMIT_NPROC, &none) != 0) std::_Exit(98);
  try {
    std::thread([] {}).join();
    std::_Exit(99);
  } catch (const std::system_error &) {
  }
}

}  // namespace bonsai::test
