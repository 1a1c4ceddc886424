// y = W x for one token to some hundred: a warp holds 8 or 16 tokens' codes of a segment in registers and multiplies
// one tile after the other with them. So tokens are read once for all tiles that a block has, and a tile costs its
// weights alone, which are asked for a tile ahead. The same bytes as matmul_decode.
#include "matmul.cuh"

namespace bonsai::cuda {

static_assert(has_held(kLayout));
constexpr uint32_t kStepGroups = step_columns(kLayout) / group_columns(kLayout);
constexpr uint32_t kGroups = kSegmentColumns / group_columns(kLayout);
constexpr uint32_t kGroupPieces = group_columns(kLayout) / 32, kPieces = kSegmentColumns / 32;
constexpr uint32_t kSetTokens = 8;  // that one mma multiplies with

// Integers below 2^22 in magnitude, added to the bits of this number, are the bits of a float that is as much larger.
constexpr float kWholes = 12582912.0f;
constexpr int kWholesBits = 0x4B400000;

// Of a token and a group of weights: what a sum of codes begins with, so that it ends as the bits of kWholes plus what
// the group's integers are worth.
struct alignas(8) HeldRecord {
  float scale;
  int begin;
};
static_assert(sizeof(HeldRecord) == kHeldRecordBytes);
struct alignas(16) HeldRecordPair {
  HeldRecord of[2];
};

// A step's codes of 32 columns; one-bit codes twice what they are, for they are worth 2 c - 1.
__device__ inline void held_fragment(const StepCodes<kLayout, step_columns(kLayout)> &codes, uint32_t step,
                                     uint32_t (&to)[4]) {
  if constexpr (kLayout.bits == 1) {
    const uint32_t *words = codes.low[step / 8] + step / 4 % 2 * 2;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t word = words[i % 2], at = step % 4 * 2 + i / 2;
      to[i] = (at == 0 ? word << 1 : word >> (at - 1)) & 0x02020202;
    }
  } else {
    code_fragment(codes, step, to);
  }
}

// kTokens tokens from `first` on, of one segment. Those that are not there are the first one once more: their results
// are not written.
template <uint32_t kTokens>
struct HeldTokens {
  static constexpr uint32_t kSets = kTokens / kSetTokens;
  uint32_t codes[kSets][kPieces][2];
  const HeldRecord *records;  // (kGroups, kTokens), in the warp's part of shared memory

  // A barrier must be behind what was done with other tokens.
  __device__ void load(const MatmulArguments &arguments, uint32_t first, uint32_t segment, HeldRecord *shared) {
    const uint32_t column = segment * kSegmentColumns, piece_bytes = 32u << arguments.activations.together_log2;
#pragma unroll
    for (uint32_t set = 0; set < kSets; ++set) {
      const uint32_t token = first + set * kSetTokens + lane() / 4;
      const int8_t *from = token_codes(arguments, token < arguments.n ? token : first, column);
#pragma unroll
      for (uint32_t i = 0; i < kPieces; ++i) token_fragment<kLayout>(from + i * piece_bytes, codes[set][i]);
    }
    for (uint32_t i = lane(); i < kGroups * kTokens; i += kWarp) {
      const uint32_t group = i / kTokens, token = first + i % kTokens;
      const GroupRecord record =
          *token_records(arguments, token < arguments.n ? token : first, column + group * group_columns(kLayout));
      // Groups of 64 are halves of the activations' groups of 128.
      const int second = record.second_half_sum, whole = record.sum;
      const int sum = group_columns(kLayout) != 64 ? whole : group % 2 != 0 ? second : whole - second;
      shared[i] = {record.scale, kWholesBits - kLayout.offset * sum};
    }
    sync_warp();
    records = shared;
  }
};

// Adds a step's groups to the sums of the segment, as add_group of formats.cuh does.
template <uint32_t kTokens>
__device__ inline void multiply_held_step(const StepWeights<kLayout> &weights, uint32_t step,
                                          const HeldTokens<kTokens> &tokens, Sums *segments) {
  constexpr uint32_t kSets = HeldTokens<kTokens>::kSets;
#pragma unroll
  for (uint32_t i = 0; i < kStepGroups; ++i) {
    const uint32_t group = step * kStepGroups + i;
    HeldRecordPair records[kSets];
    int sums[kSets][4];
#pragma unroll
    for (uint32_t set = 0; set < kSets; ++set) {
      records[set] = *reinterpret_cast<const HeldRecordPair *>(tokens.records + group * kTokens + set * kSetTokens +
                                                               lane() % 4 * 2);
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) sums[set][j] = records[set].of[j % 2].begin;
    }
#pragma unroll
    for (uint32_t piece = 0; piece < kGroupPieces; ++piece) {
      uint32_t fragment[4];
      held_fragment(weights.codes, i * kGroupPieces + piece, fragment);
#pragma unroll
      for (uint32_t set = 0; set < kSets; ++set) {
        mma_s8_k32(sums[set], fragment, tokens.codes[set][group * kGroupPieces + piece]);
      }
    }
    float d[2];
    two_halves(weights.scales.words[i], d);
#pragma unroll
    for (uint32_t set = 0; set < kSets; ++set) {
#pragma unroll
      for (uint32_t j = 0; j < 4; ++j) {
        const float sum = bits_to_float(static_cast<uint32_t>(sums[set][j])) - kWholes;
        segments[set][j] = fmaf(sum, d[j / 2] * records[set].of[j % 2].scale, segments[set][j]);
      }
    }
  }
}

// A block's part of a product: its tiles, and where its sums are. Shared memory: records (warps, kGroups, kTokens); a
// tile's sums of as many segments as there are warps, (2, warps, kTokens, kHeldTokenFloats), for one tile after the
// other; and, where rows have more segments, (tiles, kTokens, 16) totals.
template <uint32_t kTokens>
struct HeldBlock {
  static constexpr uint32_t kOutputs = kTokens * kTileRows, kPlaces = kTokens * kHeldTokenFloats;

  const MatmulArguments &arguments;
  uint32_t warps = block_threads() / kWarp;
  uint32_t first_tile = cuda::first_tile(arguments) + block_x() * arguments.tiles_per_block;
  uint32_t first_token = block_y() * kTokens;

  __device__ uint32_t tiles() const {
    const uint32_t left = end_tile(arguments) - first_tile;
    return left < arguments.tiles_per_block ? left : arguments.tiles_per_block;
  }
  __device__ HeldRecord *records() const { return dynamic_shared<HeldRecord>() + warp() * kGroups * kTokens; }
  __device__ float *sums(uint32_t buffer) const {
    return reinterpret_cast<float *>(dynamic_shared<HeldRecord>() + warps * kGroups * kTokens) +
           buffer * warps * kPlaces;
  }
  __device__ float *totals(uint32_t tile) const { return sums(2) + tile * kOutputs; }

  __device__ StepWeights<kLayout> load(uint32_t tile, uint32_t segment, uint32_t step) const {
    const uint8_t *record = tile_at(arguments, first_tile + tile) + segment * kLayout.record_bytes();
    return load_step<kLayout>(record, step);
  }
  // Of a tile's i-th output, of (kTokens, 16).
  __device__ uint32_t row(uint32_t tile, uint32_t i) const { return (first_tile + tile) * kTileRows + i % kTileRows; }
  __device__ uint32_t token(uint32_t i) const { return first_token + i / kTileRows; }
  __device__ float *result(uint32_t tile, uint32_t i) const {
    return i < kOutputs ? find_result(arguments, row(tile, i), token(i)) : nullptr;
  }
};

// This warp's sums of a segment of one tile. `weights` are those of its first step, and then those of what `next` is:
// the first steps of the tile, and the segment, that come after it.
template <uint32_t kTokens, class Next>
__device__ inline void sum_tile(const HeldBlock<kTokens> &block, uint32_t tile, uint32_t segment,
                                const HeldTokens<kTokens> &tokens, StepWeights<kLayout> &weights, Next next,
                                float *sums) {
  constexpr uint32_t kSets = HeldTokens<kTokens>::kSets;
  Sums segments[kSets] = {};
#pragma unroll
  for (uint32_t step = 0; step < kStepsInSegment; ++step) {
    StepWeights<kLayout> next_weights = weights;
    if (step + 1 < kStepsInSegment) {
      next_weights = block.load(tile, segment, step + 1);
    } else {
      next(next_weights);
    }
    multiply_held_step<kTokens>(weights, step, tokens, segments);
    weights = next_weights;
  }
  float *const to = sums + warp() * block.kPlaces + lane() / 4;
#pragma unroll
  for (uint32_t i = 0; i < kSets * 4; ++i) {
    to[(i / 4 * kSetTokens + lane() % 4 * 2 + i % 2) * kHeldTokenFloats + i / 2 % 2 * 8] = segments[i / 4][i % 4];
  }
}

// Adds the sums of segments [begin, end) of a tile, in order, to those before, and writes the results after the last.
// All threads of the block; other warps' sums are there behind a barrier.
template <uint32_t kTokens>
__device__ inline void add_tile(const HeldBlock<kTokens> &block, uint32_t tile, uint32_t begin, uint32_t end,
                                const float *sums) {
  const MatmulArguments &arguments = block.arguments;
  const bool is_last = end == arguments.segments;
  // What this thread's first sum is added to comes while other warps get here.
  float *const first = is_last ? block.result(tile, thread()) : nullptr;
  const float before = first && arguments.add ? *first : 0;
  sync_block();
  for (uint32_t i = thread(); i < block.kOutputs; i += block_threads()) {
    float total = begin == 0 ? 0.0f : block.totals(tile)[i];
    const float *from = sums + i / kTileRows * kHeldTokenFloats + i % kTileRows;
#pragma unroll 8
    for (uint32_t j = 0; j < end - begin; ++j) total += from[j * block.kPlaces];
    if (!is_last) {
      block.totals(tile)[i] = total;
      continue;
    }
    float *const y = i == thread() ? first : block.result(tile, i);
    if (!y) continue;
    const float added_to = i == thread() ? before : arguments.add ? *y : 0;
    write_result(arguments, block.row(tile, i), block.token(i), total, y, added_to);
  }
}

template <uint32_t kTokens>
__device__ inline void multiply_held(const MatmulArguments &arguments) {
  const HeldBlock<kTokens> block = {arguments};
  const uint32_t segments = arguments.segments, tiles = block.tiles();
  StepWeights<kLayout> weights = {};
  if (warp() < segments) weights = block.load(0, warp(), 0);
  wait_for_kernels_ahead();
  uint32_t buffer = 0;  // of two: one barrier for each tile is enough
  for (uint32_t begin = 0; begin < segments; begin += block.warps) {
    const uint32_t segment = begin + warp(), end = segments - begin < block.warps ? segments : begin + block.warps;
    HeldTokens<kTokens> tokens;
    if (segment < end) tokens.load(arguments, block.first_token, segment, block.records());
    for (uint32_t tile = 0; tile < tiles; ++tile, buffer ^= 1) {
      const auto next = [&](StepWeights<kLayout> &to) {
        if (tile + 1 < tiles) {
          to = block.load(tile + 1, segment, 0);
        } else if (segment + block.warps < segments) {
          to = block.load(0, segment + block.warps, 0);
        }
      };
      if (segment < end) sum_tile<kTokens>(block, tile, segment, tokens, weights, next, block.sums(buffer));
      add_tile<kTokens>(block, tile, begin, end, block.sums(buffer));
    }
  }
}

// y for 8 tokens. Block (x, y): tiles_per_block tiles from x * tiles_per_block on, tokens from 8 y on; a warp has every
// segment that is its number, modulo the number of warps. Moves each weight of its tiles once, and each token once.
BONSAI_EARLY_KERNEL(matmul_held_8, MatmulArguments, kHeldMaxThreads, kHeldBlocks) { multiply_held<8>(arguments); }
// The same for 16.
BONSAI_EARLY_KERNEL(matmul_held_16, MatmulArguments, kHeldMaxThreads, kHeldBlocks) { multiply_held<16>(arguments); }

}  // namespace bonsai::cuda
