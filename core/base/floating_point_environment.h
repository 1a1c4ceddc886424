// The floating-point environment that every result is computed in.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bonsai {

// While it lives, this thread rounds to nearest even, keeps subnormals (neither flush-to-zero nor denormals-are-zero)
// and traps nothing: a host that set something else still gets the same bytes. Afterwards the thread has its own
// settings back.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() : saved_(read()) {
    if (saved_ != kDefault) write(kDefault);
  }
  ~DefaultFloatingPoint() { write(saved_); }
  DefaultFloatingPoint(const DefaultFloatingPoint &) = delete;
  DefaultFloatingPoint &operator=(const DefaultFloatingPoint &) = delete;

 private:
#if defined(__x86_64__)
  using Register = uint32_t;                    // MXCSR
  static constexpr Register kDefault = 0x1F80;  // all exceptions masked, everything else off
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = uint64_t;  // FPCR
  static constexpr Register kDefault = 0;
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#endif
  Register saved_;
};

}  // namespace bonsai
