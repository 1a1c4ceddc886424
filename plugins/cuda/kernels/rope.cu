// What happens to Q, K and V between their matrix product and attention, where attention does not do it itself: biases,
// norms, RoPE, and storing K and V.
#include "prepared_heads.cuh"

namespace bonsai::cuda {

// Block (token, heads): one warp takes a head of Q, K or V. Reads the row of qkv and writes back its queries; keys and
// values go to the pool.
BONSAI_KERNEL(prepare_heads, PrepareHeadsArguments, kPrepareThreads, 6) {
  BONSAI_SHARED float shared[kPrepareThreads / 32][kMaxHeadDim];
  const KvPool &pool = arguments.pool;
  const uint32_t token = block_x(), index = block_y() * (kPrepareThreads / 32) + warp();
  if (index >= arguments.heads + 2 * pool.kv_heads) return;

  const uint32_t position = arguments.positions[token];
  float x[kHeadUnits];
  load_product(arguments, token, index, x);
  prepare_head(arguments, index, load_constants<kHeadUnits>(arguments, position, index), shared[warp()], x);
  if (index >= arguments.heads) {
    const KvSlot slot = prepared_slot(arguments, pool, arguments.sequences[token], position, index);
    return store_head(format_of(pool), slot, nullptr, x);
  }
  float *const row = prepared_row(arguments, token, index);
#pragma unroll
  for (uint32_t unit = 0; unit < kHeadUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d < pool.head_dim) row[d] = x[unit];
  }
}

}  // namespace bonsai::cuda
