#include "plugins/cpu/team.h"

#include <sched.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bonsai::cpu {
namespace {

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void Team::Patience::wait() {
  constexpr int kLooks = 1000;  // some 10 to 40 us
  if (looks_ < kLooks) {
    ++looks_;
    pause();
  } else {
    ::sched_yield();
  }
}

}  // namespace bonsai::cpu
