// The operations of vector.h on given operands. The last include of a translation unit that defines BONSAI_TIER and
// includes a tier's vector.h.
#pragma once

#include <initializer_list>

#include "tests/plugins/cpu/digest/vocabulary.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// One round's operands, and where its results go.
class Round {
 public:
  Round(const uint32_t *operands, uint32_t *results) : operands_(operands), begin_(results), to_(results) {}

  const uint8_t *bytes(int index) const { return reinterpret_cast<const uint8_t *>(operands_ + 16 * index); }
  const uint16_t *halves(int index) const { return reinterpret_cast<const uint16_t *>(operands_ + 16 * index); }
  F32x16 floats(int index) const { return load(reinterpret_cast<const float *>(operands_ + 16 * index)); }
  // A quarter of what int32 holds: sums of three may not overflow.
  I32x16 integers(int index) const {
    return shift_right<2>(load_i32(reinterpret_cast<const int32_t *>(operands_ + 16 * index)));
  }

  // As many bits as the value has: exactly these.
  template <class Value>
  void exactly(Value value) {
    static_assert(sizeof value % sizeof *to_ == 0);
    memcpy(to_, &value, sizeof value);
    to_ += sizeof value / sizeof *to_;
  }
  // Every NaN alike.
  void floating(F32x16 value) { exactly(canonical_nan(value)); }
  void floating(float value) { floating(splat(value)); }

  size_t size() const { return static_cast<size_t>(to_ - begin_); }

 private:
  const uint32_t *operands_;
  uint32_t *begin_, *to_;
};

// noinline: where n is a constant, GCC 12 warns of elements that do not exist.
[[gnu::noinline]] void run_partial(Round &round, size_t n) {
  float lanes[17];
  memset(lanes, 0x5A, sizeof lanes);
  store_partial(lanes + 1, round.floats(0), n);
  round.exactly(load(lanes));
  round.exactly(load_partial(reinterpret_cast<const float *>(round.bytes(1)) + (16 - n), n));
  round.floating(load_f16_partial(round.halves(1) + (16 - n), n));
  round.exactly(load_bf16_partial(round.halves(1) + (16 - n), n));
}

void run_memory(Round &round) {
  for (size_t n = 0; n <= 16; ++n) run_partial(round, n);
  round.exactly(load_bytes(round.bytes(0) + 1));
  round.exactly(splat(reduce_add(splat(0.5f))));
  round.exactly(splat_i32(round.bytes(0)[0]));
  round.exactly(splat_byte(round.bytes(0)[0]));
  round.exactly(splat_4_bytes(round.bytes(0) + 1));
}

void run_arithmetic(Round &round) {
  const F32x16 a = round.floats(0), b = round.floats(1), c = round.floats(2);
  for (const F32x16 &result : {add(a, b), sub(a, b), mul(a, b), div(a, b), fma(a, b, c), sqrt(a)}) {
    round.floating(result);
  }
  for (const F32x16 &result : {min(a, b), max(a, b), select(less(a, b), a, c), select(less_equal(a, b), a, c),
                               select(equal(a, b), a, c), canonical_nan(a), from_bits(bits_of(a))}) {
    round.exactly(result);
  }
  const F32x16 numbers = select(equal(a, a), a, splat(-0.0f));
  round.exactly(reduce_max(numbers));
  const Mask16 negative = less(a, splat(0.0f));
  round.exactly(reduce_max(select(negative, splat(-0.0f), splat(0.0f))));
  round.floating(reduce_add(a));
  float vectors[17 * 16];
  for (int i = 0; i < 17; ++i) store(vectors + 16 * i, i % 3 == 0 ? a : i % 3 == 1 ? b : mul(c, splat(1.0f + i)));
  round.floating(reduce_add_each(vectors + 3, 16));
}

void run_integers(Round &round) {
  const I32x16 a = round.integers(0), b = round.integers(1);
  for (const I32x16 &result : {add(a, b), sub(a, b), max(a, b), bit_and(a, b), shift_left<1>(a), shift_left<8>(a),
                               shift_left<16>(a), shift_left<23>(a), shift_left<24>(a), shift_right<1>(a),
                               shift_right<2>(a), to_i32(round.floats(0)), bits_of(to_f32(a))}) {
    round.exactly(result);
  }
  round.exactly(reduce_add(shift_right<4>(a)));
  round.exactly(reduce_max(a));
  round.exactly(reduce_max_each(a, b, add(a, splat_i32(1)), splat_i32(-1)));
  for (const I32x16 swapped : {swap_lanes<1>(a), swap_lanes<2>(a), swap_lanes<4>(a)}) round.exactly(swapped);
}

template <int kMantissaBits>
void run_f8(Round &round) {
  alignas(64) float floats[4][16];
  constexpr int kLanes = 16 / kLaneParts;
  for (int first = 0; first < 16; first += kLanes) {
    Lanes some[4];
    load_f8<kMantissaBits>(round.bytes(0) + 4 * first, some);
    for (int i = 0; i < 4; ++i) store_lanes(floats[i] + first, some[i]);
  }
  for (const float(&one)[16] : floats) round.exactly(load(one));
}

void run_conversions(Round &round) {
  round.exactly(load_i8(reinterpret_cast<const int8_t *>(round.bytes(0) + 3)));
  round.floating(load_f16(round.halves(0)));
  round.exactly(load_bf16(round.halves(0)));
  run_f8<3>(round);
  run_f8<2>(round);
  uint16_t halves[32];
  const F32x16 a = round.floats(0), numbers = select(equal(a, a), a, splat(1.0f));
  store_f16(halves, numbers);
  store_f16_partial(halves + 16, numbers, 16);
  round.exactly(load_bytes(halves));
  memset(halves, 0x5A, sizeof halves);
  store_f16_partial(halves, numbers, 7);
  round.exactly(load_bytes(halves));
}

void run_bytes(Round &round) {
  const Bytes64 a = load_bytes(round.bytes(0)), b = load_bytes(round.bytes(1));
  uint8_t stored[65] = {};
  store_bytes(stored + 1, a);
  round.exactly(load_bytes(stored));
  for (const Bytes64 &result :
       {bit_and(a, b), bit_or(a, b), join_even_halves(a, b), join_odd_halves(a, b),
        bit_and(shift_right_bytes<1>(a), splat_byte(0x7F)), bit_and(shift_right_bytes<2>(a), splat_byte(0x3F)),
        bit_and(shift_right_bytes<4>(a), splat_byte(0x0F)), bit_and(shift_left_bytes<1>(a), splat_byte(0xFE)),
        bit_and(shift_left_bytes<2>(a), splat_byte(0xFC)), bit_and(shift_left_bytes<4>(a), splat_byte(0xF0)),
        shift_right_bytes<0>(a), shift_left_bytes<0>(a)}) {
    round.exactly(result);
  }
}

// -127 to 127.
Bytes64 activations(const uint8_t *from, int32_t (&sums)[16]) {
  uint8_t bytes[64];
  for (int i = 0; i < 64; ++i) {
    bytes[i] = from[i] == 0x80 ? 0x81 : from[i];
    sums[i / 4] = (i % 4 == 0 ? 0 : sums[i / 4]) + static_cast<int8_t>(bytes[i]);
  }
  return load_bytes(bytes);
}

void run_dots(Round &round) {
  int32_t sums[16];
  const Bytes64 codes = bit_and(load_bytes(round.bytes(0)), splat_byte(63)), x = activations(round.bytes(1), sums);
  const I32x16 total = round.integers(2);
  const DotSum sum = dot4(dot4(zero_dot_sum(), codes, x), splat_byte(63), x);
  const I16x32 pairs = load_i8_pairs(round.bytes(1) + 1);
  const auto multiplier = [](int value) {
    const auto m = static_cast<int16_t>(value);
    return GroupMultiplier{{m, 0, m, m}};
  };
  const GroupMultiplier usual = multiplier(round.bytes(2)[0] * 4), largest = multiplier(1023);
  const GroupMultiplier of_scale = multiplier(round.bytes(2)[1] % 17);
  // 16 bits hold it: codes of 0 to 3.
  const DotSum small = dot4(zero_dot_sum(), bit_and(codes, splat_byte(3)), x);
  for (const I32x16 &result :
       {add_multiplied<0>(total, small, usual), add_multiplied<1>(total, small, usual),
        add_multiplied<2>(total, small, largest), end_dot_sum(total, dot4(begin_dot_sum(total), codes, x)),
        add_scaled_dot_sum(total, sum, repeat_even(pairs), of_scale),
        add_scaled_dot_sum(total, sum, repeat_odd(pairs), of_scale), dot2(total, pairs, load_i8_pairs(round.bytes(2))),
        mul(shift_right<10>(total), largest)}) {
    round.exactly(result);
  }
  for (int32_t &one : sums) one *= kSignedDotBias;
  const SignedWeights weights = signed_weights(load_bytes(round.bytes(2)));
  const I32x16 signed_dot = take_excess(dot4_signed(shift_right<1>(total), weights, x), add_excess({}, weights));
  round.exactly(sub(signed_dot, load_i32(sums)));
  for (const I16x32 &result : {pairs, repeat_even(pairs), repeat_odd(pairs), nibbles<0>(pairs), nibbles<4>(pairs),
                               splat_pair(reinterpret_cast<const int16_t *>(round.bytes(0) + 2))}) {
    round.exactly(result);
  }
}

size_t run_vocabulary(const uint32_t *operands, uint32_t *results) {
  Round round(operands, results);
  run_memory(round);
  run_arithmetic(round);
  run_integers(round);
  run_conversions(round);
  run_bytes(round);
  run_dots(round);
  return round.size();
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
