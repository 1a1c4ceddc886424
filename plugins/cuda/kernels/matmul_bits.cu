// y = W x for one to four tokens and 1-bit or 2-bit weights in groups of 128 (bit_products.cuh). Where the device does
// not multiply single bits, these kernels are not launched.
#include "bit_products.cuh"
#include "gated.cuh"
#include "matmul_decode.cuh"

namespace bonsai::cuda {

// What a warp works through: its segments, of each the block's tiles, as many at a time as make four items.
template <uint32_t kTokens>
struct BitWalk {
  static constexpr uint32_t kTiles = kItems / kTokens;
  uint32_t tiles, end_segment;
  uint32_t segment, tile;

  __device__ bool at_end() const { return segment >= end_segment; }
  __device__ void advance() {
    tile += kTiles;
    if (tile < tiles) return;
    tile = 0;
    segment += block_threads() / kWarp;
  }
};

// kTokens tokens' products of a block's tiles, segment by segment (DecodeBlock).
template <uint32_t kOf>
struct BitProduct {
  static constexpr uint32_t kTokens = kOf;
};

// Computes this warp's part of the segments in [begin, end).
template <uint32_t kTokens, class Wait>
__device__ inline void sum_segments(const DecodeBlock<BitProduct<kTokens>> &block, uint32_t begin, uint32_t end,
                                    Wait wait) {
  const BitWalk<kTokens> walk = {block.tiles, end, begin + warp(), 0};
  if (walk.at_end()) return wait();
  BitWeights<kTokens> weights;
  if (kStartsEarly && begin == 0) {
    load_step<kTokens, true>(block, walk, weights);
  } else {
    load_step<kTokens>(block, walk, weights);
  }
  wait();
  sum_steps<kTokens>(block, walk, weights);
}

// y for 1, 2 or 4 tokens. Block (x, y): tiles_per_block tiles from x * tiles_per_block on, as many tokens from the y-th
// on; a warp has every segment that is its number, modulo the number of warps. Moves each weight of its tiles once.
BONSAI_EARLY_KERNEL(matmul_bits_1, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 1)) {
  if constexpr (kHasBitMma) decode<BitProduct<1>>(arguments);
}
// The same for long rows: of a block of up to 24 warps, 16 with two bits, each has a segment or few.
BONSAI_EARLY_KERNEL(matmul_bits_1_long, MatmulArguments, long_max_threads(kLayout), 1) {
  if constexpr (kHasBitMma) decode<BitProduct<1>>(arguments);
}
// silu(gate) * up, packed: GatedMatmulArguments says of what. Block x: the x-th group of results.
BONSAI_EARLY_KERNEL(matmul_bits_1_gated, GatedMatmulArguments, kGatedMaxThreads, 1) {
  if constexpr (kHasBitMma && has_gated(kLayout)) multiply_gated(arguments);
}
BONSAI_EARLY_KERNEL(matmul_bits_2, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 2)) {
  if constexpr (kHasBitMma) decode<BitProduct<2>>(arguments);
}
BONSAI_EARLY_KERNEL(matmul_bits_4, MatmulArguments, kDecodeMaxThreads, bit_blocks(kLayout, 4)) {
  if constexpr (kHasBitMma) decode<BitProduct<4>>(arguments);
}

}  // namespace bonsai::cuda
