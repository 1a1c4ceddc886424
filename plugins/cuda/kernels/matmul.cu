// y = W x for matrices of the format BONSAI_FORMAT: matmul_decode for few tokens, where reading the weights takes the
// time, and matmul_prefill for many, where each weight that was read serves 64 tokens. Both give the same bytes.
#include "matmul_decode.cuh"

namespace bonsai::cuda {
constexpr uint32_t kGroupsInStep = step_columns(kLayout) / group_columns(kLayout);
constexpr uint32_t kFragmentTokens = 8;  // that one mma multiplies with

// -------- Few tokens

// Eight tokens from `first` on, where the activation kernels left them. Those that are not there are zeros.
// kMayBeBeyond: `first` may be so, too.
template <bool kMayBeBeyond>
struct GlobalTokens {
  const MatmulArguments *arguments;
  uint32_t first, column;

  __device__ uint32_t token() const { return first + lane() / 4; }
  __device__ void codes(uint32_t step, uint32_t (&to)[2]) const {
    to[0] = to[1] = 0;
    if (token() < arguments->n) token_fragment<kLayout>(token_codes(*arguments, token(), column + 32 * step), to);
  }
  __device__ RecordPair records() const {
    if (kMayBeBeyond && first >= arguments->n) return {};
    return *reinterpret_cast<const RecordPair *>(token_records(*arguments, first + lane() % 4 * 2, column));
  }
  __device__ Quad high() const { return halves(arguments->activations.high); }
  __device__ Quad low() const { return halves(arguments->activations.low); }
  __device__ Quad halves(const uint16_t *of) const {
    if (token() >= arguments->n) return {0, 0, 0, 0};
    const uint64_t at = packed_place(arguments->activations.together_log2, padded_columns(*arguments), token(), column);
    return *reinterpret_cast<const Quad *>(of + at + lane() % 4 * 8);
  }
};

// 8, 16 or 32 tokens' products of one segment with 16 rows, as far as they are summed up.
template <uint32_t kOf>
struct TokenSums {
  static constexpr uint32_t kTokens = kOf;
  static constexpr uint32_t kFragments = kOf / kFragmentTokens;
  Sums segments[kFragments] = {};

  __device__ void add(const DecodePlace &place, const StepWeights<kLayout> &weights) {
    uint32_t column = place.segment * kSegmentColumns + place.step * step_columns(kLayout);
#pragma unroll
    for (uint32_t i = 0; i < kGroupsInStep; ++i) {
      const GroupFragments<kLayout> fragments = take_fragments(weights.codes, i);
      const GroupScales scales = take_scales(weights.scales, i);
      GlobalTokens<(kFragments > 1)> tokens[kFragments];
#pragma unroll
      for (uint32_t j = 0; j < kFragments; ++j) {
        tokens[j] = {&place.arguments, place.first_token + j * kFragmentTokens, column};
      }
      multiply_group<kLayout>(fragments, scales, tokens, i % 2 != 0, segments);
      column += group_columns(kLayout);
    }
  }
  __device__ void write(float *to) const {
#pragma unroll
    for (uint32_t j = 0; j < kFragments; ++j) {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        to[(j * kFragmentTokens + lane() % 4 * 2 + i % 2) * kTileRows + lane() / 4 + i / 2 * 8] = segments[j][i];
      }
    }
  }
};

// What is too long for 128 registers.
static_assert((sizeof(StepWeights<kLayout>) > 32 * sizeof(uint32_t)) == (decode_blocks(kLayout) == 1));

// y for 8 tokens. Block (x, y): tiles_per_block tiles from x * tiles_per_block on, tokens 8 y to 8 y + 7; a warp has
// every segment that is its number, modulo the number of warps. Moves each weight of its tiles once, and of activations
// tiles_per_block times what the tokens have, mostly from the first-level cache.
BONSAI_EARLY_KERNEL(matmul_decode, MatmulArguments, kDecodeMaxThreads, decode_blocks(kLayout)) {
  if constexpr (has_decode(kLayout)) decode<TokenSums<kDecodeTokens>>(arguments);
}
// The same for 16 or 32 tokens: weights are moved and turned into fragments once for all of them.
BONSAI_EARLY_KERNEL(matmul_decode_16, MatmulArguments, kDecodeMaxThreads, decode_blocks(kLayout)) {
  if constexpr (has_decode_16(kLayout)) decode<TokenSums<16>>(arguments);
}
BONSAI_EARLY_KERNEL(matmul_decode_32, MatmulArguments, kDecodeMaxThreads, decode_blocks(kLayout)) {
  if constexpr (has_decode_32(kLayout)) decode<TokenSums<32>>(arguments);
}

// -------- Many tokens

// Columns that are in shared memory at a time, in pieces of 32, so that eight tokens' fragments lie next to each other.
constexpr uint32_t kMostStageColumns = kLayout.is_float() ? 64 : 128;
constexpr uint32_t kStageColumns =
    step_columns(kLayout) < kMostStageColumns ? step_columns(kLayout) : kMostStageColumns;
constexpr uint32_t kStagesInStep = step_columns(kLayout) / kStageColumns;
constexpr uint32_t kPieces = kStageColumns / 32;
constexpr uint32_t kPieceBytes = kLayout.is_float() ? 64 : 32;                            // of one token
constexpr uint32_t kPlanes = kLayout.is_float() ? 2 : 1;                                  // high and low
constexpr uint32_t kRecordGroups = kLayout.packing == Packing::kCodesBy32 ? kPieces : 1;  // of integer activations
constexpr uint32_t kGroupsInStage = kStageColumns / group_columns(kLayout);

// Stages that are there or on their way: a copy takes longer than a stage's products, where there are such copies.
constexpr uint32_t kStages = kHasAsyncCopies && !kLayout.is_float() ? 4 : 2;

struct alignas(16) Stage {
  uint8_t pieces[kPlanes][kPieces][kPrefillTokens][kPieceBytes];
  GroupRecord records[kRecordGroups][kPrefillTokens];
};

constexpr uint32_t kSets = 4;  // of eight tokens, that a warp multiplies with in turns
static_assert(kPrefillTokens / kFragmentTokens % kSets == 0);

// The set-th eight tokens of a stage.
struct SharedTokens {
  const Stage &stage;
  uint32_t set, group;  // of the stage

  __device__ uint32_t token() const { return set * kFragmentTokens + lane() / 4; }

  __device__ void codes(uint32_t step, uint32_t (&to)[2]) const {
    const uint32_t piece = group * group_columns(kLayout) / 32 + step;
    token_fragment<kLayout>(reinterpret_cast<const int8_t *>(stage.pieces[0][piece][token()]), to);
  }
  __device__ RecordPair records() const {
    const uint32_t of = group * kRecordGroups / kGroupsInStage;
    return *reinterpret_cast<const RecordPair *>(&stage.records[of][set * kFragmentTokens + lane() % 4 * 2]);
  }
  __device__ Quad high() const { return halves(0); }
  __device__ Quad low() const { return halves(kPlanes - 1); }
  __device__ Quad halves(uint32_t plane) const {
    return *reinterpret_cast<const Quad *>(&stage.pieces[plane][group][token()][lane() % 4 * 16]);
  }
};

// A token's packed columns, in bytes: codes, or one of the planes of halves.
__device__ inline const uint8_t *packed_token(const MatmulArguments &arguments, uint32_t plane, uint32_t token,
                                              uint32_t column) {
  if constexpr (kLayout.is_float()) {
    const PackedActivations &activations = arguments.activations;
    const uint64_t at = packed_place(activations.together_log2, padded_columns(arguments), token, column);
    return reinterpret_cast<const uint8_t *>((plane == 0 ? activations.high : activations.low) + at);
  } else {
    return reinterpret_cast<const uint8_t *>(token_codes(arguments, token, column));
  }
}

// Starts the copies of the columns from `column` on: a thread has the same 16 bytes of every piece.
__device__ inline void fill_stage(const MatmulArguments &arguments, uint32_t first_token, uint32_t column,
                                  Stage &stage) {
  constexpr uint32_t kParts = kPieceBytes / 16;
  const uint32_t piece_bytes = kPieceBytes << arguments.activations.together_log2;  // from piece to piece
  for (uint32_t i = thread(); i < kPrefillTokens * kParts; i += block_threads()) {
    const uint32_t part = i % kParts, token = i / kParts;
    const bool valid = first_token + token < arguments.n;
#pragma unroll
    for (uint32_t plane = 0; plane < kPlanes; ++plane) {
      const uint8_t *from = packed_token(arguments, plane, valid ? first_token + token : first_token, column);
#pragma unroll
      for (uint32_t piece = 0; piece < kPieces; ++piece) {
        copy_async(stage.pieces[plane][piece][token] + 16 * part, from + piece_bytes * piece + 16 * part, valid);
      }
    }
  }
  if constexpr (!kLayout.is_float()) {
    for (uint32_t i = thread(); i < kRecordGroups * kPrefillTokens / 2; i += block_threads()) {
      const uint32_t token = i % (kPrefillTokens / 2) * 2, group = i / (kPrefillTokens / 2);
      const bool valid = first_token + token < arguments.n;
      const void *from = token_records(arguments, valid ? first_token + token : first_token, column + group * 32);
      copy_async(&stage.records[group][token], from, valid);
    }
  }
}

// The sums of 16 rows and up to 64 tokens.
struct TileSums {
  static constexpr uint32_t kFragments = kPrefillTokens / kFragmentTokens;
  Sums segments[kFragments], totals[kFragments];
};

// Adds the groups of a stage, the `part`th of the weights' step.
__device__ inline void multiply_stage(const StepWeights<kLayout> &weights, uint32_t part, const Stage &stage,
                                      uint32_t n_fragments, TileSums &sums) {
#pragma unroll
  for (uint32_t i = 0; i < kGroupsInStage; ++i) {
    const uint32_t index = part * kGroupsInStage + i;
    const GroupFragments<kLayout> fragments = take_fragments(weights.codes, index);
    const GroupScales scales = take_scales(weights.scales, index);
#pragma unroll
    for (uint32_t j = 0; j < TileSums::kFragments; j += kSets) {
      if (j >= n_fragments) break;
      SharedTokens tokens[kSets] = {{stage, j, i}, {stage, j + 1, i}, {stage, j + 2, i}, {stage, j + 3, i}};
      multiply_group<kLayout>(fragments, scales, tokens, i % 2 != 0, &sums.segments[j]);
    }
  }
}

__device__ inline void end_segment(TileSums &sums) {
#pragma unroll
  for (uint32_t j = 0; j < TileSums::kFragments; ++j) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      sums.totals[j][i] += sums.segments[j][i];
      sums.segments[j][i] = 0;
    }
  }
}

__device__ inline void write_tile(const MatmulArguments &arguments, uint32_t tile, uint32_t first_token,
                                  const TileSums &sums) {
  const uint32_t g = lane() / 4, t = lane() % 4;
#pragma unroll
  for (uint32_t j = 0; j < TileSums::kFragments; ++j) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = tile * kTileRows + g + i / 2 * 8;
      const uint32_t token = first_token + j * kFragmentTokens + 2 * t + i % 2;
      float *const y = find_result(arguments, row, token);
      if (y) write_result(arguments, row, token, sums.totals[j][i], y, arguments.add ? *y : 0);
    }
  }
}

// y for 64 tokens. Block (x, y): a tile for each of its warps, tokens 64 y to 64 y + 63. The activations go through
// shared memory, kStages stages of it, and serve all warps; each warp reads its own tile's weights, once for 64 tokens.
BONSAI_KERNEL(matmul_prefill, MatmulArguments, kPrefillMaxThreads, prefill_blocks(kLayout)) {
  BONSAI_SHARED Stage stages[kStages];
  const uint32_t tile = first_tile(arguments) + block_x() * (block_threads() / kWarp) + warp();
  const bool has_tile = tile < end_tile(arguments);
  const uint32_t first_token = block_y() * kPrefillTokens, tokens = arguments.n - first_token;
  const uint32_t n_fragments =
      tokens < kPrefillTokens ? (tokens + kFragmentTokens - 1) / kFragmentTokens : TileSums::kFragments;
  const uint32_t n_steps = arguments.segments * kStepsInSegment, n_stages = n_steps * kStagesInStep;
  const uint8_t *records = tile_at(arguments, tile);
  StepWeights<kLayout> weights = {};
  if (has_tile) weights = load_step<kLayout>(records, 0);
#pragma unroll
  for (uint32_t stage = 0; stage + 1 < kStages; ++stage) {
    if (stage < n_stages) fill_stage(arguments, first_token, stage * kStageColumns, stages[stage]);
    copy_async_commit();
  }
  TileSums sums = {};
  for (uint32_t step = 0; step < n_steps; ++step) {
    StepWeights<kLayout> next_weights = weights;
    if (has_tile && step + 1 < n_steps) {
      const uint8_t *record = records + (step + 1) / kStepsInSegment * kLayout.record_bytes();
      next_weights = load_step<kLayout>(record, (step + 1) % kStepsInSegment);
    }
#pragma unroll
    for (uint32_t part = 0; part < kStagesInStep; ++part) {
      const uint32_t stage = step * kStagesInStep + part, filled = stage + kStages - 1;
      copy_async_wait<kStages - 2>();
      sync_block();  // this stage is there, and no one reads the one before
      if (filled < n_stages) {
        fill_stage(arguments, first_token, filled * kStageColumns, stages[filled % kStages]);
      }
      copy_async_commit();
      if (has_tile) multiply_stage(weights, part, stages[stage % kStages], n_fragments, sums);
    }
    if ((step + 1) % kStepsInSegment == 0) end_segment(sums);
    weights = next_weights;
  }
  if (has_tile) write_tile(arguments, tile, first_token, sums);
}

}  // namespace bonsai::cuda
