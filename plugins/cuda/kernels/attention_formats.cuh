// How attention multiplies with what the KV pool stores: one structure for each dtype, all with the same functions, for
// one warp, 16 queries and one chunk of 64 positions.
//
// With g = lane / 4 and t = lane % 4, a lane holds of a chunk
//   scores[tile][i]: row g + i / 2 * 8, position 8 tile + 2 t + i % 2
//   sums[tile][i] of a unit: row g + i / 2 * 8, place 8 t + 2 tile + i % 2 along the head
// Queries and weights are floats, and stay so: F16 and Q8_0 multiply them as sums of two halves, which hold 22 bits.
#pragma once

#include "attention_arguments.h"
#include "simt.cuh"

namespace bonsai::cuda {

inline constexpr uint32_t kTiles = kAttentionChunk / 8;
inline constexpr uint32_t kStrips = kAttentionChunk / kStripSlots;
inline constexpr uint32_t kUnitTiles = kUnit / 8;

// Four floats that are loaded and stored at once.
struct alignas(16) Floats {
  float of[4];
};

// What stands behind a matrix fragment of a lane.
struct Fragment {
  uint32_t of[4];
};

// Keys and values lie in global or in shared memory. Not by load_streaming: a kernel's wait does not order what is
// loaded as if it never changed.
inline Quad load_quad(const uint8_t *from) { return *reinterpret_cast<const Quad *>(from); }

inline void set_zero(float (&sums)[kUnitTiles][4]) {
#pragma unroll
  for (uint32_t i = 0; i < 4 * kUnitTiles; ++i) sums[i / 4][i % 4] = 0;
}

inline uint32_t load_word(const uint8_t *from) { return *reinterpret_cast<const uint32_t *>(from); }
inline float low_half(uint32_t halves) { return half_to_float(static_cast<uint16_t>(halves)); }
inline float high_half(uint32_t halves) { return half_to_float(static_cast<uint16_t>(halves >> 16)); }

// Two floats as halves plus halves / low_factor.
struct SplitPair {
  uint32_t high, low;
};
inline SplitPair split(float first, float second, float low_factor) {
  const uint32_t high = floats_to_halves(first, second);
  return {high, floats_to_halves((first - low_half(high)) * low_factor, (second - high_half(high)) * low_factor)};
}

// Ones in the halves that stand for slots `slot` and slot + 1, if these are below n.
inline uint32_t halves_below(uint32_t slot, uint32_t n) {
  return (slot < n ? 0xFFFFu : 0) | (slot + 1 < n ? 0xFFFF0000u : 0);
}

// Of weights with Q8_0, the low halves: times a scale, weights may be tiny, and their low halves would vanish.
inline constexpr float kLowWeights = 2048.0f;

// Queries as fragments: Quad ((unit, half of 8 places, high | low), lane).
template <uint32_t kPadded>
struct SplitQueries {
  // A row is scaled by a power of two, so that its largest element lies in [2^14, 2^15): both halves are normal
  // numbers.
  static constexpr bool kNormalized = true;

  // Elements d and d + 1, d even, of a row.
  static void store(Quad *queries, uint32_t row, uint32_t d, float first, float second) {
    const uint32_t unit = d / kUnit, place = d % kUnit, to_lane = 4 * (row % 8) + place / 8;
    const uint32_t half = place % 8 / 4, word = place % 4 / 2 * 2 + row / 8;
    const SplitPair pair = split(first, second, 1.0f);
    uint32_t *words = reinterpret_cast<uint32_t *>(queries + (4 * unit + 2 * half) * 32 + to_lane) + word;
    words[0] = pair.high;
    words[4 * 32] = pair.low;
  }
  static Fragment load(const Quad *queries, uint32_t unit, uint32_t half, uint32_t part) {
    const Quad quad = queries[(4 * unit + 2 * half + part) * 32 + lane()];
    return {quad.x, quad.y, quad.z, quad.w};
  }
};

template <uint32_t kPadded>
struct StoredF16 : SplitQueries<kPadded> {
  static constexpr uint32_t kHeadDim = kPadded, kUnits = kPadded / kUnit;
  static constexpr uint32_t kDtype = kKvF16, kStripBytes = strip_bytes(kDtype, kPadded);
  static constexpr bool kHasWide = has_wide(kDtype, kPadded);
  static constexpr float kWeightExponent = 14;  // of the largest weight: low halves that count are normal numbers

  // A unit of a strip's keys, or of its values.
  struct Keys {
    Quad of[2];
  };
  using Values = Keys;

  static Keys load_keys(const uint8_t *strip, uint32_t unit) {
    const uint8_t *pieces = strip + (2 * unit * 32 + lane()) * sizeof(Quad);
    return {load_quad(pieces), load_quad(pieces + 32 * sizeof(Quad))};
  }
  static Values load_values(const uint8_t *strip, uint32_t unit) { return load_keys(strip, unit); }

  // scores += queries * keys, for one unit of n strips, two tiles each.
  template <uint32_t n>
  static void score(const Quad *queries, uint32_t unit, const Keys (&keys)[n], float (&scores)[2 * n][4]) {
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll
      for (uint32_t part = 0; part < 2; ++part) {
        const Fragment a = SplitQueries<kPadded>::load(queries, unit, half, part);
#pragma unroll
        for (uint32_t tile = 0; tile < 2 * n; ++tile) {
          const Quad &quad = keys[tile / 2].of[tile % 2];
          const uint32_t b[2] = {half ? quad.z : quad.x, half ? quad.w : quad.y};
          mma_f16_k16(scores[tile], a.of, b);
        }
      }
    }
  }

  // Slots from n on become zeros, whatever the pool holds there: in a lane's values, and in a strip in shared memory.
  static void keep(Values &values, uint32_t n) {
#pragma unroll
    for (Quad &quad : values.of) keep(quad, lane(), n);
  }
  static void clean(uint8_t *strip, uint32_t n) {
    Quad *const quads = reinterpret_cast<Quad *>(strip);
    for (uint32_t i = thread(); i < kStripBytes / sizeof(Quad); i += kWideThreads) keep(quads[i], i % 32, n);
  }

  // Of a strip.
  struct StripWeights {
    Fragment high, low;
  };
  static StripWeights pack(const float (&weights)[kTiles][4], uint32_t strip) {
    StripWeights packed;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const float *pair = &weights[2 * strip + i / 2][i % 2 * 2];
      const SplitPair halves = split(pair[0], pair[1], 1.0f);
      packed.high.of[i] = halves.high;
      packed.low.of[i] = halves.low;
    }
    return packed;
  }
  // For several units.
  struct Weights {
    StripWeights of[kStrips];
  };
  static Weights pack(const float (&weights)[kTiles][4]) {
    Weights packed;
#pragma unroll
    for (uint32_t strip = 0; strip < kStrips; ++strip) packed.of[strip] = pack(weights, strip);
    return packed;
  }

  // sums = weights * values, for one unit.
  static void sum(const Weights &weights, const Values (&values)[kStrips], float (&sums)[kUnitTiles][4]) {
    set_zero(sums);
#pragma unroll
    for (uint32_t strip = 0; strip < kStrips; ++strip) add_strip(weights.of[strip], values[strip], sums);
  }
  // The same of weights that are packed strip by strip, which takes fewer registers.
  static void sum_once(const float (&weights)[kTiles][4], const Values (&values)[kStrips],
                       float (&sums)[kUnitTiles][4]) {
    set_zero(sums);
#pragma unroll
    for (uint32_t strip = 0; strip < kStrips; ++strip) add_strip(pack(weights, strip), values[strip], sums);
  }

 private:
  static void add_strip(const StripWeights &weights, const Values &values, float (&sums)[kUnitTiles][4]) {
#pragma unroll
    for (uint32_t part = 0; part < 2; ++part) {
      const Fragment &a = part == 0 ? weights.high : weights.low;
#pragma unroll
      for (uint32_t tile = 0; tile < kUnitTiles; ++tile) {
        const Quad &quad = values.of[tile / 2];
        const uint32_t b[2] = {tile % 2 ? quad.z : quad.x, tile % 2 ? quad.w : quad.y};
        mma_f16_k16(sums[tile], a.of, b);
      }
    }
  }
  static void keep(Quad &quad, uint32_t of_lane, uint32_t n) {
    const uint32_t slot = 2 * (of_lane % 4), first = halves_below(slot, n), second = halves_below(slot + 8, n);
    quad = {quad.x & first, quad.y & second, quad.z & first, quad.w & second};
  }
};

// A unit's weighted sum of values, from the sums with high and with low halves.
inline void join_sums(const float (&high)[kUnitTiles][4], float (&low)[kUnitTiles][4]) {
#pragma unroll
  for (uint32_t tile = 0; tile < kUnitTiles; ++tile) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) low[tile][i] = fmaf(low[tile][i], 1.0f / kLowWeights, high[tile][i]);
  }
}

// Four codes, as kv_layout.cuh has them: the n-th halves of `b` stand for codes 2 n and 2 n + 1.
inline void codes_to_halves(uint32_t codes, uint32_t (&b)[2]) {
  constexpr uint32_t kBytes = 0x00FF00FF, k1024 = 0x64006400, kMinus1152 = 0xE480E480;
  b[0] = add_halves((codes & kBytes) | k1024, kMinus1152);
  b[1] = add_halves((codes >> 8 & kBytes) | k1024, kMinus1152);
}

template <uint32_t kPadded>
struct StoredQ8_0 : SplitQueries<kPadded> {
  static constexpr uint32_t kHeadDim = kPadded, kUnits = kPadded / kUnit;
  static constexpr uint32_t kDtype = kKvQ8_0, kStripBytes = strip_bytes(kDtype, kPadded);
  static constexpr bool kHasWide = has_wide(kDtype, kPadded);
  static constexpr float kWeightExponent = 0;  // weights times scales must not leave the halves' range

  // A unit of a strip's keys, or of its values: codes, and scales of slots 2 t, 2 t + 1 and of 2 t + 8, 2 t + 9.
  struct Keys {
    Quad codes;
    uint32_t scales[2];
  };
  using Values = Keys;

  static Keys load_keys(const uint8_t *strip, uint32_t unit) {
    const uint8_t *scales = strip + scale_offset(kPadded, 2 * (lane() % 4), unit);
    return {load_quad(strip + (unit * 32 + lane()) * sizeof(Quad)),
            {load_word(scales), load_word(scales + 8 * sizeof(uint16_t))}};
  }
  static Values load_values(const uint8_t *strip, uint32_t unit) { return load_keys(strip, unit); }

  template <uint32_t n>
  static void score(const Quad *queries, uint32_t unit, const Keys (&keys)[n], float (&scores)[2 * n][4]) {
    // Few tiles at a time, for the registers' sake.
    constexpr uint32_t kTogether = n < 2 ? 2 : 4;
#pragma unroll
    for (uint32_t first = 0; first < 2 * n; first += kTogether) {
      score_tiles<kTogether>(queries, unit, keys, first, scores);
    }
  }

  static void keep(Values &values, uint32_t n) {
    const uint32_t slot = 2 * (lane() % 4);
    values.scales[0] &= halves_below(slot, n);
    values.scales[1] &= halves_below(slot + 8, n);
  }
  static void clean(uint8_t *strip, uint32_t n) {
    for (uint32_t i = thread(); i < kUnits * kStripSlots; i += kWideThreads) {
      if (i % kStripSlots >= n) reinterpret_cast<uint16_t *>(strip + kStripSlots * kPadded)[i] = 0;
    }
  }

  using Weights = float[kTiles][4];
  static const Weights &pack(const float (&weights)[kTiles][4]) { return weights; }
  static void sum_once(const Weights &weights, const Values (&values)[kStrips], float (&sums)[kUnitTiles][4]) {
    sum(weights, values, sums);
  }

  static void sum(const Weights &weights, const Values (&values)[kStrips], float (&sums)[kUnitTiles][4]) {
    float high[kUnitTiles][4] = {};
    set_zero(sums);
#pragma unroll
    for (uint32_t strip = 0; strip < kStrips; ++strip) {
      uint32_t a_high[4], a_low[4];
      scale_weights(weights, strip, values[strip], a_high, a_low);
      const Quad &codes = values[strip].codes;
      const uint32_t words[kUnitTiles] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
      for (uint32_t tile = 0; tile < kUnitTiles; ++tile) {
        uint32_t b[2];
        codes_to_halves(words[tile], b);
        mma_f16_k16(high[tile], a_high, b);
        mma_f16_k16(sums[tile], a_low, b);
      }
    }
    join_sums(high, sums);
  }

 private:
  template <uint32_t kTogether, uint32_t n>
  static void score_tiles(const Quad *queries, uint32_t unit, const Keys (&keys)[n], uint32_t first,
                          float (&scores)[2 * n][4]) {
    float sums[kTogether][4] = {};
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      uint32_t b[kTogether][2];
#pragma unroll
      for (uint32_t i = 0; i < kTogether; ++i) {
        const Quad &codes = keys[(first + i) / 2].codes;
        codes_to_halves(i % 2 ? (half ? codes.w : codes.z) : (half ? codes.y : codes.x), b[i]);
      }
#pragma unroll
      for (uint32_t part = 0; part < 2; ++part) {
        const Fragment a = SplitQueries<kPadded>::load(queries, unit, half, part);
#pragma unroll
        for (uint32_t i = 0; i < kTogether; ++i) mma_f16_k16(sums[i], a.of, b[i]);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kTogether; ++i) {
      const uint32_t scales = keys[(first + i) / 2].scales[i % 2];
      const float even = low_half(scales), odd = high_half(scales);
      float(&to)[4] = scores[first + i];
      to[0] = fmaf(sums[i][0], even, to[0]);
      to[1] = fmaf(sums[i][1], odd, to[1]);
      to[2] = fmaf(sums[i][2], even, to[2]);
      to[3] = fmaf(sums[i][3], odd, to[3]);
    }
  }

  // A strip's weights, times the values' scales, which belong to the slots.
  static void scale_weights(const Weights &weights, uint32_t strip, const Values &values, uint32_t (&high)[4],
                            uint32_t (&low)[4]) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const float *pair = &weights[2 * strip + i / 2][i % 2 * 2];
      const uint32_t scales = values.scales[i / 2];
      const SplitPair halves = split(pair[0] * low_half(scales), pair[1] * high_half(scales), kLowWeights);
      high[i] = halves.high;
      low[i] = halves.low;
    }
  }
};

// Full floats, for measuring: no tensor cores, every product and sum by fmaf in order.
template <uint32_t kPadded>
struct StoredF32 {
  static constexpr uint32_t kHeadDim = kPadded, kUnits = kPadded / kUnit;
  static constexpr uint32_t kDtype = kKvF32, kStripBytes = strip_bytes(kDtype, kPadded);
  static constexpr bool kHasWide = has_wide(kDtype, kPadded);
  static constexpr float kWeightExponent = 0;
  static constexpr bool kNormalized = false;

  struct Keys {
    const uint8_t *unit;
  };
  struct Values {
    const uint8_t *unit;
    uint32_t n;  // slots
  };

  // Queries lie as (d / 4, row, d % 4).
  static void store(Quad *queries, uint32_t row, uint32_t d, float first, float second) {
    float *to = reinterpret_cast<float *>(queries) + (d / 4 * 16 + row) * 4 + d % 4;
    to[0] = first;
    to[1] = second;
  }

  static Keys load_keys(const uint8_t *strip, uint32_t unit) {
    return {strip + unit * (kUnit / 4) * kStripSlots * sizeof(Floats)};
  }
  static Values load_values(const uint8_t *strip, uint32_t unit) {
    return {strip + unit * kUnit * sizeof(float), kStripSlots};
  }

  template <uint32_t n>
  static void score(const Quad *queries, uint32_t unit, const Keys (&keys)[n], float (&scores)[2 * n][4]) {
#pragma unroll 1
    for (uint32_t four = 0; four < kUnit / 4; ++four) {
      const Floats *rows = reinterpret_cast<const Floats *>(queries) + (unit * (kUnit / 4) + four) * 16 + lane() / 4;
      const Floats a[2] = {rows[0], rows[8]};
#pragma unroll
      for (uint32_t tile = 0; tile < 2 * n; ++tile) {
        const uint32_t slot = 8 * (tile % 2) + 2 * (lane() % 4);
        const Floats *b = reinterpret_cast<const Floats *>(keys[tile / 2].unit) + four * kStripSlots + slot;
        const Floats two[2] = {b[0], b[1]};
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) {
#pragma unroll
          for (uint32_t d = 0; d < 4; ++d) scores[tile][i] = fmaf(a[i / 2].of[d], two[i % 2].of[d], scores[tile][i]);
        }
      }
    }
  }

  static void keep(Values &values, uint32_t n) { values.n = n; }
  static void clean(uint8_t *, uint32_t) {}

  using Weights = float[kTiles][4];
  static const Weights &pack(const float (&weights)[kTiles][4]) { return weights; }
  static void sum_once(const Weights &weights, const Values (&values)[kStrips], float (&sums)[kUnitTiles][4]) {
    sum(weights, values, sums);
  }

  static void sum(const Weights &weights, const Values (&values)[kStrips], float (&sums)[kUnitTiles][4]) {
    set_zero(sums);
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (uint32_t column = 0; column < 8; ++column) {
        const uint32_t slot = 8 * (tile % 2) + column, holder = lane() / 4 * 4 + column / 2;
        const float upper = shuffle(weights[tile][column % 2], holder);
        const float lower = shuffle(weights[tile][2 + column % 2], holder);
        if (slot < values[tile / 2].n) add_value(values[tile / 2].unit, slot, upper, lower, sums);
      }
    }
  }

 private:
  static void add_value(const uint8_t *unit, uint32_t slot, float upper, float lower, float (&sums)[kUnitTiles][4]) {
    const Floats *row = reinterpret_cast<const Floats *>(unit) + slot * (kPadded / 4) + 2 * (lane() % 4);
    const Floats two[2] = {row[0], row[1]};
#pragma unroll
    for (uint32_t tile = 0; tile < kUnitTiles; ++tile) {
      const float first = two[tile / 2].of[tile % 2 * 2], second = two[tile / 2].of[tile % 2 * 2 + 1];
      sums[tile][0] = fmaf(upper, first, sums[tile][0]);
      sums[tile][1] = fmaf(upper, second, sums[tile][1]);
      sums[tile][2] = fmaf(lower, first, sums[tile][2]);
      sums[tile][3] = fmaf(lower, second, sums[tile][3]);
    }
  }
};

// What BONSAI_KV may be.
using F16_32 = StoredF16<32>;
using F16_64 = StoredF16<64>;
using F16_96 = StoredF16<96>;
using F16_128 = StoredF16<128>;
using F16_192 = StoredF16<192>;
using F16_256 = StoredF16<256>;
using Q8_0_32 = StoredQ8_0<32>;
using Q8_0_64 = StoredQ8_0<64>;
using Q8_0_96 = StoredQ8_0<96>;
using Q8_0_128 = StoredQ8_0<128>;
using Q8_0_192 = StoredQ8_0<192>;
using Q8_0_256 = StoredQ8_0<256>;
using F32_32 = StoredF32<32>;
using F32_64 = StoredF32<64>;
using F32_96 = StoredF32<96>;
using F32_128 = StoredF32<128>;
using F32_192 = StoredF32<192>;
using F32_256 = StoredF32<256>;

}  // namespace bonsai::cuda
