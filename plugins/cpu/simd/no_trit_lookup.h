// The vocabulary's TritLookup where there is none, and what it is where there is one: the end of vector.h.
#pragma once

#include <stddef.h>

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Whether sums of activations times ternary codes are looked up (kernels/trits_matmul.inl.h). A tier where they are has
// in it what SignLookup has (no_sign_lookup.h) but for sum_group and sum_bytes, and of 32 lanes of 16 bits
//   I16x32 load(const void *), I16x32 load_wide(const void *)  32 of them, and of bytes
//   I16x32 shift_right<kBits>(a)                               unsigned
//   I16x32 nibble_and_top(a, b)                                bits 12 to 15 of a, and above them bits 6 and 7 of b
//   void hold(a)                                               for the compiler: a is to be in a register here
//   Table32(const int16_t *), Table64(const int16_t *)         tables; their look_up(index) by the lowest 5 or 6 bits
// A tier without it takes no matrix with Packing::kTrits.
struct TritLookup {
  static constexpr bool kExists = false;
  static constexpr size_t kElements = 0;
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
