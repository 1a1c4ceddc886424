// The product of gate and up that goes on to SwiGLU and to packing (GatedMatmulArguments).
#pragma once

#include "activation_packing.cuh"
#include "bit_products.cuh"

namespace bonsai::cuda {

// A block's tiles, gate's and then the same of up, and its sums of segments, in shared memory: (segments, tiles, 16).
class GatedBlock {
 public:
  static constexpr uint32_t tiles = kGatedTiles, kGateTiles = kGatedTiles / 2;
  static constexpr uint32_t first_token = 0;
  const MatmulArguments &arguments;

  __device__ explicit GatedBlock(const MatmulArguments &of)
      : arguments(of), begin_(tile_at(of, first_tile(of) + block_x() * kGateTiles)) {}

  __device__ const uint8_t *record(uint32_t tile, uint32_t segment) const {
    const uint64_t up = arguments.rows / 2 / kTileRows * arguments.tile_bytes;
    return begin_ + tile % kGateTiles * arguments.tile_bytes + (tile < kGateTiles ? 0 : up) +
           segment * kLayout.record_bytes();
  }
  __device__ float *sums(uint32_t segment) const { return dynamic_shared<float>() + segment * tiles * kTileRows; }

  // Behind a barrier: a lane's four of the block's results.
  __device__ FourFloats results() const {
    FourFloats gate = {}, up = {};
#pragma unroll 8
    for (uint32_t segment = 0; segment < arguments.segments; ++segment) {
      const FourFloats *const from = reinterpret_cast<const FourFloats *>(sums(segment)) + lane();
      add(from[0], gate);
      add(from[kGateTiles * kTileRows / kLaneColumns], up);
    }
    FourFloats x;
#pragma unroll
    for (uint32_t i = 0; i < kLaneColumns; ++i) x.of[i] = gated(gate.of[i], up.of[i]);
    return x;
  }

 private:
  __device__ static void add(const FourFloats &added, FourFloats &to) {
#pragma unroll
    for (uint32_t i = 0; i < kLaneColumns; ++i) to.of[i] += added.of[i];
  }

  const uint8_t *const begin_;
};
static_assert(GatedBlock::kGateTiles * kTileRows == kWarpColumns);

// A step of a warp, which has some tiles of one segment.
struct GatedStep {
  uint32_t segment, tile, end_tile;

  __device__ bool at_end() const { return tile >= end_tile; }
  __device__ GatedStep behind(uint32_t steps) const { return {segment, tile + steps * kItems, end_tile}; }
  __device__ GatedStep end() const { return {segment, end_tile, end_tile}; }
};

__device__ inline void multiply_gated(const GatedMatmulArguments &arguments) {
  const GatedBlock block(arguments.product);
  const uint32_t segments = arguments.product.segments;
  const uint32_t tiles = block.tiles * segments / (block_threads() / kWarp), first = warp() / segments * tiles;
  const GatedStep step = {warp() % segments, first, first + tiles};
  BitWeights<1> weights[kGatedSteps];
  uint32_t after = 0;
#pragma unroll
  for (uint32_t i = 0; i < kGatedSteps; ++i) after = load_step<1, true>(block, step.behind(i), weights[i], after);
  wait_for_kernels_ahead();

  const PlaneValues values;
  BitTokens<1> tokens;
  tokens.load(arguments.product, block.first_token, step.segment);
#pragma unroll
  for (uint32_t i = 0; i < kGatedSteps; ++i) {
    if (!step.behind(i).at_end()) sum_step<1>(block, step.behind(i), values, tokens, weights[i], step.end());
  }
  sync_block();
  if (warp() != 0) return;
  const uint32_t columns = arguments.product.rows / 2;
  Destination{arguments.packed, nullptr, 0, columns, columns}.store_codes(
      block_x() * kWarpColumns + lane() * kLaneColumns, block.results());
}

}  // namespace bonsai::cuda
