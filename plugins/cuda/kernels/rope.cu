// What happens to Q, K and V between their matrix product and attention: biases, norms, RoPE, and storing K and V.
#include "attention_arguments.h"
#include "kv_rows.cuh"

namespace bonsai::cuda {
namespace {

constexpr uint32_t kWarps = kPrepareThreads / 32;

using Head = float[kHeadUnits];

// x = norm * x / sqrt(mean(x^2) + eps)
inline void normalize(Head &x, const float *norm, uint32_t head_dim, float eps) {
  float sum = 0;
#pragma unroll
  for (uint32_t unit = 0; unit < kHeadUnits; ++unit) sum = fmaf(x[unit], x[unit], sum);
  for (uint32_t mask = 16; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
  const float scale = divide(1.0f, square_root(divide(sum, static_cast<float>(head_dim)) + eps));
#pragma unroll
  for (uint32_t unit = 0; unit < kHeadUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d < head_dim) x[unit] = x[unit] * scale * norm[d];
  }
}

// (x[i], x[i + half]) = (x[i] cos - x[i + half] sin, x[i + half] cos + x[i] sin), i below half. `shared`: the warp's, a
// head long.
inline void rotate(Head &x, const float *cosines, const float *sines, uint32_t half, float *shared) {
#pragma unroll
  for (uint32_t unit = 0; unit < kHeadUnits; ++unit) shared[unit * kUnit + lane()] = x[unit];
  sync_warp();
#pragma unroll
  for (uint32_t unit = 0; unit < kHeadUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d < half) {
      x[unit] = fmaf(x[unit], cosines[d], -(shared[d + half] * sines[d]));
    } else if (d < 2 * half) {
      x[unit] = fmaf(x[unit], cosines[d - half], shared[d - half] * sines[d - half]);
    }
  }
}

}  // namespace

// Block (token, heads): one warp takes a head of Q, K or V. Reads the row of qkv and writes back its queries; keys and
// values go to the pool.
BONSAI_KERNEL(prepare_heads, PrepareHeadsArguments, kPrepareThreads, 8) {
  BONSAI_SHARED float shared[kWarps][kMaxHeadDim];
  const KvPool &pool = arguments.pool;
  const uint32_t token = block_x(), index = block_y() * kWarps + warp();
  const uint32_t heads = arguments.heads + 2 * pool.kv_heads, head_dim = pool.head_dim;
  if (index >= heads) return;

  float *const row = arguments.qkv + (uint64_t{token} * heads + index) * head_dim;
  Head x;
#pragma unroll
  for (uint32_t unit = 0; unit < kHeadUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    x[unit] = d < head_dim ? row[d] : 0;
    if (arguments.bias && d < head_dim) x[unit] = x[unit] + arguments.bias[index * head_dim + d];
  }

  const uint32_t position = arguments.positions[token];
  const bool is_query = index < arguments.heads, is_value = index >= arguments.heads + pool.kv_heads;
  if (!is_value) {
    const float *const norm = is_query ? arguments.q_norm : arguments.k_norm;
    if (norm) normalize(x, norm, head_dim, arguments.rms_eps);
    const uint32_t half = arguments.rope_dim / 2;
    const uint64_t of_position = uint64_t{position} * half;
    rotate(x, arguments.rope_cos + of_position, arguments.rope_sin + of_position, half, shared[warp()]);
  }
  if (is_query) {
#pragma unroll
    for (uint32_t unit = 0; unit < kHeadUnits; ++unit) {
      const uint32_t d = unit * kUnit + lane();
      if (d < head_dim) row[d] = x[unit];
    }
    return;
  }
  const uint32_t *const blocks =
      arguments.block_table + uint64_t{arguments.sequences[token]} * arguments.blocks_per_sequence;
  const KvPlane plane = {.layer = arguments.layer,
                         .block = blocks[position / pool.block_size],
                         .kv_head = (index - arguments.heads) % pool.kv_heads,
                         .is_value = is_value};
  store_head(pool, find_slot(pool, plane, position % pool.block_size), x);
}

}  // namespace bonsai::cuda
