// Single heads of Q, K and V behind their matrix product: biases, norms, RoPE, and storing K and V. A warp has a head,
// as kv_rows.cuh says, of kUnits times 32 places.
#pragma once

#include "attention_arguments.h"
#include "kv_rows.cuh"

namespace bonsai::cuda {

// x = norm * x / sqrt(mean(x^2) + eps)
template <uint32_t kUnits>
inline void normalize(float (&x)[kUnits], const float *norm, uint32_t head_dim, float eps) {
  float sum = 0;
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) sum = fmaf(x[unit], x[unit], sum);
  for (uint32_t mask = 16; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
  const float scale = divide(1.0f, square_root(divide(sum, static_cast<float>(head_dim)) + eps));
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d < head_dim) x[unit] = x[unit] * scale * norm[d];
  }
}

// (x[i], x[i + half]) = (x[i] cos - x[i + half] sin, x[i + half] cos + x[i] sin), i below half. `shared`: the warp's, a
// head long.
template <uint32_t kUnits>
inline void rotate(float (&x)[kUnits], const float *cosines, const float *sines, uint32_t half, float *shared) {
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) shared[unit * kUnit + lane()] = x[unit];
  sync_warp();
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d < half) {
      x[unit] = fmaf(x[unit], cosines[d], -(shared[d + half] * sines[d]));
    } else if (d < 2 * half) {
      x[unit] = fmaf(x[unit], cosines[d - half], shared[d - half] * sines[d - half]);
    }
  }
}

// Head `index` of a token's row, of Q, then K, then V.
inline float *prepared_row(const PrepareHeadsArguments &arguments, uint32_t token, uint32_t index) {
  const uint32_t heads = arguments.heads + 2 * arguments.pool.kv_heads;
  return arguments.qkv + (uint64_t{token} * heads + index) * arguments.pool.head_dim;
}

// Loads it, and makes of it what is attended to or with. `shared`: the warp's, kUnits * 32 floats.
template <uint32_t kUnits>
inline void prepare_head(const PrepareHeadsArguments &arguments, uint32_t token, uint32_t index, float *shared,
                         float (&x)[kUnits]) {
  const uint32_t head_dim = arguments.pool.head_dim;
  const float *const row = prepared_row(arguments, token, index);
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    x[unit] = d < head_dim ? row[d] : 0;
    if (arguments.bias && d < head_dim) x[unit] = x[unit] + arguments.bias[index * head_dim + d];
  }
  if (index >= arguments.heads + arguments.pool.kv_heads) return;
  const float *const norm = index < arguments.heads ? arguments.q_norm : arguments.k_norm;
  if (norm) normalize(x, norm, head_dim, arguments.rms_eps);
  const uint32_t half = arguments.rope_dim / 2;
  const uint64_t of_position = uint64_t{arguments.positions[token]} * half;
  rotate(x, arguments.rope_cos + of_position, arguments.rope_sin + of_position, half, shared);
}

// Stores a head of K or V in the pool.
template <uint32_t kUnits>
inline void store_prepared(const PrepareHeadsArguments &arguments, uint32_t token, uint32_t index,
                           const float (&x)[kUnits]) {
  const KvPool &pool = arguments.pool;
  const uint32_t position = arguments.positions[token];
  const uint32_t *const blocks =
      arguments.block_table + uint64_t{arguments.sequences[token]} * arguments.blocks_per_sequence;
  const KvPlane plane = {.layer = arguments.layer,
                         .block = blocks[position / pool.block_size],
                         .kv_head = (index - arguments.heads) % pool.kv_heads,
                         .is_value = index >= arguments.heads + pool.kv_heads};
  store_head(pool, find_slot(pool, plane, position % pool.block_size), x);
}

}  // namespace bonsai::cuda
