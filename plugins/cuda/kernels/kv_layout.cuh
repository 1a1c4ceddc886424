// Where the KV pool keeps each number. Host and device both know.
//
// The pool is (layer, block, kv_head, key | value, strip); a strip holds 16 slots of one block. Within a strip numbers
// lie in the order in which the tensor cores' fragments want them (simt.cuh, mma_f16_k16): a warp that takes 16 bytes a
// lane, one 512-byte piece after the other, has in its registers what it multiplies, and what it reads is contiguous.
//
// Heads are filled up with zeros to a padded size D, a multiple of 32; a unit is 32 places along D (a group of Q8_0).
// With place j = d % 32 of unit u = d / 32, and slot s of the strip:
//
//   F16 keys     piece (u, s / 8), lane 4 (s % 8) + j / 8: halves j % 8
//   F16 values   piece (u, j % 8 / 4), lane 4 g + s % 8 / 2 with g = 2 (j / 8) + j % 2: halves 4 (j % 4 / 2) +
//                2 (s / 8) + s % 2
//   Q8_0 keys    piece (u), lane 4 (s % 8) + j / 8: bytes 8 (s / 8) + j % 8 / 4 * 4 + order[j % 4]
//   Q8_0 values  piece (u), lane 4 g + s % 8 / 2: bytes 4 (j % 8 / 2) + order[2 (s / 8) + s % 2]
//                with order = {0, 2, 1, 3}, each byte code + 128: so two operations make halves of two bytes;
//                after all pieces: half scales (u, s)
//   F32 keys     (d / 4, s, d % 4): floats
//   F32 values   (s, d): floats
#pragma once

#include "plain_types.h"

namespace bonsai::cuda {

// The values of bonsai_kv_dtype.
inline constexpr uint32_t kKvF16 = 0;
inline constexpr uint32_t kKvQ8_0 = 1;
inline constexpr uint32_t kKvF32 = 2;

inline constexpr uint32_t kStripSlots = 16;
inline constexpr uint32_t kUnit = 32;         // places along a head; Q8_0's group
inline constexpr uint32_t kMaxHeadDim = 256;  // even numbers up to this are served

// What a head is filled up to: 32, 64, 96, 128, 192 or 256, for which kernels are compiled.
constexpr uint32_t padded_head_dim(uint32_t head_dim) {
  const uint32_t step = head_dim > 128 ? 64 : kUnit;
  return (head_dim + step - 1) / step * step;
}

// Of one strip of keys, or of values: 16 slots. A multiple of 16.
constexpr uint32_t strip_bytes(uint32_t dtype, uint32_t padded) {
  const uint32_t values = kStripSlots * padded;
  return dtype == kKvF16 ? 2 * values : dtype == kKvF32 ? 4 * values : values + values / kUnit * 2;
}

// Where the n-th of four codes of Q8_0 lies in their 32 bits.
constexpr uint32_t code_byte(uint32_t n) { return n % 2 * 2 + n / 2; }

// Offsets in a strip, in bytes. `d` below the padded size, `slot` below 16.
constexpr uint32_t key_offset(uint32_t dtype, uint32_t slot, uint32_t d) {
  const uint32_t unit = d / kUnit, place = d % kUnit, lane = 4 * (slot % 8) + place / 8;
  if (dtype == kKvF16) return ((2 * unit + slot / 8) * 32 + lane) * 16 + 2 * (place % 8);
  if (dtype == kKvQ8_0) return (unit * 32 + lane) * 16 + 8 * (slot / 8) + place % 8 / 4 * 4 + code_byte(place % 4);
  return 4 * ((d / 4 * kStripSlots + slot) * 4 + d % 4);
}
constexpr uint32_t value_offset(uint32_t dtype, uint32_t padded, uint32_t slot, uint32_t d) {
  const uint32_t unit = d / kUnit, place = d % kUnit, column = 2 * (place / 8) + place % 2;
  const uint32_t lane = 4 * column + slot % 8 / 2, of_slots = 2 * (slot / 8) + slot % 2;
  if (dtype == kKvF16) {
    return ((2 * unit + place % 8 / 4) * 32 + lane) * 16 + 2 * (4 * (place % 4 / 2) + of_slots);
  }
  if (dtype == kKvQ8_0) return (unit * 32 + lane) * 16 + 4 * (place % 8 / 2) + code_byte(of_slots);
  return 4 * (slot * padded + d);
}
// Of a Q8_0 group's scale, in keys and in values.
constexpr uint32_t scale_offset(uint32_t padded, uint32_t slot, uint32_t unit) {
  return kStripSlots * padded + 2 * (unit * kStripSlots + slot);
}

// The pool of a session.
struct KvPool {
  uint8_t *data;      // aligned to 16 bytes
  uint32_t dtype;     // kKvF16, kKvQ8_0, kKvF32
  uint32_t head_dim;  // even, at most kMaxHeadDim
  uint32_t kv_heads;
  uint32_t block_size;  // slots: 16, 32, 64 or 128
  uint32_t n_blocks;
};

// Of one head's keys, or values, in one block: its strips.
constexpr uint32_t kv_plane_bytes(const KvPool &pool) {
  return pool.block_size / kStripSlots * strip_bytes(pool.dtype, padded_head_dim(pool.head_dim));
}
// Of one block in one layer, which is contiguous.
constexpr uint64_t kv_block_bytes(const KvPool &pool) { return uint64_t{2} * pool.kv_heads * kv_plane_bytes(pool); }
constexpr uint64_t kv_pool_bytes(const KvPool &pool, uint32_t layers) {
  return layers * (pool.n_blocks * kv_block_bytes(pool));
}

// Where a plane begins, in bytes from the pool's begin.
struct KvPlane {
  uint32_t layer, block, kv_head, is_value;
};
constexpr uint64_t kv_plane_offset(const KvPool &pool, const KvPlane &plane) {
  const uint64_t block = uint64_t{plane.layer} * pool.n_blocks + plane.block;
  return block * kv_block_bytes(pool) + uint64_t{2 * plane.kv_head + plane.is_value} * kv_plane_bytes(pool);
}

}  // namespace bonsai::cuda
