// Where weights lie that are read when two strips (packed_matrix.h), which are read side by side, have been. Always
// inline, all of it: the linker keeps one copy of a function, and it must not be one that a tier was compiled with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/packed_matrix.h"

namespace bonsai::cpu {

constexpr int kStripsAtOnce = 2;

// Addresses, not pointers: there need not be anything.
struct StripPlaces {
  uintptr_t begins[kStripsAtOnce];

  // What is read behind the first of kStripsAtOnce strips and behind the second, `strips_left` being the call's, these
  // included: the next two, which may be those of `then`; if only one is left, it, and what follows `ahead` bytes
  // behind its beginning. Where `then` is nowhere, what lies behind the last two.
  [[gnu::always_inline]] static StripPlaces behind(uintptr_t strips, size_t strip_bytes, uint64_t strips_left,
                                                   size_t ahead, const ReadingPlace &then) {
    const uintptr_t next = strips + kStripsAtOnce * strip_bytes;
    if (strips_left == kStripsAtOnce + 1) return {{next, next + ahead}};
    if (strips_left > kStripsAtOnce || !then.begin) return {{next, next + strip_bytes}};
    const auto begin = reinterpret_cast<uintptr_t>(then.begin);
    return {{begin, begin + then.strip_bytes}};
  }
};

}  // namespace bonsai::cpu
