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

inline Lanes splat_lanes(float value) { return splat(value); }
inline Lanes load_lanes(const float *from) { return load(from); }
inline Lanes load_lanes_f16(const uint16_t *from) { return load_f16(from); }
inline void store_lanes(float *to, Lanes v) { store(to, v); }

inline void hold_lanes([[maybe_unused]] Lanes &v) {
#ifdef __AVX512F__  // and not emulated
  asm("" : "+v"(v.v));
#endif
}

// Two codes of a word lie at the top of its halves, the other two are shifted there.
template <int kMantissaBits>
[[gnu::always_inline]] inline void load_f8(const uint8_t *words, Lanes (&to)[4]) {
  const I32x16 bits = splat_i32(f8_bits<kMantissaBits>());
  int32_t copy[16];
  memcpy(copy, words, sizeof copy);
  Lanes words_of_rows = from_bits(load_i32(copy));
  hold_lanes(words_of_rows);
  const I32x16 v = bits_of(words_of_rows);
  const I32x16 odd = shift_right_halves<kMantissaBits + 1>(v);
  const I32x16 even = shift_right_halves<kMantissaBits + 1>(shift_left<8>(v));
  to[0] = from_bits(bit_and(shift_left<16>(even), bits));
  to[1] = from_bits(bit_and(shift_left<16>(odd), bits));
  to[2] = from_bits(bit_and(even, bits));
  to[3] = from_bits(bit_and(odd, bits));
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
