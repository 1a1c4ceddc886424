// What weights for tile registers are made with, beside the vocabulary of simd/avx512/vector.h.
#pragma once

#include <immintrin.h>
#include <stdint.h>

#include "plugins/cpu/simd/avx512/vector.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Each of the 64.
inline Bytes64 sub_bytes(Bytes64 a, Bytes64 b) { return {_mm512_sub_epi8(a.v, b.v)}; }

// `low` and `high` in turn.
inline Bytes64 splat_two_bytes(uint8_t low, uint8_t high) {
  return {_mm512_set1_epi16(static_cast<int16_t>(low | high << 8))};
}

// Of each 16 bits, what the table of 32 has for the lowest five.
inline Bytes64 look_up_32(const uint16_t *table, Bytes64 index) {
  return {_mm512_permutexvar_epi16(index.v, _mm512_loadu_si512(table))};
}

inline I16x32 load_i16(const int32_t *from) { return {_mm512_loadu_si512(from)}; }

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
