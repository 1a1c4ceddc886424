// What attention knows of its rows, a row being one query head of one token: where queries come from, the softmax of a
// chunk, how chunks and sections are folded together, and where results go.
#pragma once

#include "attention_formats.cuh"

namespace bonsai::cuda {

inline float minus_infinity() { return bits_to_float(0xFF800000u); }

// Of a row over some positions. The weight of a score s is 2^(s - largest).
struct RowWeights {
  float largest, sum;
};
inline RowWeights no_weights() { return {minus_infinity(), 0}; }

// What the sums of values are multiplied by when two sets of positions become one.
struct Factors {
  float old, added;
};

// state = state and then added. Without positions in `added`, nothing changes: the factors are 1 and 0.
inline Factors fold_weights(RowWeights &state, const RowWeights &added) {
  const float largest = fmaxf(state.largest, added.largest);
  const float base = largest == minus_infinity() ? 0 : largest;
  const Factors factors = {exp2_fast(state.largest - base), exp2_fast(added.largest - base)};
  state = {largest, fmaf(added.sum, factors.added, state.sum * factors.old)};
  return factors;
}
inline float fold(float old, float added, const Factors &factors) {
  return fmaf(added, factors.added, old * factors.old);
}

// Turns a warp's scores of one chunk into weights. `scales`, `visible` and `of`: of rows g and g + 8; `first`: the
// chunk's first position. Positions from visible[row] on get weight 0.
inline void softmax_chunk(float (&scores)[kTiles][4], const float (&scales)[2], const uint32_t (&visible)[2],
                          uint32_t first, RowWeights (&of)[2]) {
#pragma unroll
  for (uint32_t row = 0; row < 2; ++row) {
    float largest = minus_infinity();
#pragma unroll
    for (uint32_t i = 0; i < 2 * kTiles; ++i) {
      const uint32_t position = first + i / 2 * 8 + 2 * (lane() % 4) + i % 2;
      float &score = scores[i / 2][2 * row + i % 2];
      score = position < visible[row] ? score * scales[row] : minus_infinity();
      largest = fmaxf(largest, score);
    }
    largest = fmaxf(largest, shuffle_xor(largest, 1));
    largest = fmaxf(largest, shuffle_xor(largest, 2));
    const float base = largest == minus_infinity() ? 0 : largest;
    float sum = 0;
#pragma unroll
    for (uint32_t i = 0; i < 2 * kTiles; ++i) {
      float &weight = scores[i / 2][2 * row + i % 2];
      weight = exp2_fast(weight - base);
      sum = sum + weight;
    }
    sum = sum + shuffle_xor(sum, 1);
    sum = sum + shuffle_xor(sum, 2);
    of[row] = {largest, sum};
  }
}

// One row of a piece's tile.
struct Row {
  uint32_t visible;  // positions that it attends to; 0: the tile has no such row
  const float *query;
  float *y;
  float *sums, *weights;  // of section 0, if the tile is split
};

inline Row find_row(const AttendArguments &arguments, const AttentionPiece &piece, uint32_t kv_head, uint32_t row) {
  const uint32_t of_token = row / piece.n_heads;
  if (of_token >= piece.n_tokens) return {0, nullptr, nullptr, nullptr, nullptr};
  const uint32_t token = piece.first_token + of_token;
  const uint32_t group = arguments.heads / arguments.pool.kv_heads;
  const uint32_t head = kv_head * group + piece.first_head + row % piece.n_heads;
  const uint32_t head_dim = arguments.pool.head_dim;
  const uint64_t partial = piece.first_partial + uint64_t{of_token} * piece.partials_a_token;
  const uint64_t result = partial * arguments.heads + head;
  return {arguments.positions[token] + 1,
          arguments.queries + uint64_t{token} * arguments.query_stride + head * head_dim,
          arguments.y + (uint64_t{token} * arguments.heads + head) * head_dim,
          arguments.partial_sums + result * padded_head_dim(head_dim), arguments.partial_weights + 2 * result};
}

// A power of two that brings `largest` to [2^14, 2^15), as exponent.
inline int32_t normalizing_exponent(float largest) {
  if (largest == 0) return 0;
  const int32_t exponent = 14 + 127 - static_cast<int32_t>(float_to_bits(largest) >> 23);
  return exponent > 126 ? 126 : exponent;
}
inline float power_of_two(int32_t exponent) { return bits_to_float(static_cast<uint32_t>(127 + exponent) << 23); }

// A warp brings row `row` of 16 to shared memory, times `score_scale`. Returns what its scores are to be multiplied by.
template <class Stored>
inline float stage_query(const Row &from, uint32_t head_dim, float score_scale, uint32_t row, Quad *queries) {
  constexpr uint32_t kPairs = (Stored::kHeadDim / 2 + 31) / 32;
  float values[kPairs][2];
  float largest = 0;
#pragma unroll
  for (uint32_t i = 0; i < kPairs; ++i) {
    const uint32_t d = 2 * (lane() + 32 * i);
    const bool given = from.visible > 0 && d < head_dim;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      values[i][k] = given ? from.query[d + k] * score_scale : 0;
      largest = fmaxf(largest, fabsf(values[i][k]));
    }
  }
  int32_t exponent = 0;
  if constexpr (Stored::kNormalized) {
#pragma unroll
    for (uint32_t mask = 16; mask > 0; mask /= 2) largest = fmaxf(largest, shuffle_xor(largest, mask));
    exponent = normalizing_exponent(largest);
  }
  const float factor = power_of_two(exponent);
#pragma unroll
  for (uint32_t i = 0; i < kPairs; ++i) {
    const uint32_t d = 2 * (lane() + 32 * i);
    if (d < Stored::kHeadDim) Stored::store(queries, row, d, values[i][0] * factor, values[i][1] * factor);
  }
  return power_of_two(-exponent);
}

// How the sums of one row over a section leave: as a partial result, or folded into y.
struct Leaving {
  float *sums;  // partial; null: to y
  Factors factors;
  bool first, last;  // section of the tile
  float reciprocal;  // of the sum of weights; of the last section
};

// `total`: over the sections so far, of a tile that is not split. `writes`: whether this lane is the one that stores
// the row's weights.
inline Leaving leave(const Row &row, const AttendArguments &arguments, const AttentionPiece &piece, uint32_t section,
                     const RowWeights &of_section, RowWeights &total, bool writes) {
  if (piece.partials_a_token > 0) {
    const uint64_t result = uint64_t{section} * arguments.heads;
    if (writes && row.visible > section * kAttentionSection) {
      row.weights[2 * result] = of_section.largest;
      row.weights[2 * result + 1] = of_section.sum;
    }
    return {row.sums + result * padded_head_dim(arguments.pool.head_dim), {1, 1}, false, false, 0};
  }
  const Factors factors = fold_weights(total, of_section);
  const bool last = section + 1 == piece.end_section;
  return {nullptr, factors, section == piece.first_section, last, last ? divide(1.0f, total.sum) : 0};
}

// Elements [d, d + 4) of a row. Adding zero makes one of the two zeros, whatever was folded.
inline void put(const Row &row, const Leaving &leaving, uint32_t section, uint32_t head_dim, uint32_t d,
                const Floats &sums) {
  if (row.visible == 0) return;
  if (leaving.sums) {
    if (row.visible > section * kAttentionSection) *reinterpret_cast<Floats *>(leaving.sums + d) = sums;
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if (d + i >= head_dim) return;
    float value = fold(leaving.first ? 0 : row.y[d + i], sums.of[i], leaving.factors);
    if (leaving.last) value = fmaf(value, leaving.reciprocal, 0.0f);
    row.y[d + i] = value;
  }
}

}  // namespace bonsai::cuda
