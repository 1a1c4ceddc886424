// Attention of many queries to a whole chunk, as prompts have them: keys and values are turned into floats once for all
// of them, and queries lie side by side in lanes. The same results as attend() and fold() have. Included by a tier's
// translation unit.
#pragma once

#include "plugins/cpu/kernels/attention.h"
#include "plugins/cpu/kernels/attention.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Sums that are in registers at a time: of so many lanes, positions and vectors of queries; of queries and vectors of
// values.
constexpr int kTileLanes = kMaxTokens >= 8 ? 2 : 1;
constexpr int kTilePositions = 4;
constexpr int kTileParts = kMaxTokens >= 8 ? 2 : 1;
constexpr int kTileQueries = 4;
constexpr uint32_t kTileVectors = kMaxTokens >= 8 ? 4 : 1;
static_assert(kQuerySlab == 32);
static_assert(kAttentionChunk % kTilePositions == 0);

// The order in which reduce_add's tree adds up lanes that come one after the other (i and i + 8, then i + 4, i + 2,
// i + 1): every two that belong together are there as early as can be.
constexpr uint32_t kLaneOrder[16] = {0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15};

// What has been read of a chunk, and what is made of it. kTileVectors vectors of every value lie together, and those
// that are left over.
struct TileScratch {
  float *keys;    // (kAttentionChunk, 16 * vectors)
  float *values;  // (vectors / kTileVectors, kAttentionChunk, 16 * kTileVectors), then (rest, kAttentionChunk, 16)
  float *scores;  // (kAttentionChunk, kQuerySlab)
};

inline TileScratch parts_of(float *scratch, uint32_t vectors) {
  const size_t row = size_t{16} * kAttentionChunk * vectors;
  return {scratch, scratch + row, scratch + 2 * row};
}

inline float *values_from(const TileScratch &scratch, uint32_t v) {
  return scratch.values + size_t{16} * kAttentionChunk * v;
}

template <class Row>
void read_chunk(const AttendTileArgs &args, const TileScratch &scratch) {
  const uint32_t vectors = head_vectors<Row>(args), together = vectors / kTileVectors * kTileVectors;
  for (uint32_t position = 0; position < kAttentionChunk; ++position) {
    const std::byte *key = args.keys[position], *value = args.values[position];
    for (uint32_t v = 0; v < vectors; ++v) {
      store(scratch.keys + (size_t{position} * vectors + v) * 16, Row::vector(key, v, vectors));
    }
    for (uint32_t v = 0; v < together; ++v) {
      float *block = values_from(scratch, v / kTileVectors * kTileVectors);
      store(block + (position * kTileVectors + v % kTileVectors) * 16, Row::vector(value, v, vectors));
    }
    for (uint32_t v = together; v < vectors; ++v) {
      store(values_from(scratch, v) + position * 16, Row::vector(value, v, vectors));
    }
  }
}

// Products of kParts vectors of queries with kPositions positions, of the lanes `lane` and `lane` + 8 * i for kLanes i,
// each summed up by itself. Count, here and below: as head_vectors() has it.
template <int kLanes, int kParts, int kPositions, class Count>
[[gnu::always_inline]] inline void multiply_lanes(const float *queries, const float *keys, Count vectors, uint32_t lane,
                                                  F32x16 (&sums)[kLanes][kPositions][kParts]) {
  const size_t width = size_t{16} * vectors;
#pragma GCC unroll 2
  for (int i = 0; i < kLanes; ++i) {
#pragma GCC unroll 8
    for (int p = 0; p < kPositions; ++p) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) sums[i][p][part] = splat(0.0f);
    }
  }
  const float *query = queries + lane * kQuerySlab, *key = keys + lane;
  for (uint32_t v = 0; v < vectors; ++v, query += 16 * kQuerySlab, key += 16) {
    F32x16 q[kLanes][kParts];
#pragma GCC unroll 2
    for (int i = 0; i < kLanes; ++i) {
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) q[i][part] = load(query + 8 * i * kQuerySlab + 16 * part);
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPositions; ++p) {
#pragma GCC unroll 2
      for (int i = 0; i < kLanes; ++i) {
        const F32x16 k = splat(key[p * width + 8 * i]);
#pragma GCC unroll 2
        for (int part = 0; part < kParts; ++part) sums[i][p][part] = fma(q[i][part], k, sums[i][p][part]);
      }
    }
  }
}

template <int kParts, int kPositions>
[[gnu::always_inline]] inline void add_lanes(const F32x16 (&some)[kPositions][kParts],
                                             const F32x16 (&others)[kPositions][kParts],
                                             F32x16 (&sums)[kPositions][kParts]) {
#pragma GCC unroll 8
  for (int p = 0; p < kPositions; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) sums[p][part] = add(some[p][part], others[p][part]);
  }
}

// The sums of kLanes lanes from `lane` on that lie 16 / kLanes apart, by the tree of reduce_add.
template <int kLanes, int kParts, int kPositions, class Count>
[[gnu::always_inline]] inline void sum_lanes(const float *queries, const float *keys, Count vectors, uint32_t lane,
                                             F32x16 (&sums)[kPositions][kParts]) {
  if constexpr (kLanes == 1) {
    F32x16 one[1][kPositions][kParts];
    multiply_lanes(queries, keys, vectors, lane, one);
    memcpy(sums, one, sizeof sums);
  } else if constexpr (kLanes == 2 && kTileLanes == 2) {
    F32x16 both[2][kPositions][kParts];
    multiply_lanes(queries, keys, vectors, lane, both);
    add_lanes(both[0], both[1], sums);
  } else {
    F32x16 some[kPositions][kParts], others[kPositions][kParts];
    sum_lanes<kLanes / 2>(queries, keys, vectors, lane, some);
    sum_lanes<kLanes / 2>(queries, keys, vectors, lane + 16 / kLanes, others);
    add_lanes(some, others, sums);
  }
}

// Scores of kParts vectors of queries with kPositions positions.
template <int kParts, int kPositions, class Count>
void score_positions(const float *queries, const float *keys, Count vectors, float softmax_scale, float *scores) {
  F32x16 sums[kPositions][kParts];
  sum_lanes<16>(queries, keys, vectors, 0, sums);
#pragma GCC unroll 8
  for (int p = 0; p < kPositions; ++p) {
#pragma GCC unroll 2
    for (int part = 0; part < kParts; ++part) {
      store(scores + p * kQuerySlab + 16 * part, mul(sums[p][part], splat(softmax_scale)));
    }
  }
}

// Scores of a slab with all positions. Each asks for as many of the next rows.
template <class Row>
void score_slab(const AttendTileArgs &args, const TileScratch &scratch, uint32_t slab, uint32_t parts) {
  const auto vectors = head_vectors<Row>(args);
  const float *queries = args.queries + size_t{slab} * 16 * vectors * kQuerySlab;
  for (uint32_t position = 0; position < kAttentionChunk; position += kTilePositions) {
    for (uint32_t i = position; i < position + kTilePositions && i < args.next_n && slab < 2; ++i) {
      prefetch_row<Row>(args.next_keys[i], vectors);
      prefetch_row<Row>(args.next_values[i], vectors);
    }
    const float *keys = scratch.keys + size_t{16} * vectors * position;
    float *scores = scratch.scores + size_t{position} * kQuerySlab;
    uint32_t part = 0;
    for (; part + kTileParts <= parts; part += kTileParts) {
      score_positions<kTileParts, kTilePositions>(queries + 16 * part, keys, vectors, args.softmax_scale,
                                                  scores + 16 * part);
    }
    for (; part < parts; ++part) {
      score_positions<1, kTilePositions>(queries + 16 * part, keys, vectors, args.softmax_scale, scores + 16 * part);
    }
  }
}

// What fold() makes of largest scores and sums, and multiplies sums of values with; of a slab's queries.
struct SlabFactors {
  alignas(64) float old_ones[kQuerySlab], new_ones[kQuerySlab];
};

// Turns scores of 16 queries into exp(score - largest), as exponentiate() does; gives the largest and the sum.
inline void exponentiate_part(float *scores, F32x16 &largest, F32x16 &sum) {
  largest = splat(-__builtin_inff());
  for (uint32_t position = 0; position < kAttentionChunk; ++position) {
    largest = max(load(scores + position * kQuerySlab), largest);
  }
  F32x16 ready[4];
  for (uint32_t i = 0; i < 16; ++i) {
    sum = splat(0.0f);
    for (uint32_t position = kLaneOrder[i]; position < kAttentionChunk; position += 16) {
      const F32x16 weights = exp(sub(load(scores + position * kQuerySlab), largest));
      store(scores + position * kQuerySlab, weights);
      sum = add(sum, weights);
    }
    uint32_t level = 0;
    for (; (i >> level & 1) != 0; ++level) sum = add(ready[level], sum);
    if (level < 4) ready[level] = sum;
  }
}

// The first two numbers of the states of 16 queries, and the factors.
inline void fold_part(const AttendTileArgs &args, uint32_t query, uint32_t n, F32x16 largest, F32x16 sum,
                      float *old_factors, float *new_factors) {
  const size_t stride = kPartialHeader + size_t{16} * args.vectors;
  float *states = args.states + query * stride;
  alignas(64) float maxima[16] = {}, sums[16] = {};
  if (!args.is_first) {
    for (uint32_t i = 0; i < n; ++i) {
      maxima[i] = states[i * stride];
      sums[i] = states[i * stride + 1];
    }
    const F32x16 all = max(load(maxima), largest);
    const F32x16 old_factor = exp(sub(load(maxima), all)), new_factor = exp(sub(largest, all));
    store(old_factors, old_factor);
    store(new_factors, new_factor);
    sum = fma(sum, new_factor, mul(load(sums), old_factor));
    largest = all;
  }
  store(maxima, largest);
  store(sums, sum);
  for (uint32_t i = 0; i < n; ++i) {
    states[i * stride] = maxima[i];
    states[i * stride + 1] = sums[i];
  }
}

// Weighted sums of kVectors vectors of the values for kQueries queries, folded into their states.
template <int kQueries, int kVectors>
void sum_values_of_tile(const AttendTileArgs &args, const float *values, const float *weights, float *states,
                        const float *old_factors, const float *new_factors) {
  F32x16 sums[kQueries][kVectors];
#pragma GCC unroll 4
  for (int query = 0; query < kQueries; ++query) {
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) sums[query][i] = splat(0.0f);
  }
#pragma GCC unroll 1
  for (uint32_t position = 0; position < kAttentionChunk; ++position) {
    F32x16 row[kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) row[i] = load(values + (position * kVectors + i) * 16);
#pragma GCC unroll 4
    for (int query = 0; query < kQueries; ++query) {
      const F32x16 weight = splat(weights[position * kQuerySlab + query]);
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) sums[query][i] = fma(weight, row[i], sums[query][i]);
    }
  }
  const size_t stride = kPartialHeader + size_t{16} * args.vectors;
#pragma GCC unroll 4
  for (int query = 0; query < kQueries; ++query) {
    float *state = states + query * stride;
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      if (!args.is_first) {
        const F32x16 old_sum = mul(load(state + 16 * i), splat(old_factors[query]));
        sums[query][i] = fma(sums[query][i], splat(new_factors[query]), old_sum);
      }
      store(state + 16 * i, sums[query][i]);
    }
  }
}

template <int kVectors>
void sum_values_of_slab(const AttendTileArgs &args, const TileScratch &scratch, uint32_t v, uint32_t first, uint32_t n,
                        const SlabFactors &factors) {
  const size_t stride = kPartialHeader + size_t{16} * args.vectors;
  const float *values = values_from(scratch, v);
  float *states = args.states + first * stride + kPartialHeader + size_t{16} * v;
  uint32_t query = 0;
  for (; query + kTileQueries <= n; query += kTileQueries) {
    sum_values_of_tile<kTileQueries, kVectors>(args, values, scratch.scores + query, states + query * stride,
                                               factors.old_ones + query, factors.new_ones + query);
  }
  for (; query < n; ++query) {
    sum_values_of_tile<1, kVectors>(args, values, scratch.scores + query, states + query * stride,
                                    factors.old_ones + query, factors.new_ones + query);
  }
}

template <class Row>
void attend_tile_rows(const AttendTileArgs &args) {
  const TileScratch scratch = parts_of(args.scratch, args.vectors);
  read_chunk<Row>(args, scratch);
  for (uint32_t first = 0; first < args.n_queries; first += kQuerySlab) {
    const uint32_t n = args.n_queries - first < kQuerySlab ? args.n_queries - first : kQuerySlab;
    const uint32_t parts = (n + 15) / 16;
    score_slab<Row>(args, scratch, first / kQuerySlab, parts);
    SlabFactors factors;
    for (uint32_t part = 0; part < parts; ++part) {
      F32x16 largest, sum;
      exponentiate_part(scratch.scores + 16 * part, largest, sum);
      fold_part(args, first + 16 * part, n - 16 * part < 16 ? n - 16 * part : 16, largest, sum,
                factors.old_ones + 16 * part, factors.new_ones + 16 * part);
    }
    uint32_t v = 0;
    for (; v + kTileVectors <= args.vectors; v += kTileVectors) {
      sum_values_of_slab<kTileVectors>(args, scratch, v, first, n, factors);
    }
    for (; v < args.vectors; ++v) sum_values_of_slab<1>(args, scratch, v, first, n, factors);
  }
}

void attend_tile(const AttendTileArgs &args) {
  with_row(args, [&args](auto row) { attend_tile_rows<decltype(row)>(args); });
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
