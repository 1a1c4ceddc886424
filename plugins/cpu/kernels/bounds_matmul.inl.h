// Upper bounds of products by table lookup (bounds.h). Of every table's values v, least to greatest, a byte holds
//   q = floor((v - least) * factor / 2^16),  factor / 2^16 >= scale / unit,  so  scale * (v - least) <= unit * (q + 1)
// with the scale of the activations' group and a unit that is the same for 128 columns. The bytes of the tables of a
// part of a group, which are added to each other, come to at most 255: those of two vectors can lie side by side. Part
// of a tier: see simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/lookup_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// -------- Tables

// What the bytes of a part may add up to, less than 255 for what rounding adds to the factors.
constexpr double kMostUnits = 254;

// Units beyond these might not be exact in a float once they are multiplied with a scale.
constexpr double kSmallestUnit = 0x1p-80, kLargestUnit = 0x1p80;

template <class Lookup>
constexpr int kGroupTables = static_cast<int>(std::size(Lookup::kTableElements));

// How the tables of one vector's kBoundColumns become bytes.
template <class Lookup>
struct UnitNarrowing {
  TableNarrowing tables[kBoundGroups][kGroupTables<Lookup>];
  UnitBound bound;

  // Of the tables of kBoundGroups groups, their integers and what scales these.
  UnitNarrowing(const int16_t *values, const GroupMultiplier *multipliers, float scale)
      : tables(), bound{0.0f, 0, 0.0f} {
    double scales[kBoundGroups];
    for (uint32_t i = 0; i < kBoundGroups; ++i) scales[i] = static_cast<double>(scale) * *multipliers[i].even();
    int32_t least[kBoundGroups] = {};
    double unit = 0;
    bool is_bounded = true;
    for (uint32_t group = 0; group < kBoundGroups; ++group) {
      int32_t spans[Lookup::kByteParts] = {};
      for (int i = 0; i < kGroupTables<Lookup>; ++i) {
        const TableRange range = Lookup::range_of_table(values, Lookup::kTableElements[i]);
        tables[group][i].least = range.least;
        least[group] += range.least;
        spans[i * Lookup::kByteParts / kGroupTables<Lookup>] += range.greatest - range.least;
        values += Lookup::kTableElements[i];
      }
      const int32_t span = *std::max_element(std::begin(spans), std::end(spans));
      const double needed = span * scales[group] / kMostUnits;
      is_bounded = is_bounded && needed <= kLargestUnit;  // not if it is NaN
      unit = needed > unit ? needed : unit;
    }
    if (is_bounded && unit == 0) return;  // nothing but zeros
    bound.unit = static_cast<float>(unit);
    is_bounded = is_bounded && unit >= kSmallestUnit;
    double sum_of_least = 0;  // in units
    for (uint32_t group = 0; group < kBoundGroups && is_bounded; ++group) {
      const double in_units = scales[group] / static_cast<double>(bound.unit);
      const double factor = __builtin_ceil(in_units * 0x1p16);
      is_bounded = factor <= UINT16_MAX;
      sum_of_least += in_units * least[group];
      for (TableNarrowing &table : tables[group]) table.factor = static_cast<uint16_t>(is_bounded ? factor : 0);
    }
    if (!is_bounded) {
      bound.unit = __builtin_nanf("");
      return;
    }
    // The tables' roundings of less than 1 each, and 1 for those of floats, here and where the products are computed.
    constexpr int kRoom = static_cast<int>(kBoundGroups) * kGroupTables<Lookup> + 1;
    bound.start = static_cast<int32_t>(__builtin_ceil(sum_of_least)) + kRoom;
    // From below: rounding the sum took less than 1, the factors less than 1 more, floats 1.
    bound.spread = bound.unit * static_cast<float>(kRoom + 3);
  }
};

template <class Lookup>
void tabulate_bounds_of(const TabulateBoundsArgs &args) {
  const uint64_t groups = args.columns / kActivationGroup, units = args.columns / kBoundColumns;
  const uint64_t vector_elements = groups * Lookup::kElements;
  const size_t row_bytes = quantized_row_bytes(args.layout, args.columns);
  const auto narrowing_of = [&](uint32_t vector, uint64_t unit) {
    const ConstQuantizedRow row(args.rows + vector * row_bytes, args.columns, args.layout);
    return UnitNarrowing<Lookup>(args.tables + vector * vector_elements + unit * kBoundGroups * Lookup::kElements,
                                 row.multipliers + unit * kBoundGroups, row.scales[unit]);
  };
  for (uint32_t i = 0; i < args.n; i += 2) {
    const uint32_t second = i + 1 < args.n ? i + 1 : i;
    int16_t *to = args.bound_tables + i / 2 * vector_elements;
    for (uint64_t unit = 0; unit < units; ++unit) {
      const UnitNarrowing<Lookup> of_first = narrowing_of(i, unit), of_second = narrowing_of(second, unit);
      args.bounds[i * units + unit] = of_first.bound;
      args.bounds[(i + 1) * units + unit] = of_second.bound;
      uint64_t at = unit * kBoundGroups * Lookup::kElements;
      for (uint32_t group = 0; group < kBoundGroups; ++group) {
        for (int table = 0; table < kGroupTables<Lookup>; ++table) {
          const uint32_t elements = Lookup::kTableElements[table];
          Lookup::narrow_table(args.tables + i * vector_elements + at, of_first.tables[group][table],
                               args.tables + second * vector_elements + at, of_second.tables[group][table], elements,
                               to + at);
          at += elements;
        }
      }
    }
  }
}

void tabulate_bounds(const TabulateBoundsArgs &args) {
  if constexpr (SignLookup::kExists) tabulate_bounds_of<SignLookup>(args);
}

// -------- Products

// The bounds of some pairs of tiles, for T pairs of vectors: the first ones' bytes are the lower ones of each lane.
template <class Lookup, int kPairs, int T>
struct BoundRows {
  static constexpr int kParts = Lookup::kByteParts;

  // The first vector's sum of bytes and 256 times the second one's, and the latter.
  struct Sums {
    I16x32 both, second;
  };

  F32x16 y[T][2][2 * kPairs];
  const UnitBound *bounds[T][2];

  [[gnu::always_inline]] void clear() {
    for (int t = 0; t < T; ++t) {
      for (int i = 0; i < 2 * kPairs; ++i) y[t][0][i] = y[t][1][i] = splat(0.0f);
    }
  }

  template <int N>
  [[gnu::always_inline]] static void sum_group(const uint8_t *words, const int16_t *const (&tables)[T], size_t group,
                                               I16x32 (&sums)[N][kParts][T]) {
    Lookup::sum_bytes(words, tables, group, sums);
  }

  [[gnu::always_inline]] Sums begin_block(int t) const {
    const int32_t first = bounds[t][0]->start, second = bounds[t][1]->start;
    return {Lookup::splat_lanes(first + second * 256), Lookup::splat_lanes(second)};
  }

  [[gnu::always_inline]] void add_group(int, size_t, I16x32 sums, Sums &of_block) const {
    of_block.both = Lookup::add(of_block.both, sums);
    of_block.second = Lookup::add(of_block.second, Lookup::upper_bytes(sums));
  }

  [[gnu::always_inline]] void end_block(int t, int i, const Sums &of_block, const F32x16 (&d)[2]) {
    add_units(t, 0, i, Lookup::take_upper(of_block.both, of_block.second), d);
    add_units(t, 1, i, of_block.second, d);
  }

  [[gnu::always_inline]] void next_block() {
    for (int t = 0; t < T; ++t) {
      ++bounds[t][0];
      ++bounds[t][1];
    }
  }

 private:
  [[gnu::always_inline]] void add_units(int t, int which, int i, I16x32 units, const F32x16 (&d)[2]) {
    add_lanes(y[t][which][2 * i], Lookup::even_lanes(units), *bounds[t][which], d[0]);
    add_lanes(y[t][which][2 * i + 1], Lookup::odd_lanes(units), *bounds[t][which], d[1]);
  }

  // Where the scale is negative, the sum is bounded from below.
  [[gnu::always_inline]] static void add_lanes(F32x16 &y, I32x16 units, const UnitBound &bound, F32x16 d) {
    const F32x16 zero = splat(0.0f);
    y = fma(to_f32(units), mul(d, splat(bound.unit)), y);
    y = fma(max(sub(zero, d), zero), splat(bound.spread), y);
  }
};

// Pairs of tiles from `tile` on times T pairs of vectors. Where there is no bound, it is infinite.
template <CodeLayout kLayout, class Lookup, int kPairs, bool asks, int T>
void bound_vectors_of_pairs(const MatmulArgs &args, const BoundTables &tables, const PairsOfStrip &pairs, uint64_t tile,
                            uint32_t first) {
  const uint64_t groups = args.matrix->columns / kActivationGroup, units = args.matrix->columns / kBoundColumns;
  const F32x16 infinity = splat(__builtin_inff());
  LookupWork<T> work = {pairs, {}};
  BoundRows<Lookup, kPairs, T> rows;
  for (int t = 0; t < T; ++t) {
    work.tables[t] = tables.tables + (first / 2 + t) * groups * Lookup::kElements;
    for (int i = 0; i < 2; ++i) rows.bounds[t][i] = tables.bounds + (first + 2 * t + i) * units;
  }
  multiply_pairs<kLayout, Lookup, kPairs, asks>(work, rows);
  for (int t = 0; t < T; ++t) {
    for (uint32_t i = 0; i < 2; ++i) {
      if (first + 2 * t + i >= args.n) continue;
      for (F32x16 &y : rows.y[t][i]) y = select(equal(y, y), y, infinity);
      store_pairs<kPairs>(args, tile, first + 2 * t + i, rows.y[t][i]);
    }
  }
}

// All pairs of vectors; the last one may lack one.
template <CodeLayout kLayout, class Lookup, int kPairs>
void bound_part_of_strip(const MatmulArgs &args, const BoundTables &tables, uint64_t tile) {
  const PairsOfStrip pairs = PairsOfStrip::find<kLayout>(args, tile);
  each_tokens<Lookup::kBoundPairs>((args.n + 1) / 2, [&](auto T, uint32_t pair) {
    const uint32_t first = 2 * pair;
    if (first > 0) return bound_vectors_of_pairs<kLayout, Lookup, kPairs, false, T>(args, tables, pairs, tile, first);
    with_requests<Lookup>(args.prefetch, [&](auto asking) {
      bound_vectors_of_pairs<kLayout, decltype(asking), kPairs, true, T>(args, tables, pairs, tile, first);
    });
  });
}

template <CodeLayout kLayout, class Lookup>
void bound_by_lookup(const MatmulArgs &args, const BoundTables &tables) {
  each_part_of_strip<kLayout>(first_tile(args), tile_count(args.last_row), [&](auto pairs, uint64_t tile) {
    bound_part_of_strip<kLayout, Lookup, pairs>(args, tables, tile);
  });
}

void bound(const MatmulArgs &args, const BoundTables &tables) {
  if constexpr (SignLookup::kExists) bound_by_lookup<kSignsLayout, SignLookup>(args, tables);
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
