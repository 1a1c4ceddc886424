// Attention over the KV cache in float32, flash-style (arXiv:2205.14135), on the vocabulary of vector.h. Included by a
// tier's translation unit.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/attention.h"
#include "plugins/cpu/kernels/prefetch.inl.h"
#include "plugins/cpu/kernels/row_kernels.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How vector v of a stored key or value is read, for each KV dtype.
struct F32Row {
  static size_t bytes(uint32_t vectors) { return size_t{64} * vectors; }
  static F32x16 vector(const std::byte *row, uint32_t v, uint32_t) {
    return load(reinterpret_cast<const float *>(row) + 16 * v);
  }
};
struct F16Row {
  static size_t bytes(uint32_t vectors) { return size_t{32} * vectors; }
  static F32x16 vector(const std::byte *row, uint32_t v, uint32_t) {
    return load_f16(reinterpret_cast<const uint16_t *>(row) + 16 * v);
  }
};
struct Q8Row {  // codes, then a float scale for every 32 of them
  static size_t bytes(uint32_t vectors) { return size_t{18} * vectors; }
  static F32x16 vector(const std::byte *row, uint32_t v, uint32_t vectors) {
    float scale;
    memcpy(&scale, row + 16 * vectors + v / 2 * sizeof scale, sizeof scale);
    return mul(load_i8(reinterpret_cast<const int8_t *>(row) + 16 * v), splat(scale));
  }
};

// The same rows in heads of so many vectors: loops over a row then end where the compiler knows. What head_vectors()
// gives has to stay `auto` for that where it goes on to another function.
template <class Row, uint32_t kVectors>
struct OfVectors : Row {
  static constexpr uint32_t kHeadVectors = kVectors;
};
template <class Row, class Args>
[[gnu::always_inline]] inline auto head_vectors(const Args &args) {
  if constexpr (requires { Row::kHeadVectors; }) {
    return std::integral_constant<uint32_t, Row::kHeadVectors>();
  } else {
    return args.vectors;
  }
}

template <class Row>
[[gnu::always_inline]] inline void prefetch_row(const std::byte *row, uint32_t vectors) {
  prefetch_at<Row>(reinterpret_cast<uintptr_t>(row), Row::bytes(vectors));
}

// Positions whose products with queries are summed up at once, so that they share the loads of the queries; 1: a tier
// has too few registers.
constexpr int kScorePositions = kMaxTokens >= 8 ? 4 : 1;

// Asks for the next keys, and once more for these values, as requests get lost (prefetch.inl.h).
template <class Row>
[[gnu::always_inline]] inline void prefetch_while_scoring(const AttendArgs &args, uint32_t position) {
  if (position >= args.next_n) return;
  prefetch_row<Row>(args.next_keys[position], head_vectors<Row>(args));
  prefetch_row<Row>(args.values[position], head_vectors<Row>(args));
}

// Products of queries with the keys of kPositions positions from `position` on, summed up by lanes.
template <class Row, int kQueries, int kPositions>
[[gnu::always_inline]] inline void multiply_keys(const AttendArgs &args, const float *const (&queries)[kQueries],
                                                 uint32_t position, F32x16 (&sums)[kQueries][kPositions]) {
  const uint32_t vectors = head_vectors<Row>(args);
  const std::byte *rows[kPositions];
#pragma GCC unroll 4
  for (int i = 0; i < kPositions; ++i) {
    prefetch_while_scoring<Row>(args, position + i);
    rows[i] = args.keys[position + i];
#pragma GCC unroll 4
    for (int query = 0; query < kQueries; ++query) sums[query][i] = splat(0.0f);
  }
#pragma GCC unroll 2
  for (uint32_t v = 0; v < vectors; ++v) {
    F32x16 keys[kPositions];
#pragma GCC unroll 4
    for (int i = 0; i < kPositions; ++i) keys[i] = Row::vector(rows[i], v, vectors);
#pragma GCC unroll 4
    for (int query = 0; query < kQueries; ++query) {
      const F32x16 q = load(queries[query] + 16 * v);
#pragma GCC unroll 4
      for (int i = 0; i < kPositions; ++i) sums[query][i] = fma(q, keys[i], sums[query][i]);
    }
  }
}

// The same to lanes (queries, 16 positions, 16 lanes).
template <class Row, int kQueries, int kPositions>
[[gnu::always_inline]] inline void store_products(const AttendArgs &args, const float *const (&queries)[kQueries],
                                                  uint32_t position, float (*lanes)[16][16]) {
  F32x16 sums[kQueries][kPositions];
  multiply_keys<Row>(args, queries, position, sums);
#pragma GCC unroll 4
  for (int query = 0; query < kQueries; ++query) {
#pragma GCC unroll 4
    for (int i = 0; i < kPositions; ++i) store(lanes[query][position % 16 + i], sums[query][i]);
  }
}

// scores[query][position]: of 16 positions at a time, whose lanes are added up together.
template <class Row, int kQueries>
requires(kScorePositions > 1) void score_keys(const AttendArgs &args, float (*scores)[kAttentionChunk]) {
  const float *queries[kQueries];
  for (int query = 0; query < kQueries; ++query) queries[query] = args.queries[query];
  alignas(64) float lanes[kQueries][16][16];
  for (uint32_t first = 0; first < args.n; first += 16) {
    const uint32_t last = args.n - first < 16 ? args.n : first + 16;
    uint32_t position = first;
    for (; position + kScorePositions <= last; position += kScorePositions) {
      store_products<Row, kQueries, kScorePositions>(args, queries, position, lanes);
    }
    for (; position < last; ++position) store_products<Row, kQueries, 1>(args, queries, position, lanes);
    for (; position < first + 16; ++position) {
      for (int query = 0; query < kQueries; ++query) store(lanes[query][position % 16], splat(0.0f));
    }
    for (int query = 0; query < kQueries; ++query) {
      store(scores[query] + first, mul(reduce_add_each(lanes[query][0], 16), splat(args.softmax_scale)));
    }
  }
}

// The same, one position after the other.
template <class Row, int kQueries>
requires(kScorePositions == 1) void score_keys(const AttendArgs &args, float (*scores)[kAttentionChunk]) {
  const float *queries[kQueries];
  for (int query = 0; query < kQueries; ++query) queries[query] = args.queries[query];
  for (uint32_t position = 0; position < args.n; ++position) {
    F32x16 sums[kQueries][1];
    multiply_keys<Row>(args, queries, position, sums);
#pragma GCC unroll 4
    for (int query = 0; query < kQueries; ++query) {
      scores[query][position] = reduce_add(sums[query][0]) * args.softmax_scale;
    }
  }
}

// Turns n scores into exp(score - largest), and writes largest and sum to the partial result.
inline void exponentiate(float *scores, uint32_t n, float *partial) {
  const uint32_t filled = (n + 15) / 16 * 16;
  for (uint32_t i = n; i < filled; ++i) scores[i] = -__builtin_inff();
  const float largest = max_value(scores, filled);
  F32x16 sum = splat(0.0f);
  for (uint32_t i = 0; i < filled; i += 16) {
    const F32x16 weights = exp(sub(load(scores + i), splat(largest)));
    store(scores + i, weights);
    sum = add(sum, weights);
  }
  partial[0] = largest;
  partial[1] = reduce_add(sum);
}

// Vectors [v, v + kVectors) of the weighted sum of values. Each call asks for its share of the next values,
// and once more of the next keys.
template <class Row, int kQueries, int kVectors>
void sum_values(const AttendArgs &args, const float (*weights)[kAttentionChunk], uint32_t v) {
  const uint32_t vectors = head_vectors<Row>(args), calls = vectors / kVectors;
  F32x16 sums[kQueries][kVectors];
#pragma GCC unroll 4
  for (int query = 0; query < kQueries; ++query) {
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) sums[query][i] = splat(0.0f);
  }
  uint32_t next = v / kVectors;
#pragma GCC unroll 1
  for (uint32_t position = 0; position < args.n; ++position) {
    if (position == next && next < args.next_n) {
      prefetch_row<Row>(args.next_values[next], vectors);
      prefetch_row<Row>(args.next_keys[next], vectors);
      next += calls;
    }
    const std::byte *row = args.values[position];
    F32x16 values[kVectors];
#pragma GCC unroll 8
    for (int i = 0; i < kVectors; ++i) values[i] = Row::vector(row, v + i, vectors);
#pragma GCC unroll 4
    for (int query = 0; query < kQueries; ++query) {
      const F32x16 weight = splat(weights[query][position]);
#pragma GCC unroll 8
      for (int i = 0; i < kVectors; ++i) sums[query][i] = fma(weight, values[i], sums[query][i]);
    }
  }
  for (int query = 0; query < kQueries; ++query) {
    for (int i = 0; i < kVectors; ++i) {
      store(args.partials[query] + kPartialHeader + 16 * (v + i), sums[query][i]);
    }
  }
}

// Sums that are in registers at a time: at least enough to hide an addition's latency; and of one query at most.
constexpr int kSums = kMaxTokens < 4 ? 4 : kMaxTokens < 8 ? kMaxTokens : 16;
constexpr int kMostSumsOfQuery = 8;
// Vectors of values at a time: a power of two, which most heads are multiples of.
template <class Row>
constexpr int vectors_at_once(int queries) {
  int n = kMostSumsOfQuery;
  if constexpr (requires { Row::kHeadVectors; }) n = std::min<int>(n, Row::kHeadVectors);
  while (n > 1 && n * queries > kSums) n /= 2;
  return n;
}

template <class Row, int kQueries>
void attend_queries(const AttendArgs &args) {
  constexpr int kVectors = vectors_at_once<Row>(kQueries);
  alignas(64) float scores[kQueries][kAttentionChunk] = {};
  score_keys<Row, kQueries>(args, scores);
  for (int query = 0; query < kQueries; ++query) exponentiate(scores[query], args.n, args.partials[query]);
  const uint32_t vectors = head_vectors<Row>(args);
  uint32_t v = 0;
  for (; v + kVectors <= vectors; v += kVectors) sum_values<Row, kQueries, kVectors>(args, scores, v);
  for (; v < vectors; ++v) sum_values<Row, kQueries, 1>(args, scores, v);
}

template <class Row>
void attend_rows(const AttendArgs &args) {
  static_assert(kAttentionQueries == 4);
  switch (args.n_queries) {
    case 1:
      return attend_queries<Row, 1>(args);
    case 2:
      return attend_queries<Row, 2>(args);
    case 3:
      return attend_queries<Row, 3>(args);
    default:
      return attend_queries<Row, 4>(args);
  }
}

// Calls body(a Row), of which only the type matters: one for heads of 128 or of 64 elements, as most models have them,
// or for any others, that asks as args.prefetch says.
template <class Row, class Args, class Body>
void with_heads(const Args &args, const Body &body) {
  if (args.vectors == 8) return with_requests_into_cache<OfVectors<Row, 8>>(args.prefetch, body);
  if (args.vectors == 4) return with_requests_into_cache<OfVectors<Row, 4>>(args.prefetch, body);
  with_requests_into_cache<Row>(args.prefetch, body);
}
// The same, of the rows that the call has.
template <class Args, class Body>
void with_row(const Args &args, const Body &body) {
  switch (args.dtype) {
    case BONSAI_KV_F32:
      return with_heads<F32Row>(args, body);
    case BONSAI_KV_F16:
      return with_heads<F16Row>(args, body);
    default:
      return with_heads<Q8Row>(args, body);
  }
}

void attend(const AttendArgs &args) {
  with_row(args, [&args](auto row) { attend_rows<decltype(row)>(args); });
}

void fold(const FoldArgs &args) {
  float maxima[16] = {};
  maxima[0] = args.state[0];
  maxima[1] = args.partial[0];
  const float largest = maxima[0] > maxima[1] ? maxima[0] : maxima[1];
  float factors[16];
  store(factors, exp(sub(load(maxima), splat(largest))));
  const F32x16 old_factor = splat(factors[0]);
  const F32x16 new_factor = splat(factors[1]);
  args.state[0] = largest;
  args.state[1] = __builtin_fmaf(args.partial[1], factors[1], args.state[1] * factors[0]);
  for (uint32_t v = 0; v < args.vectors; ++v) {
    float *sum = args.state + kPartialHeader + 16 * v;
    const F32x16 added = load(args.partial + kPartialHeader + 16 * v);
    store(sum, fma(added, new_factor, mul(load(sum), old_factor)));
  }
}

void finish(const FinishArgs &args) {
  const F32x16 sum = splat(args.state[1]);
  const float *values = args.state + kPartialHeader;
  const uint32_t whole = args.n / 16 * 16;
  for (uint32_t i = 0; i < whole; i += 16) store(args.y + i, div(load(values + i), sum));
  if (whole < args.n) store_partial(args.y + whole, div(load(values + whole), sum), args.n - whole);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
