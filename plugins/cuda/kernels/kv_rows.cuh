// Single heads of single tokens in the KV pool: rounding and storing them.
#pragma once

#include "kv_layout.cuh"
#include "simt.cuh"

namespace bonsai::cuda {

// A head's numbers in a warp: lane i has d = i, 32 + i, 64 + i, ...; zeros from the head's end on.
inline constexpr uint32_t kHeadUnits = kMaxHeadDim / kUnit;
inline constexpr uint16_t kHalfNaN = 0x7E00;

// Where one head of one token lies.
struct KvSlot {
  uint8_t *strip;
  uint32_t slot;  // in the strip
  bool is_value;
};
inline KvSlot find_slot(const KvPool &pool, const KvPlane &plane, uint32_t slot) {
  uint8_t *const begin = pool.data + kv_plane_offset(pool, plane);
  const uint32_t bytes = strip_bytes(pool.dtype, padded_head_dim(pool.head_dim));
  return {begin + slot / kStripSlots * bytes, slot % kStripSlots, plane.is_value != 0};
}

// How heads are stored; where a kernel is compiled for it, constants.
struct KvFormat {
  uint32_t dtype, padded;  // padded_head_dim
};
inline KvFormat format_of(const KvPool &pool) { return {pool.dtype, padded_head_dim(pool.head_dim)}; }

// Of one element, and of a group's scale: in the strip, and where that lies.
inline uint32_t element_place(const KvFormat &format, const KvSlot &of, uint32_t d) {
  return of.is_value ? value_offset(format.dtype, format.padded, of.slot, d) : key_offset(format.dtype, of.slot, d);
}
inline uint32_t scale_place(const KvFormat &format, const KvSlot &of, uint32_t unit) {
  return scale_offset(format.padded, of.slot, unit);
}
inline uint8_t *find_element(const KvPool &pool, const KvSlot &of, uint32_t d) {
  return of.strip + element_place(format_of(pool), of, d);
}
inline uint16_t *find_scale(const KvPool &pool, const KvSlot &of, uint32_t unit) {
  return reinterpret_cast<uint16_t *>(of.strip + scale_place(format_of(pool), of, unit));
}

// `x` to the nearest code, halves away from zero; NaN becomes 0. As core/quant/rounding.h has it.
inline int round_to_code(float x) {
  if (x != x) return 0;
  const float kept = fminf(fmaxf(x, -127.0f), 127.0f);
  const int even = float_to_int(kept);  // to the nearest, ties to even
  const float rest = kept - static_cast<float>(even);
  if (rest == 0.5f && kept > 0) return even + 1;
  if (rest == -0.5f && kept < 0) return even - 1;
  return even;
}

// To a place in a strip, and in the copy of it that a block may have (null: it has none).
template <class Number>
inline void store_number(const KvSlot &to, uint8_t *copy, uint32_t place, Number number) {
  *reinterpret_cast<Number *>(to.strip + place) = number;
  if (copy) *reinterpret_cast<Number *>(copy + place) = number;
}

// A warp rounds one group of 32 as BONSAI_DTYPE_Q8_0 does (core/quant/legacy_blocks.h) and stores it. A NaN spoils all
// of the group.
inline void store_group(const KvFormat &format, const KvSlot &to, uint8_t *copy, uint32_t unit, float x) {
  float largest = fabsf(x);  // of NaNs, fmaxf takes the other
  for (uint32_t mask = 16; mask > 0; mask /= 2) largest = fmaxf(largest, shuffle_xor(largest, mask));
  largest = fmaxf(largest, 0.0f);
  const bool has_nan = ballot(x != x) != 0;
  const float scale = divide(largest, 127.0f);
  const float inverse = scale != 0 && !has_nan ? divide(1.0f, scale) : 0;
  const auto code = static_cast<uint8_t>(round_to_code(x * inverse) + 128);
  store_number(to, copy, element_place(format, to, unit * kUnit + lane()), code);
  if (lane() == 0) store_number(to, copy, scale_place(format, to, unit), has_nan ? kHalfNaN : float_to_half(scale));
}

// A warp stores a head, rounded to the pool's dtype, the filling included. `copy`: as store_number takes it.
template <uint32_t kUnits>
inline void store_head(const KvFormat &format, const KvSlot &to, uint8_t *copy, const float (&head)[kUnits]) {
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    if (unit * kUnit >= format.padded) return;
    if (format.dtype == kKvQ8_0) {
      store_group(format, to, copy, unit, head[unit]);
      continue;
    }
    const uint32_t place = element_place(format, to, unit * kUnit + lane());
    if (format.dtype == kKvF16) {
      store_number(to, copy, place, float_to_half(head[unit]));
    } else {
      store_number(to, copy, place, head[unit]);
    }
  }
}

}  // namespace bonsai::cuda
