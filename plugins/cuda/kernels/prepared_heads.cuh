// Single heads of Q, K and V behind their matrix product: biases, norms, RoPE, and storing K and V. A warp has a head,
// as kv_rows.cuh says, of kUnits times 32 places.
#pragma once

#include "attention_arguments.h"
#include "kv_rows.cuh"

namespace bonsai::cuda {

// What a lane needs for a head beside the product, and may have at any time.
template <uint32_t kUnits>
struct HeadConstants {
  float bias[kUnits], norm[kUnits], cosines[kUnits], sines[kUnits];
};

// x = norm * x / sqrt(mean(x^2) + eps)
template <uint32_t kUnits>
inline void normalize(float (&x)[kUnits], const float (&norm)[kUnits], uint32_t head_dim, float eps) {
  float sum = 0;
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) sum = fmaf(x[unit], x[unit], sum);
  for (uint32_t mask = 16; mask > 0; mask /= 2) sum = sum + shuffle_xor(sum, mask);
  const float scale = divide(1.0f, square_root(divide(sum, static_cast<float>(head_dim)) + eps));
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d < head_dim) x[unit] = x[unit] * scale * norm[unit];
  }
}

// (x[i], x[i + half]) = (x[i] cos - x[i + half] sin, x[i + half] cos + x[i] sin), i below half. `shared`: the warp's, a
// head long.
template <uint32_t kUnits>
inline void rotate(float (&x)[kUnits], const float (&cosines)[kUnits], const float (&sines)[kUnits], uint32_t half,
                   float *shared) {
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) shared[unit * kUnit + lane()] = x[unit];
  sync_warp();
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d < half) {
      x[unit] = fmaf(x[unit], cosines[unit], -(shared[d + half] * sines[unit]));
    } else if (d < 2 * half) {
      x[unit] = fmaf(x[unit], cosines[unit], shared[d - half] * sines[unit]);
    }
  }
}

// Head `index` of a token's row, of Q, then K, then V.
inline float *prepared_row(const PrepareHeadsArguments &arguments, uint32_t token, uint32_t index) {
  const uint32_t heads = arguments.heads + 2 * arguments.pool.kv_heads;
  return arguments.qkv + (uint64_t{token} * heads + index) * arguments.pool.head_dim;
}

inline bool is_value(const PrepareHeadsArguments &arguments, uint32_t index) {
  return index >= arguments.heads + arguments.pool.kv_heads;
}
// The norm of a head that has one; null: none.
inline const float *find_norm(const PrepareHeadsArguments &arguments, uint32_t index) {
  return index < arguments.heads ? arguments.q_norm : is_value(arguments, index) ? nullptr : arguments.k_norm;
}

template <uint32_t kUnits>
inline HeadConstants<kUnits> load_constants(const PrepareHeadsArguments &arguments, uint32_t position, uint32_t index) {
  HeadConstants<kUnits> constants = {};
  const uint32_t half = arguments.rope_dim / 2;
  const uint64_t of_position = uint64_t{position} * half;
  const float *const norm = find_norm(arguments, index);
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    if (d >= arguments.pool.head_dim) continue;
    if (arguments.bias) constants.bias[unit] = arguments.bias[index * arguments.pool.head_dim + d];
    if (norm) constants.norm[unit] = norm[d];
    if (d >= 2 * half || is_value(arguments, index)) continue;
    const uint64_t at = of_position + (d < half ? d : d - half);
    constants.cosines[unit] = arguments.rope_cos[at];
    constants.sines[unit] = arguments.rope_sin[at];
  }
  return constants;
}

// A head of the product.
template <uint32_t kUnits>
inline void load_product(const PrepareHeadsArguments &arguments, uint32_t token, uint32_t index, float (&x)[kUnits]) {
  const float *const row = prepared_row(arguments, token, index);
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    const uint32_t d = unit * kUnit + lane();
    x[unit] = d < arguments.pool.head_dim ? row[d] : 0;
  }
}

// Makes of a head of the product what is attended to or with. `shared`: the warp's, kUnits * 32 floats.
template <uint32_t kUnits>
inline void prepare_head(const PrepareHeadsArguments &arguments, uint32_t index, const HeadConstants<kUnits> &constants,
                         float *shared, float (&x)[kUnits]) {
  const uint32_t head_dim = arguments.pool.head_dim;
#pragma unroll
  for (uint32_t unit = 0; unit < kUnits; ++unit) {
    if (arguments.bias && unit * kUnit + lane() < head_dim) x[unit] = x[unit] + constants.bias[unit];
  }
  if (is_value(arguments, index)) return;
  if (find_norm(arguments, index)) normalize(x, constants.norm, head_dim, arguments.rms_eps);
  rotate(x, constants.cosines, constants.sines, arguments.rope_dim / 2, shared);
}

// Where a head of K or V lies in the pool, of which a kernel may know more.
inline KvSlot prepared_slot(const PrepareHeadsArguments &arguments, const KvPool &pool, uint32_t sequence,
                            uint32_t position, uint32_t index) {
  const uint32_t *const blocks = arguments.block_table + uint64_t{sequence} * arguments.blocks_per_sequence;
  const KvPlane plane = {.layer = arguments.layer,
                         .block = blocks[position / pool.block_size],
                         .kv_head = (index - arguments.heads) % pool.kv_heads,
                         .is_value = is_value(arguments, index)};
  return find_slot(pool, plane, position % pool.block_size);
}

}  // namespace bonsai::cuda
