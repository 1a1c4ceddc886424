// Small matrices turned over in registers. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <stdint.h>
#include <string.h>

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Bytes as the rows of a matrix of 16 columns, turned into columns: four times what two packs of cards make when they
// are shuffled.
typedef int8_t Bytes16 __attribute__((vector_size(16)));
inline void transpose_16(Bytes16 (&rows)[16]) {
  for (int step = 0; step < 4; ++step) {
    Bytes16 shuffled[16];
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      shuffled[2 * i] =
          __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
      shuffled[2 * i + 1] =
          __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    }
    memcpy(rows, shuffled, sizeof rows);
  }
}

typedef float Floats4 __attribute__((vector_size(16)));
typedef int32_t Ints4 __attribute__((vector_size(16)));

// Four of these.
template <class Vector>
inline void transpose_4(Vector (&rows)[4]) {
  const Vector a = __builtin_shufflevector(rows[0], rows[1], 0, 4, 1, 5);
  const Vector b = __builtin_shufflevector(rows[0], rows[1], 2, 6, 3, 7);
  const Vector c = __builtin_shufflevector(rows[2], rows[3], 0, 4, 1, 5);
  const Vector d = __builtin_shufflevector(rows[2], rows[3], 2, 6, 3, 7);
  rows[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
  rows[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
  rows[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
  rows[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
