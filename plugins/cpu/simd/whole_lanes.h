// The vocabulary's Lanes where one register, or enough of them, hold 16: the end of vector.h.
#pragma once

namespace bonsai::cpu::BONSAI_TIER {
namespace {

using Lanes = F32x16;
constexpr int kLaneParts = 1;

template <int kPart>
Lanes part(F32x16 v) {
  return v;
}

inline Lanes load_lanes(const float *from) { return load(from); }
inline void store_lanes(float *to, Lanes v) { store(to, v); }

inline void hold_lanes([[maybe_unused]] Lanes &v) {
#ifdef __AVX512F__  // and not emulated
  asm("" : "+v"(v.v));
#endif
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
