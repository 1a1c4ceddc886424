// Arguments of rope.cu and attention.cu. All arrays are device memory: a captured graph stays valid when
// they change.
#pragma once

#include "activation_arguments.h"
#include "kv_layout.cuh"

namespace bonsai::cuda {

// The arithmetic of one query at one token is pinned, so that it does not depend on the batch: chunks begin at
// positions 0, 64, 128, ...; the chunks of a section are folded in order, then the sections.
inline constexpr uint32_t kAttentionChunk = 64;
inline constexpr uint32_t kAttentionSection = 256;

// prepare_heads: one warp per (token, head of Q, K and V), kPrepareThreads / 32 heads a block.
// grid (n_tokens, ceil((heads + 2 kv_heads) / (kPrepareThreads / 32))), no dynamic shared memory.
inline constexpr uint32_t kPrepareThreads = 128;
struct PrepareHeadsArguments {
  float *qkv;                    // (n_tokens, (heads + 2 kv_heads) * head_dim); queries become what attention reads
  const float *bias;             // ((heads + 2 kv_heads) * head_dim); null: none
  const float *q_norm;           // (head_dim); null: no norm
  const float *k_norm;           // (head_dim); null: no norm
  const float *rope_cos;         // (positions, rope_dim / 2)
  const float *rope_sin;         // (positions, rope_dim / 2)
  const uint32_t *positions;     // (n_tokens)
  const uint32_t *sequences;     // (n_tokens)
  const uint32_t *block_table;   // (sequences, blocks_per_sequence)
  KvPool pool;                   // receives K and V, rounded to its dtype
  uint32_t blocks_per_sequence;  // from one sequence's row of the table to the next one's
  uint32_t layer;
  uint32_t heads;
  uint32_t rope_dim;
  float rms_eps;
};

// What one block does, for each kv head: some sections of a tile, which is a run of tokens of one sequence. Its rows
// are (token, head): at most kNarrowRows or kWideRows.
struct AttentionPiece {
  uint32_t first_token, n_tokens;  // in the batch; no tokens: the block only waits for the kernels ahead
  uint32_t first_head, n_heads;    // of those that share the kv head
  uint32_t sequence;
  uint32_t length;                           // positions that the tile attends to: its highest + 1
  uint32_t first_section, end_section;       // of the positions
  uint32_t first_partial, partials_a_token;  // where section 0 of the first token goes; 0 a token: all is written to y
  uint32_t reserved[2];
};

// attend_narrow: 16 warps on 16 rows, four for each chunk of a section. attend_wide: 4 warps with 16 rows each, on all
// chunks in turn, where has_wide. grid (pieces * kv_heads), dynamic shared memory as AttentionPlanner says. Compiled
// once for each of -DBONSAI_KV=F16_32, F16_64, ... F32_256: KV dtype and padded_head_dim.
constexpr bool has_wide(uint32_t dtype, uint32_t padded) {
  return dtype != kKvF32 && padded <= 128;  // beyond, registers are too few
}
inline constexpr uint32_t kNarrowThreads = 512;
inline constexpr uint32_t kWideThreads = 128;
inline constexpr uint32_t kNarrowRows = 16;
inline constexpr uint32_t kWideRows = 64;
struct AttendArguments {
  KvPool pool;
  const float *queries;         // (n_tokens, heads * head_dim), query_stride floats from token to token
  float *y;                     // (n_tokens, heads * head_dim)
  PackedActivations packed;     // of attend_narrow: y as codes, where may_pack_heads, and then not as floats; no forms:
                                // as floats
  const uint32_t *positions;    // (n_tokens)
  const uint32_t *block_table;  // (sequences, blocks_per_sequence)
  const AttentionPiece *pieces;  // (grid / kv_heads)
  float *partial_sums;           // (partials, heads, padded_head_dim) weighted sums of values
  float *partial_weights;        // (partials, heads, 2) largest score, sum of weights
  uint32_t query_stride;         // even
  uint32_t blocks_per_sequence;  // from one sequence's row of the table to the next one's
  uint32_t layer;
  uint32_t heads;
  float score_scale;  // softmax_scale * log2(e)
};

// Whether a head is packed where it is finished: as codes, whose groups of up to 128 columns it consists of, where
// nothing stands behind a row's last head but another row.
constexpr bool may_pack_heads(uint32_t heads, uint32_t head_dim) {
  return head_dim % 128 == 0 && heads * head_dim % 512 == 0;
}

// Of attend_narrow. Where heads.qkv is not null, it does what prepare_heads does, too, for the tiles' tokens: they have
// all of the batch's tokens of their sequences, and all heads of their kv heads.
struct NarrowAttendArguments {
  PrepareHeadsArguments heads;
  AttendArguments attend;
  uint32_t has_early;  // not 0, only with heads: early_bytes of shared memory behind narrow_shared_bytes
};

// Dynamic shared memory. Narrow: the queries, a section's scores (and before them heads that are prepared), and the
// sums of its chunks for up to 128 places of the head at a time, whose rows lie a little apart for the banks' sake.
// Where that would be more than the oldest devices have, sums take the scores' place. Wide: the queries of all warps, a
// chunk's keys and its values.
constexpr uint32_t query_tile_bytes(uint32_t padded) { return 16 * padded * 4; }  // of 16 rows
inline constexpr uint32_t kNarrowOwnBytes = 2 << 10;  // attend_narrow has less than this beside what the launch says
inline constexpr uint32_t kScoreBytes = kNarrowRows * kAttentionSection * 4;
constexpr uint32_t sums_stride(uint32_t padded) { return (padded < 128 ? padded : 128) + 4; }  // floats from row to row
constexpr uint32_t sums_bytes(uint32_t padded) {
  return kAttentionSection / kAttentionChunk * kNarrowRows * sums_stride(padded) * 4;
}
constexpr bool sums_replace_scores(uint32_t padded) { return padded > 192; }
constexpr uint32_t narrow_shared_bytes(uint32_t padded) {
  const uint32_t sums = sums_bytes(padded);
  return query_tile_bytes(padded) + (!sums_replace_scores(padded) ? kScoreBytes + sums
                                     : sums > kScoreBytes         ? sums
                                                                  : kScoreBytes);
}
// Beside that, where heads are prepared, blocks are few, and the device has it: the piece's first section, keys and
// then values. They may be copied before the kernels ahead have ended: no other kernel of the pass writes there, and in
// front of every pass is a copy, which no kernel passes. 0: these are not copied.
constexpr uint32_t early_bytes(uint32_t dtype, uint32_t padded) {
  if (dtype == kKvF32 || padded > 128) return 0;  // read where they are; taken in two rounds, or too many
  return 2 * (kAttentionSection / kStripSlots) * strip_bytes(dtype, padded);
}
constexpr uint32_t wide_shared_bytes(uint32_t dtype, uint32_t padded) {
  return kWideRows / 16 * query_tile_bytes(padded) + 2 * kAttentionChunk / kStripSlots * strip_bytes(dtype, padded);
}

// combine_sections: folds the sections of tokens whose tiles were split. grid (splits, heads), no dynamic
// shared memory.
struct AttentionSplit {
  uint32_t token;
  uint32_t first_partial;
  uint32_t n_partials;  // 0: the block leaves at once
  uint32_t reserved;
};
inline constexpr uint32_t kCombineThreads = 128;
struct CombineArguments {
  PackedActivations packed;      // as above
  const AttentionSplit *splits;  // (grid_x)
  const float *partial_sums;     // as above
  const float *partial_weights;  // as above
  float *y;                      // (n_tokens, heads * head_dim)
  uint32_t heads;
  uint32_t head_dim;
};

}  // namespace bonsai::cuda
