#include "plugins/common/kv_range.h"

#include "plugins/common/failure.h"

namespace bonsai::plugin {

void check_block_ids(const uint32_t *blocks, uint32_t n, uint32_t n_blocks, const char *name) {
  if (n > 0) require_pointer(blocks, name);
  for (uint32_t i = 0; i < n; ++i) {
    if (blocks[i] >= n_blocks) reject("{}[{}] is {}, expected less than n_blocks, {}", name, i, blocks[i], n_blocks);
  }
}

void check_kv_range(const KvPoolShape &pool, const KvRange &range, const void *data) {
  check_block_ids(range.blocks, range.n_blocks, pool.blocks, "blocks");
  const uint64_t room = uint64_t{range.n_blocks} * pool.block_size;
  if (range.n_tokens > room) {
    reject("n_tokens is {}, expected at most {}, which {} blocks hold", range.n_tokens, room, range.n_blocks);
  }
  const uint64_t heads = uint64_t{pool.layers} * 2 * range.n_tokens * pool.kv_heads;
  const uint64_t expected = heads * pool.head_bytes;
  if (range.bytes != expected) reject("bytes is {}, expected {}", range.bytes, expected);
  if (expected > 0) require_pointer(data, "data");
}

}  // namespace bonsai::plugin
