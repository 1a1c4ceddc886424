// Checks of the functions that copy KV blocks or move a sequence's cache between backends.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>

namespace bonsai::plugin {

// What a session's KV pool is, as far as the checks need it.
struct KvPoolShape {
  uint32_t layers, kv_heads, blocks, block_size;
  uint64_t head_bytes;  // of one head of one token, as exported
};

// Positions [0, n_tokens) of a sequence that lies in `blocks`.
struct KvRange {
  const uint32_t *blocks;
  uint32_t n_blocks;
  uint32_t n_tokens;
  uint64_t bytes;  // of the data in the canonical layout
};

// Throw BONSAI_INVALID_ARGUMENT.
void check_block_ids(const uint32_t *blocks, uint32_t n, uint32_t n_blocks, const char *name);
void check_kv_range(const KvPoolShape &pool, const KvRange &range, const void *data);

}  // namespace bonsai::plugin
