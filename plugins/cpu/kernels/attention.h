// Arguments of the attention kernels: one fixed chunk of positions at a time, and the folding of chunks.
#pragma once

#include <bonsai/backend.h>

#include <cstddef>
#include <cstdint>

#include "plugins/cpu/kernels/prefetch.h"

namespace bonsai::cpu {

// Chunks begin at positions 0, 64, 128, ... whatever the KV blocks, the batch and the threads: a partial result depends
// on nothing else, and partial results are folded in the order of chunks.
inline constexpr uint32_t kAttentionChunk = 64;

// Queries that share the loads of keys and values.
inline constexpr uint32_t kAttentionQueries = 4;

// A partial result, in floats: the largest score, the sum of exp(score - largest), 14 unused, then the sum of
// exp(score - largest) * value over head_dim, filled up to whole vectors.
inline constexpr uint32_t kPartialHeader = 16;

// Of n positions of one chunk and n_queries queries of one kv head, by
//   score = softmax_scale * (q . k), 16 lanes along head_dim by fma, then the tree of reduce_add
//   values summed by fma, position by position
// Rows are as KvCache stores them.
struct AttendArgs {
  bonsai_kv_dtype dtype;
  uint32_t n;          // positions, 1 to kAttentionChunk
  uint32_t n_queries;  // 1 to kAttentionQueries
  uint32_t vectors;    // of 16 floats in a head
  float softmax_scale;
  const std::byte *const *keys;    // (n)
  const std::byte *const *values;  // (n)
  const float *const *queries;     // (n_queries), each whole vectors
  float *const *partials;          // (n_queries), written
  // What comes next, whose rows are asked for meanwhile; they are not read.
  uint32_t next_n;                      // 0 to kAttentionChunk
  const std::byte *const *next_keys;    // (next_n)
  const std::byte *const *next_values;  // (next_n)
  Prefetch prefetch = Prefetch::kSecondLevel;
};

// Queries of a tile lie side by side in slabs of so many.
inline constexpr uint32_t kQuerySlab = 32;

// Of n_queries queries of one kv head that see all kAttentionChunk positions of a chunk: what attend() and fold() make
// of it, in the same bits, with the states of all queries at once.
struct AttendTileArgs {
  bonsai_kv_dtype dtype;
  uint32_t n_queries;
  uint32_t vectors;
  float softmax_scale;
  bool is_first;                   // the states hold nothing yet
  const std::byte *const *keys;    // (kAttentionChunk)
  const std::byte *const *values;  // (kAttentionChunk)
  const float *queries;            // (slabs, 16 * vectors, kQuerySlab); of those that are not there, any finite numbers
  float *states;                   // (n_queries, partial)
  float *scratch;                  // (tile_scratch(vectors)), on a cache line
  // As attend() has them.
  uint32_t next_n;
  const std::byte *const *next_keys;
  const std::byte *const *next_values;
  Prefetch prefetch = Prefetch::kSecondLevel;
};

// In floats: a chunk's keys and values, and the scores of a slab.
constexpr uint64_t tile_scratch(uint32_t vectors) {
  return uint64_t{kAttentionChunk} * (2 * uint64_t{16} * vectors + kQuerySlab);
}

// state = state and then partial: both rescaled to the larger maximum and added.
struct FoldArgs {
  float *state;
  const float *partial;
  uint32_t vectors;
};

// The attention's result: the weighted sum divided by the sum of weights.
struct FinishArgs {
  const float *state;
  float *y;  // (n)
  uint32_t n;
};

}  // namespace bonsai::cpu
