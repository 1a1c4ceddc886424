// What follows the products of gate and up where their kernel goes on to SwiGLU and to packing (GatedMatmulArguments).
#pragma once

#include "activation_packing.cuh"
#include "matmul.cuh"

namespace bonsai::cuda {

// A block's tiles, half of gate and the same of up, and its sums of segments, in shared memory: (segments, tiles, 16).
class GatedBlock {
 public:
  static constexpr uint32_t tiles = kGatedTiles, kResults = kGatedTiles / 2 * kTileRows;
  static constexpr uint32_t first_token = 0;
  const MatmulArguments &arguments;

  __device__ explicit GatedBlock(const MatmulArguments &of)
      : arguments(of), begin_(tile_at(of, first_tile(of) + block_x() * (tiles / 2))) {}

  __device__ const uint8_t *record(uint32_t tile, uint32_t segment) const {
    const uint64_t up = arguments.rows / 2 / kTileRows * arguments.tile_bytes;
    return begin_ + tile % (tiles / 2) * arguments.tile_bytes + (tile < tiles / 2 ? 0 : up) +
           segment * kLayout.record_bytes();
  }
  __device__ float *sums(uint32_t segment) const { return dynamic_shared<float>() + segment * tiles * kTileRows; }

  __device__ uint32_t first_result() const { return block_x() * kResults; }
  // Behind a barrier.
  __device__ void write_gated() const {
    if (thread() >= kResults) return;
    float gate = 0, up = 0;
#pragma unroll 8
    for (uint32_t segment = 0; segment < arguments.segments; ++segment) {
      gate += sums(segment)[thread()];
      up += sums(segment)[kResults + thread()];
    }
    arguments.y[first_result() + thread()] = gated(gate, up);
  }

 private:
  const uint8_t *const begin_;
};

// A warp's only step: its segment, if there is one, of all the block's tiles.
struct OneStep {
  static constexpr uint32_t tile = 0;
  uint32_t segment, end_segment;
  bool is_done = false;

  __device__ bool at_end() const { return is_done || segment >= end_segment; }
  __device__ void advance() { is_done = true; }
};

// Packs the group that the block's results are in, if those of all its other blocks are there.
__device__ inline void pack_if_last(const GatedMatmulArguments &arguments, const GatedBlock &block) {
  BONSAI_SHARED uint32_t is_last;
  const uint32_t group = block.first_result() / kGatedGroup;
  sync_block();
  if (thread() == 0) {
    fence_device();
    is_last = atomic_add(arguments.arrivals + group, 1) + 1 == kGatedGroup / GatedBlock::kResults;
    fence_device();
  }
  sync_block();
  if (!is_last || warp() != 0) return;
  const uint32_t column = group * kGatedGroup + lane() * kLaneColumns, columns = arguments.product.rows / 2;
  const FourFloats x = load_four(arguments.product.y, column, columns);
  Destination{arguments.packed, nullptr, 0, columns, columns}.store_codes(column, x);
  if (lane() == 0) arguments.arrivals[group] = 0;
}

}  // namespace bonsai::cuda
