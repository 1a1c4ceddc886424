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

// Turns a warp's scores of one chunk into weights, times 2^kWeightExponent. `scales`, `visible` and `of`: of rows g and
// g + 8, of which n_rows may leave out the latter; `first`: the chunk's first position. Positions from visible[row] on
// get weight 0.
template <class Stored>
inline void softmax_chunk(float (&scores)[kTiles][4], const float (&scales)[2], const uint32_t (&visible)[2],
                          uint32_t first, RowWeights (&of)[2], uint32_t n_rows = 2) {
#pragma unroll
  for (uint32_t row = 0; row < 2; ++row) {
    if (row >= n_rows) return;
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
      weight = weight - base;  // exactly 0 for the largest, however large it is
      if constexpr (Stored::kWeightExponent != 0) weight = weight + Stored::kWeightExponent;
      weight = exp2_fast(weight);
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
  uint32_t token, head;
};

inline Row find_row(const AttendArguments &arguments, const AttentionPiece &piece, uint32_t kv_head, uint32_t row) {
  const uint32_t token = piece.first_token + row / piece.n_heads;
  if (token >= piece.first_token + piece.n_tokens) return {0, 0, 0};
  const uint32_t group = arguments.heads / arguments.pool.kv_heads;
  return {arguments.positions[token] + 1, token, kv_head * group + piece.first_head + row % piece.n_heads};
}

// Where a row's query lies; null if the tile has no such row.
inline const float *find_query(const AttendArguments &arguments, const Row &row) {
  if (row.visible == 0) return nullptr;
  return arguments.queries + uint64_t{row.token} * arguments.query_stride + row.head * arguments.pool.head_dim;
}

// A power of two that brings `largest` to [2^14, 2^15), as exponent.
inline int32_t normalizing_exponent(float largest) {
  if (largest == 0) return 0;
  const int32_t exponent = 14 + 127 - static_cast<int32_t>(float_to_bits(largest) >> 23);
  return exponent > 126 ? 126 : exponent;
}
inline float power_of_two(int32_t exponent) { return bits_to_float(static_cast<uint32_t>(127 + exponent) << 23); }

// A warp brings a query (head_dim) to shared memory, as row `row` of 16 and times score_scale; zeros where there is
// none. Returns what its scores are to be multiplied by.
template <class Stored>
inline float stage_query(const AttendArguments &arguments, const float *query, uint32_t row, Quad *queries) {
  constexpr uint32_t kPairs = (Stored::kHeadDim / 2 + 31) / 32;
  float values[kPairs][2];
  float largest = 0;
#pragma unroll
  for (uint32_t i = 0; i < kPairs; ++i) {
    const uint32_t d = 2 * (lane() + 32 * i);
    const bool given = query && d < arguments.pool.head_dim;
#pragma unroll
    for (uint32_t k = 0; k < 2; ++k) {
      values[i][k] = given ? query[d + k] * arguments.score_scale : 0;
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
  float *to;  // null: the row is none, or sees nothing of the section
  bool is_partial, is_first, is_last;
  Factors factors;
  float reciprocal;  // of the sum of weights, where this is the last section
};

// `total`: over the tile's sections so far, if it is not split. `writes`: of the lanes that hold the row's weights,
// one.
inline Leaving leave(const AttendArguments &arguments, const AttentionPiece &piece, const Row &row, uint32_t section,
                     const RowWeights &of_section, RowWeights &total, bool writes) {
  if (piece.partials_a_token == 0) {
    const Factors factors = fold_weights(total, of_section);
    const bool is_last = section + 1 == piece.end_section;
    float *const y = arguments.y + (uint64_t{row.token} * arguments.heads + row.head) * arguments.pool.head_dim;
    return {row.visible > 0 ? y : nullptr,        false, section == piece.first_section, is_last, factors,
            is_last ? divide(1.0f, total.sum) : 0};
  }
  const uint32_t partial = piece.first_partial + (row.token - piece.first_token) * piece.partials_a_token + section;
  const uint64_t result = uint64_t{partial} * arguments.heads + row.head;
  float *to = nullptr;
  if (row.visible > section * kAttentionSection) {
    to = arguments.partial_sums + result * padded_head_dim(arguments.pool.head_dim);
    if (writes) {
      arguments.partial_weights[2 * result] = of_section.largest;
      arguments.partial_weights[2 * result + 1] = of_section.sum;
    }
  }
  return {to, true, false, false, {1, 1}, 0};
}

// Element d of a row, with this section's sum. Of the last section, adding zero makes one of the two zeros, whatever
// was folded.
inline float finished(const Leaving &leaving, uint32_t d, float sum) {
  const float value = fold(leaving.is_first ? 0 : leaving.to[d], sum, leaving.factors);
  return leaving.is_last ? fmaf(value, leaving.reciprocal, 0.0f) : value;
}

// Elements [d, d + 4) of a row.
inline void put(const Leaving &leaving, uint32_t head_dim, uint32_t d, const Floats &sums) {
  if (!leaving.to) return;
  if (leaving.is_partial) {
    *reinterpret_cast<Floats *>(leaving.to + d) = sums;
    return;
  }
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) {
    if (d + i < head_dim) leaving.to[d + i] = finished(leaving, d + i, sums.of[i]);
  }
}

}  // namespace bonsai::cuda
