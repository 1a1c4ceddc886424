// The floating-point environment that every result is computed in.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bonsai {

// How this thread rounds, whether it flushes subnormals, and what it traps: a register that a thread has for itself.
struct FloatingPointControl {
#if defined(__x86_64__)
  using Register = uint32_t;                    // MXCSR
  static constexpr Register kDefault = 0x1F80;  // all exceptions masked, everything else off
  static constexpr Register kFlags = 0x3F;      // what has happened: results leave these, and nothing depends on them
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = uint64_t;  // FPCR
  static constexpr Register kDefault = 0;
  static constexpr Register kFlags = 0;  // they are in another register
  static Register read() {
    Register value;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value)); }
#endif
};

// While it lives, code runs that is not ours: whatever it sets, the thread has its own settings back afterwards. That
// takes nanoseconds: the register is written only where it was changed.
class KeptFloatingPoint {
 public:
  KeptFloatingPoint() : saved_(FloatingPointControl::read()) {}
  ~KeptFloatingPoint() {
    const FloatingPointControl::Register changed = FloatingPointControl::read() ^ saved_;
    if ((changed & ~FloatingPointControl::kFlags) != 0) FloatingPointControl::write(saved_);
  }
  KeptFloatingPoint(const KeptFloatingPoint &) = delete;
  KeptFloatingPoint &operator=(const KeptFloatingPoint &) = delete;

 private:
  FloatingPointControl::Register saved_;
};

// While it lives, this thread rounds to nearest even, keeps subnormals (neither flush-to-zero nor denormals-are-zero)
// and traps nothing: a host that set something else still gets the same bytes. Afterwards the thread has its own
// settings back.
class DefaultFloatingPoint {
 public:
  DefaultFloatingPoint() : saved_(FloatingPointControl::read()) {
    if (saved_ != FloatingPointControl::kDefault) FloatingPointControl::write(FloatingPointControl::kDefault);
  }
  ~DefaultFloatingPoint() { FloatingPointControl::write(saved_); }
  DefaultFloatingPoint(const DefaultFloatingPoint &) = delete;
  DefaultFloatingPoint &operator=(const DefaultFloatingPoint &) = delete;

 private:
  FloatingPointControl::Register saved_;
};

}  // namespace bonsai
