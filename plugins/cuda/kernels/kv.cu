// Moving what the KV pool holds: whole blocks from place to place, and rows from and to the ABI's canonical layout.
#include "kv_arguments.h"
#include "kv_rows.cuh"

namespace bonsai::cuda {
namespace {

// A row of the canonical layout, which is (layer, key | value, token, kv_head), and where the pool has it.
struct MovedRow {
  uint8_t *canonical;
  KvSlot slot;
};
inline MovedRow find_row(const MoveRowsArguments &arguments, uint32_t index) {
  const KvPool &pool = arguments.pool;
  const uint64_t row = arguments.first_row + index;
  const uint32_t kv_head = static_cast<uint32_t>(row % pool.kv_heads);
  const uint64_t tokens = row / pool.kv_heads;
  const uint32_t token = static_cast<uint32_t>(tokens % arguments.n_tokens);
  const uint32_t half_layer = static_cast<uint32_t>(tokens / arguments.n_tokens);
  const KvPlane plane = {.layer = half_layer / 2,
                         .block = arguments.blocks[token / pool.block_size],
                         .kv_head = kv_head,
                         .is_value = half_layer % 2};
  return {arguments.rows + uint64_t{index} * kv_row_bytes(pool.dtype, pool.head_dim),
          find_slot(pool, plane, token % pool.block_size)};
}

template <class Number>
inline void export_numbers(const KvPool &pool, const MovedRow &row) {
  Number *const to = reinterpret_cast<Number *>(row.canonical);
  for (uint32_t d = lane(); d < pool.head_dim; d += kWarp) {
    to[d] = *reinterpret_cast<const Number *>(find_element(pool, row.slot, d));
  }
}
template <class Number>
inline void import_numbers(const KvPool &pool, const MovedRow &row) {
  const Number *const from = reinterpret_cast<const Number *>(row.canonical);
  for (uint32_t d = lane(); d < padded_head_dim(pool.head_dim); d += kWarp) {
    *reinterpret_cast<Number *>(find_element(pool, row.slot, d)) = d < pool.head_dim ? from[d] : Number{0};
  }
}

// Groups of Q8_0 are 34 bytes: f16 scale, 32 codes.
inline void export_groups(const KvPool &pool, const MovedRow &row) {
  for (uint32_t unit = 0; unit < pool.head_dim / kUnit; ++unit) {
    uint8_t *const to = row.canonical + unit * kGroupBytes;
    if (lane() == 0) *reinterpret_cast<uint16_t *>(to) = *find_scale(pool, row.slot, unit);
    to[2 + lane()] = static_cast<uint8_t>(*find_element(pool, row.slot, unit * kUnit + lane()) - 128);
  }
}
inline void import_groups(const KvPool &pool, const MovedRow &row) {
  for (uint32_t unit = 0; unit < padded_head_dim(pool.head_dim) / kUnit; ++unit) {
    const bool given = unit < pool.head_dim / kUnit;
    const uint8_t *const from = row.canonical + unit * kGroupBytes;
    if (lane() == 0) {
      *find_scale(pool, row.slot, unit) = given ? *reinterpret_cast<const uint16_t *>(from) : uint16_t{0};
    }
    const uint8_t code = given ? from[2 + lane()] : 0;
    *find_element(pool, row.slot, unit * kUnit + lane()) = static_cast<uint8_t>(code + 128);
  }
}

constexpr uint32_t kWarps = kKvThreads / 32;

}  // namespace

// Block (pair, layer).
BONSAI_KERNEL(copy_blocks, CopyBlocksArguments, kKvThreads, 4) {
  const KvPool &pool = arguments.pool;
  const uint32_t source = arguments.sources[block_x()], destination = arguments.destinations[block_x()];
  const Quad *const from = reinterpret_cast<const Quad *>(pool.data + kv_plane_offset(pool, {block_y(), source, 0, 0}));
  Quad *const to = reinterpret_cast<Quad *>(pool.data + kv_plane_offset(pool, {block_y(), destination, 0, 0}));
  const uint64_t quads = kv_block_bytes(pool) / sizeof(Quad);
#pragma unroll 4
  for (uint64_t i = thread(); i < quads; i += kKvThreads) to[i] = from[i];
}

// One warp a row.
BONSAI_KERNEL(export_rows, MoveRowsArguments, kKvThreads, 4) {
  const uint32_t index = block_x() * kWarps + warp();
  if (index >= arguments.n_rows) return;
  const MovedRow row = find_row(arguments, index);
  if (arguments.pool.dtype == kKvF16) return export_numbers<uint16_t>(arguments.pool, row);
  if (arguments.pool.dtype == kKvF32) return export_numbers<uint32_t>(arguments.pool, row);
  export_groups(arguments.pool, row);
}

// One warp a row; the filling is written, too.
BONSAI_KERNEL(import_rows, MoveRowsArguments, kKvThreads, 4) {
  const uint32_t index = block_x() * kWarps + warp();
  if (index >= arguments.n_rows) return;
  const MovedRow row = find_row(arguments, index);
  if (arguments.pool.dtype == kKvF16) return import_numbers<uint16_t>(arguments.pool, row);
  if (arguments.pool.dtype == kKvF32) return import_numbers<uint32_t>(arguments.pool, row);
  import_groups(arguments.pool, row);
}

}  // namespace bonsai::cuda
