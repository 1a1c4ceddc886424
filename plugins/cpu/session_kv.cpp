// Copying KV blocks, and moving a sequence's cache between backends.
#include <span>

#include "plugins/cpu/failure.h"
#include "plugins/cpu/session.h"

namespace bonsai::cpu {
namespace {

void check_blocks(const uint32_t *blocks, uint32_t n, uint32_t n_blocks, const char *name) {
  if (n > 0) require_pointer(blocks, name);
  for (uint32_t i = 0; i < n; ++i) {
    if (blocks[i] >= n_blocks) reject("{}[{}] is {}, expected less than n_blocks, {}", name, i, blocks[i], n_blocks);
  }
}

}  // namespace

void Session::kv_copy(const uint32_t *sources, const uint32_t *destinations, uint32_t n) {
  check_blocks(sources, n, shape_.kv.blocks, "sources");
  check_blocks(destinations, n, shape_.kv.blocks, "destinations");
  for (uint32_t i = 0; i < n; ++i) cache_.copy_block(sources[i], destinations[i]);
}

void Session::check_range(const KvRange &range, const void *data) const {
  check_blocks(range.blocks, range.n_blocks, shape_.kv.blocks, "blocks");
  const uint64_t room = uint64_t{range.n_blocks} * shape_.kv.block_size;
  if (range.n_tokens > room) {
    reject("n_tokens is {}, expected at most {}, which {} blocks hold", range.n_tokens, room, range.n_blocks);
  }
  const uint64_t heads = uint64_t{shape_.kv.layers} * 2 * range.n_tokens * shape_.kv.kv_heads;
  const uint64_t expected = heads * KvCache::head_bytes(shape_.kv);
  if (range.bytes != expected) reject("bytes is {}, expected {}", range.bytes, expected);
  if (expected > 0) require_pointer(data, "data");
}

void Session::kv_export(const KvRange &range, void *data) const {
  check_range(range, data);
  cache_.export_tokens({range.blocks, range.n_blocks}, range.n_tokens, static_cast<std::byte *>(data));
}

void Session::kv_import(const KvRange &range, const void *data) {
  check_range(range, data);
  cache_.import_tokens({range.blocks, range.n_blocks}, range.n_tokens, static_cast<const std::byte *>(data));
}

}  // namespace bonsai::cpu
