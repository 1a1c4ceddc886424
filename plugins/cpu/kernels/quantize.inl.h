// Activations to int8 codes in the order that dot_group (codes_dot.inl.h) reads them. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Of a block's largest magnitude: of groups by themselves, and in blocks of several.
constexpr float kSmallestAmax = 0x1p-118f;
constexpr float kSmallestSharedAmax = 0x1p-104f;

// Columns of a group in the order that codes are wanted in.
using GroupColumns = std::array<int, kActivationGroup>;

// One byte of weights holds `stride` consecutive columns, and a step takes one column from each of a word's four bytes:
// the activations of step k of a word are columns k, k + stride, k + 2 stride and k + 3 stride.
constexpr GroupColumns strided(int stride) {
  GroupColumns columns = {};
  for (int i = 0; i < static_cast<int>(kActivationGroup); ++i) {
    const int word = i / (4 * stride), step = i / 4 % stride;
    columns[i] = word * 4 * stride + i % 4 * stride + step;
  }
  return columns;
}

// Q4_0's nibbles: columns i and i + 16 share a byte, so runs of four columns alternate between the halves of a block.
constexpr GroupColumns alternating_halves() {
  GroupColumns columns = {};
  for (int i = 0; i < static_cast<int>(kActivationGroup); ++i) columns[i] = i / 8 * 4 + i / 4 % 2 * 16 + i % 4;
  return columns;
}

template <GroupColumns kColumns, size_t... kPlaces>
[[gnu::always_inline]] inline void move_codes(int8_t *codes, std::index_sequence<kPlaces...>) {
  using Codes [[gnu::vector_size(kActivationGroup)]] = int8_t;
  Codes all;
  memcpy(&all, codes, sizeof all);
  all = __builtin_shufflevector(all, all, kColumns[kPlaces]...);
  memcpy(codes, &all, sizeof all);
}

template <GroupColumns kColumns>
void move_groups(int8_t *codes, uint32_t groups) {
  for (uint32_t i = 0; i < groups; ++i) {
    move_codes<kColumns>(codes + i * kActivationGroup, std::make_index_sequence<kActivationGroup>());
  }
}

// Codes of some groups from the order of columns to another one.
inline void bring_to_order(ActivationOrder order, int8_t *codes, uint32_t groups) {
  switch (order) {
    case ActivationOrder::kStride8:
      return move_groups<strided(8)>(codes, groups);
    case ActivationOrder::kStride4:
      return move_groups<strided(4)>(codes, groups);
    case ActivationOrder::kNibbles:
      return move_groups<alternating_halves()>(codes, groups);
    case ActivationOrder::kNatural:
      return;
  }
}

// The bits of a group's magnitudes, the larger one of every 16th. As integers they are ordered: finite, infinite, NaN.
inline I32x16 magnitudes(const float *x) {
  const I32x16 mask = splat_i32(INT32_MAX);
  return max(bit_and(bits_of(load(x)), mask), bit_and(bits_of(load(x + 16)), mask));
}

// Groups whose scales are found together, whole blocks of them: one step after the other for all of them, so that none
// waits for another one's results.
constexpr uint32_t kGroupsAtOnce = 64;

// The scales of some groups' blocks, and of each group the integer and what its values are multiplied with to become
// codes. Without codes, where all values of a block are too small or where one is no number, all integers are 0, and so
// are the sums.
class GroupScales {
 public:
  // Precondition: `groups` are whole blocks, and kGroupsAtOnce at most.
  GroupScales(const float *x, uint32_t groups, ActivationLayout layout) {
    for (uint32_t i = 0; i < groups; i += 4)
      store_i32(amax_ + i, largest_of_four(x + i * kActivationGroup, groups - i));
    for (uint32_t i = 0; i < groups; i += 16) scale_groups(i, layout);
  }

  // Of a group's block.
  float scale(uint32_t group) const { return scales_[group]; }
  bool has_codes(uint32_t group) const { return scales_[group] > 0.0f; }
  // Of the group. The integer only where the layout has some, the inverse only where there are codes.
  int32_t multiplier(uint32_t group) const { return multipliers_[group]; }
  float inverse(uint32_t group) const { return inverses_[group]; }

 private:
  // The bits of four groups' largest magnitudes, one in each lane.
  static I32x16 largest_of_four(const float *x, uint32_t groups) {
    I32x16 of_group[4];
    for (uint32_t i = 0; i < 4; ++i) {
      of_group[i] = i < groups ? magnitudes(x + i * kActivationGroup) : splat_i32(0);
    }
    return reduce_max_each(of_group[0], of_group[1], of_group[2], of_group[3]);
  }

  static_assert(kSuperBlockActivations.groups() == 8, "no block has more");
  // To every lane the largest of its block's, which are so many.
  static I32x16 largest_of_blocks(I32x16 amax, uint32_t groups) {
    if (groups > 1) amax = max(amax, swap_lanes<1>(amax));
    if (groups > 2) amax = max(amax, swap_lanes<2>(amax));
    if (groups > 4) amax = max(amax, swap_lanes<4>(amax));
    return amax;
  }

  // Of 16 groups. What has no codes is divided by 1 instead, and nothing comes of it.
  void scale_groups(uint32_t first, ActivationLayout layout) {
    const bool shared = layout.most_multiplier > 0;
    const F32x16 zero = splat(0.0f), one = splat(1.0f);
    const I32x16 amax = load_i32(amax_ + first);
    const F32x16 of_block = from_bits(largest_of_blocks(amax, layout.groups()));
    const Mask16 is_finite = less(of_block, splat(__builtin_inff()));
    const Mask16 is_small = less(of_block, splat(shared ? kSmallestSharedAmax : kSmallestAmax));
    const F32x16 largest = select(is_finite, select(is_small, one, of_block), one);
    F32x16 scale;
    if (shared) {
      const F32x16 of_group = select(is_finite, select(is_small, zero, from_bits(amax)), zero);
      scale = share(first, of_group, largest, static_cast<float>(layout.most_multiplier));
    } else {
      scale = div(largest, splat(127.0f));
      store(inverses_ + first, div(splat(127.0f), largest));
    }
    store(scales_ + first, select(is_finite, select(is_small, zero, scale), splat(__builtin_nanf(""))));
  }

  // The scale of groups with these largest magnitudes in blocks with those. Integers are rounded up, so that no code is
  // beyond 127.
  F32x16 share(uint32_t first, F32x16 amax, F32x16 largest, float most) {
    const F32x16 zero = splat(0.0f), one = splat(1.0f);
    const F32x16 scale = div(largest, splat(127.0f * most));
    const F32x16 exact = mul(amax, div(splat(most), largest));
    const F32x16 nearest = to_f32(to_i32(exact));
    const F32x16 multiplier = min(select(less(nearest, exact), add(nearest, one), nearest), splat(most));
    store_i32(multipliers_ + first, to_i32(multiplier));
    store(inverses_ + first, select(equal(multiplier, zero), zero, div(one, mul(scale, multiplier))));
    return scale;
  }

  alignas(64) int32_t amax_[kGroupsAtOnce + 12];  // bits; the last four groups' come in a whole vector
  alignas(64) float scales_[kGroupsAtOnce];
  alignas(64) int32_t multipliers_[kGroupsAtOnce];
  alignas(64) float inverses_[kGroupsAtOnce];
};

// Of whole blocks, to their row from the first of them on.
inline void store_scales(const GroupScales &scales, uint32_t groups, ActivationLayout layout, const QuantizedRow &to) {
  float *to_scales = to.scales;
  for (uint32_t i = 0; i < groups; i += layout.groups()) *to_scales++ = scales.scale(i);
  if (layout.most_multiplier == 0) return;
  for (uint32_t i = 0; i < groups; ++i) {
    const auto m = static_cast<int16_t>(scales.multiplier(i));
    to.multipliers[i] = {{m, 0, m, m}};
  }
}

// The codes of a group in the order of columns, and the sums of every 16 of them.
struct HalfSums {
  int32_t first, second;
};
inline HalfSums store_group(const float *x, float inverse, int8_t *to) {
  const F32x16 factor = splat(inverse);
  const I32x16 first = to_i32(mul(load(x), factor)), second = to_i32(mul(load(x + 16), factor));
  alignas(64) int32_t codes[kActivationGroup];
  store_i32(codes, first);
  store_i32(codes + 16, second);
  for (uint32_t i = 0; i < kActivationGroup; ++i) to[i] = static_cast<int8_t>(codes[i]);
  return {reduce_add(first), reduce_add(second)};
}

// Some blocks, to their row from the first of them on.
inline void quantize_blocks(const float *x, uint32_t groups, ActivationLayout layout, const QuantizedRow &to) {
  const GroupScales scales(x, groups, layout);
  store_scales(scales, groups, layout, to);
  const bool sums_blocks = layout.sum_columns >= kActivationGroup, has_wide_sums = layout.has_wide_sums();
  uint32_t block = 0, groups_left = layout.groups();  // of the block
  int32_t of_block = 0;
  for (uint32_t i = 0; i < groups; ++i) {
    int8_t *codes = to.codes + i * kActivationGroup;
    HalfSums sums = {0, 0};
    if (scales.has_codes(i)) {
      sums = store_group(x + i * kActivationGroup, scales.inverse(i), codes);
    } else {
      memset(codes, 0, kActivationGroup);
    }
    const int32_t multiplier = layout.most_multiplier > 0 ? scales.multiplier(i) : 1;
    if (!sums_blocks) {
      to.sums[2 * i] = static_cast<int16_t>(sums.first * multiplier);
      to.sums[2 * i + 1] = static_cast<int16_t>(sums.second * multiplier);
      continue;
    }
    of_block += (sums.first + sums.second) * multiplier;
    if (--groups_left > 0) continue;
    if (has_wide_sums) {
      to.wide_sums[block] = of_block;
    } else {
      to.sums[block] = static_cast<int16_t>(of_block);
    }
    of_block = 0;
    groups_left = layout.groups();
    ++block;
  }
  bring_to_order(layout.order, to.codes, groups);
}

// The same for sums to be looked up: codes in the order of columns, and tables.
template <class Lookup>
void tabulate_blocks(const float *x, uint32_t groups, ActivationLayout layout, const QuantizedRow &to,
                     int16_t *tables) {
  const GroupScales scales(x, groups, layout);
  store_scales(scales, groups, layout, to);
  for (uint32_t i = 0; i < groups; ++i) {
    const float *of_group = x + i * kActivationGroup;
    int8_t *codes = to.codes + i * kActivationGroup;
    if (!scales.has_codes(i)) {
      memset(codes, 0, kActivationGroup);
      continue;
    }
    const F32x16 inverse = splat(scales.inverse(i));
    Lookup::store_codes(codes, to_i32(mul(load(of_group), inverse)));
    Lookup::store_codes(codes + 16, to_i32(mul(load(of_group + 16), inverse)));
  }
  Lookup::build_groups(to.codes, groups, tables);
}

// The same, to tables of a kind.
inline void tabulate(const float *x, uint32_t groups, ActivationLayout layout, const QuantizedRow &to, int16_t *tables,
                     uint64_t first_group) {
  if constexpr (TritLookup::kExists) {
    if (layout.tables == SumTables::kTrits) {
      return tabulate_blocks<TritLookup>(x, groups, layout, to, tables + first_group * TritLookup::kElements);
    }
  }
  if constexpr (SignLookup::kExists) {
    tabulate_blocks<SignLookup>(x, groups, layout, to, tables + first_group * SignLookup::kElements);
  }
}

void quantize(const QuantizeArgs &args) {
  const ActivationLayout layout = args.layout;
  const size_t row_bytes = quantized_row_bytes(layout, args.columns);
  for (uint32_t i = 0; i < args.n; ++i) {
    const float *x = args.x + i * args.x_stride;
    const QuantizedRow row(args.rows + i * row_bytes, args.columns, layout);
    for (uint64_t begin = args.begin, end; begin < args.end; begin = end) {
      end = std::min<uint64_t>(args.end, begin + kGroupsAtOnce * kActivationGroup);
      const auto groups = static_cast<uint32_t>((end - begin) / kActivationGroup);
      const QuantizedRow to = row.from(begin / layout.block, layout);
      if (args.tables) {
        tabulate(x + begin, groups, layout, to, args.tables, (i * args.columns + begin) / kActivationGroup);
      } else {
        quantize_blocks(x + begin, groups, layout, to);
      }
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
