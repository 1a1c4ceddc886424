// y = W x for one token and integer weights of the format BONSAI_FORMAT. A tensor core multiplies with eight tokens,
// and what follows it takes most of the instructions: so all eight are this token, some tiles are multiplied one after
// the other, each lane of four has the sums of all of them, and lane t goes on with tile t. The same bytes as
// matmul_decode.
#include "matmul_decode.cuh"

namespace bonsai::cuda {

static_assert(!kLayout.is_float());

// At a time: formats of two planes have too much in registers for four.
constexpr uint32_t kTiles = kLayout.high_bits > 0 ? 2 : 4;

// Columns that are multiplied at a time: the codes of these tiles go into 16 to 40 registers.
constexpr uint32_t one_step_columns(MatrixLayout layout) {
  if (layout.bits == 8) return 64;
  if (layout.high_bits == 1 || layout.packing == Packing::kCodesBy128) return 256;
  return 128;
}
constexpr uint32_t kColumns = one_step_columns(kLayout);
constexpr uint32_t kSteps = kSegmentColumns / kColumns;
constexpr uint32_t kGroups = kColumns / group_columns(kLayout);
constexpr uint32_t kHalves = kLayout.splits_steps() ? 2 : 1;

using TileCodes = StepCodes<kLayout, kColumns>;
using OwnScales = StepScales<kLayout, kColumns>;

// What a warp works through: its segments, of each the block's tiles, kTiles at a time, of these the steps.
struct OneWalk {
  uint32_t tiles, end_segment;
  uint32_t segment, tile, step;

  __device__ bool at_end() const { return segment >= end_segment; }
  __device__ OneWalk next() const {
    OneWalk walk = *this;
    if (++walk.step < kSteps) return walk;
    walk.step = 0;
    walk.tile += kTiles;
    if (walk.tile < tiles) return walk;
    walk.tile = 0;
    walk.segment += block_threads() / kWarp;
    return walk;
  }
  __device__ uint32_t own_tile() const { return tile + lane() % kTiles; }
};

// One token's products of a block's tiles, segment by segment.
struct OneToken {
  static constexpr uint32_t kTokens = 1;
};

// Loads what `walk` is at; tiles that the block does not have are left as they are.
__device__ inline void load_tile(const DecodeBlock<OneToken> &block, const OneWalk &walk, uint32_t tile,
                                 TileCodes &codes) {
  if (walk.at_end() || walk.tile + tile >= block.tiles) return;
  load_codes(block.record(walk.tile + tile, walk.segment), walk.step, codes);
}
__device__ inline void load_own_scales(const DecodeBlock<OneToken> &block, const OneWalk &walk, OwnScales &scales) {
  if (walk.at_end() || walk.own_tile() >= block.tiles) return;
  load_scales(block.record(walk.own_tile(), walk.segment), walk.step, scales);
}

// The token's columns of a step: fragments whose eight tokens are one, and records.
struct StepToken {
  uint32_t codes[kColumns / 32][2];
  GroupRecord records[kGroups];

  __device__ StepToken(const MatmulArguments &arguments, uint32_t token, uint32_t column) {
#pragma unroll
    for (uint32_t i = 0; i < kColumns / 32; ++i) {
      token_fragment<kLayout>(token_codes(arguments, token, column + 32 * i), codes[i]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kGroups; ++i) {
      records[i] = *token_records(arguments, token, column + i * group_columns(kLayout));
    }
  }
};

// Sums of rows g and g + 8 of the lane's own tile: [group][half][row].
using OwnSums = int[kGroups][2][2];

// Multiplies a tile with the token, and keeps the sums where the tile is the lane's own.
__device__ inline void multiply_tile(const TileCodes &codes, const StepToken &token, bool is_own, OwnSums &own) {
  constexpr uint32_t kGroupSteps = group_columns(kLayout) / 32;
#pragma unroll
  for (uint32_t group = 0; group < kGroups; ++group) {
    const GroupFragments<kLayout> fragments = take_fragments(codes, group);
    int sums[2][4] = {};
#pragma unroll
    for (uint32_t i = 0; i < kGroupSteps; ++i) {
      multiply_step<kLayout>(fragments.of[i], token.codes[group * kGroupSteps + i], sums);
    }
#pragma unroll
    for (uint32_t half = 0; half < kHalves; ++half) {
      if (is_own) own[group][half][0] = sums[half][0];
      if (is_own) own[group][half][1] = sums[half][2];
    }
  }
}

// Computes this warp's share of the segments in [begin, end). As soon as a tile is multiplied, its next codes come.
template <class Wait>
__device__ inline void sum_segments(const DecodeBlock<OneToken> &block, uint32_t begin, uint32_t end, Wait wait) {
  OneWalk walk = {block.tiles, end, begin + warp(), 0, 0};
  if (walk.at_end()) return wait();
  TileCodes codes[kTiles] = {};
  OwnScales scales = {};
#pragma unroll
  for (uint32_t tile = 0; tile < kTiles; ++tile) load_tile(block, walk, tile, codes[tile]);
  load_own_scales(block, walk, scales);
  wait();
  float segment[2] = {};
  while (!walk.at_end()) {
    const OneWalk next = walk.next();
    const StepToken token(block.arguments, block.first_token, walk.segment * kSegmentColumns + walk.step * kColumns);
    OwnSums own = {};
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      multiply_tile(codes[tile], token, tile == lane() % kTiles, own);
      load_tile(block, next, tile, codes[tile]);
    }
#pragma unroll
    for (uint32_t i = 0; i < kGroups; ++i) {
      add_group<kLayout, 1>(take_scales(scales, i), own[i], {token.records[i]}, i % 2 != 0, segment);
    }
    load_own_scales(block, next, scales);
    if (next.step == 0) {
      if (walk.own_tile() < block.tiles) {
        float *to = block.sums(walk.segment) + walk.own_tile() * kTileRows + lane() / 4;
        to[0] = segment[0];
        to[8] = segment[1];
      }
      segment[0] = segment[1] = 0;
    }
    walk = next;
  }
}

// y for one token. Block (x, y): tiles_per_block tiles from x * tiles_per_block on, token y; a warp has every segment
// that is its number, modulo the number of warps. Moves each weight of its tiles once, and the token once for each
// kTiles tiles.
BONSAI_EARLY_KERNEL(matmul_one, MatmulArguments, kOneMaxThreads, one_blocks(kLayout)) { decode<OneToken>(arguments); }

}  // namespace bonsai::cuda
