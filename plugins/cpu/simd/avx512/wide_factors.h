// Panels of many vectors multiply sums with integers in 32 bits: for processors that do so as fast as in 16.
#pragma once

#include <immintrin.h>

#include "plugins/cpu/simd/avx512/vector.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr bool kWideFactors = true;

// The lower 32 bits of each product.
inline I32x16 mul(I32x16 a, I32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }

// Every second word, with its sign.
inline I32x16 even_words(I16x32 a) { return SignLookup::even_lanes(a); }
inline I32x16 odd_words(I16x32 a) { return SignLookup::odd_lanes(a); }

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
