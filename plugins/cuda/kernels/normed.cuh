// What a product's block does first where it norms its token's vector itself (VectorToNorm).
#pragma once

#include "activation_packing.cuh"
#include "bit_products.cuh"

namespace bonsai::cuda {

// Before the wait: the weights of a norm, to the second-level cache.
__device__ inline void ask_for_norm(const VectorToNorm &vector) {
  constexpr uint32_t kLineFloats = kCacheLine / sizeof(float);
  for (uint32_t at = thread() * kLineFloats; at < vector.columns; at += block_threads() * kLineFloats) {
    prefetch(vector.weight + at);
  }
}

// Behind the wait: packs the vector of `segments` to `shared`, aligned to 16 bytes, for all threads of the block.
__device__ inline PackedActivations pack_normed(const VectorToNorm &vector, uint32_t segments, float *shared) {
  PackedActivations packed = {};
  packed.bit_planes = reinterpret_cast<uint32_t *>(shared);
  packed.groups_128 = reinterpret_cast<GroupRecord *>(packed.bit_planes + segments * kWarp * kGroups);
  packed.stride = 1;
  const uint32_t padded = segments * kSegmentColumns;
  const Normed normed = {vector.x, vector.weight, vector.columns,
                         norm_scale<load_whole_four>(vector.x, vector.columns, vector.eps)};
  const Destination to = {packed, nullptr, 0, vector.columns, padded};
#pragma unroll 1
  for (uint32_t first = warp() * kWarpColumns; first < padded; first += block_warps() * kWarpColumns) {
    const uint32_t column = first + lane() * kLaneColumns;
    to.store_by_128(column, normed.of(load_whole_four(vector.x, column, vector.columns),
                                      load_whole_four(vector.weight, column, vector.columns)));
  }
  sync_block();
  return packed;
}

}  // namespace bonsai::cuda
