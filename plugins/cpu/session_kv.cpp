// Copying KV blocks, and moving a sequence's cache between backends.
#include <span>

#include "plugins/common/failure.h"
#include "plugins/cpu/session.h"

namespace bonsai::cpu {

using namespace plugin;

void Session::kv_copy(const uint32_t *sources, const uint32_t *destinations, uint32_t n) {
  check_block_ids(sources, n, shape_.kv.blocks, "sources");
  check_block_ids(destinations, n, shape_.kv.blocks, "destinations");
  for (uint32_t i = 0; i < n; ++i) cache_.copy_block(sources[i], destinations[i]);
}

void Session::kv_export(const KvRange &range, void *data) const {
  check_kv_range(pool_shape(), range, data);
  cache_.export_tokens({range.blocks, range.n_blocks}, range.n_tokens, static_cast<std::byte *>(data));
}

void Session::kv_import(const KvRange &range, const void *data) {
  check_kv_range(pool_shape(), range, data);
  cache_.import_tokens({range.blocks, range.n_blocks}, range.n_tokens, static_cast<const std::byte *>(data));
}

}  // namespace bonsai::cpu
