// Arguments of kv.cu: whole blocks copied, and a sequence's cache in the ABI's canonical layout (backend.h, kv_export).
#pragma once

#include "kv_layout.cuh"

namespace bonsai::cuda {

inline constexpr uint32_t kKvThreads = 256;

// copy_blocks: block sources[i] of every layer to destinations[i]; no destination is another pair's source or
// destination. grid (pairs, layers).
struct CopyBlocksArguments {
  KvPool pool;
  const uint32_t *sources;       // (pairs)
  const uint32_t *destinations;  // (pairs)
};

// export_rows and import_rows: rows [first_row, first_row + n_rows) of the canonical layout, which is
// (layer, K | V, token, kv_head) of heads; one warp a row. grid (ceil(n_rows / (kKvThreads / 32))).
struct MoveRowsArguments {
  KvPool pool;
  const uint32_t *blocks;  // of the sequence, in order
  uint8_t *rows;           // (n_rows, kv_row_bytes): read by import_rows, written by export_rows
  uint64_t first_row;
  uint32_t n_rows;
  uint32_t n_tokens;
};

inline constexpr uint32_t kGroupBytes = 34;  // of Q8_0 there: f16 scale, 32 codes

// Of one head of one token in the canonical layout.
constexpr uint32_t kv_row_bytes(uint32_t dtype, uint32_t head_dim) {
  return dtype == kKvF16 ? 2 * head_dim : dtype == kKvF32 ? 4 * head_dim : head_dim / kUnit * kGroupBytes;
}

}  // namespace bonsai::cuda
