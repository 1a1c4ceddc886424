// Activations to int8 codes in the order that dot_group (codes_dot.inl.h) reads them. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr int32_t kInfinityBits = 0x7F800000;
constexpr int32_t kSmallestAmaxBits = 0x04800000;        // 2^-118
constexpr int32_t kSmallestSharedAmaxBits = 0x0B800000;  // 2^-104

// Codes of one group as they come from rounding, with room for a whole vector behind them.
struct RoundedGroup {
  alignas(64) int32_t codes[kActivationGroup + 16];
};

// One byte of weights holds kStride consecutive columns, and a step takes one column from each of a word's four bytes:
// the activations of step k of a word are columns k, k + kStride, k + 2 kStride and k + 3 kStride.
template <int kStride>
void narrow_strided(const RoundedGroup &group, int8_t *to) {
  const I32x16 low_byte = splat_i32(0xFF);
  alignas(64) int32_t words[kActivationGroup / 4 + 16];
  for (uint32_t i = 0; i < kActivationGroup; i += 4 * kStride) {
    const int32_t *codes = group.codes + i;
    I32x16 word = bit_and(load_i32(codes), low_byte);
    word = add(word, shift_left<8>(bit_and(load_i32(codes + kStride), low_byte)));
    word = add(word, shift_left<16>(bit_and(load_i32(codes + 2 * kStride), low_byte)));
    word = add(word, shift_left<24>(bit_and(load_i32(codes + 3 * kStride), low_byte)));
    store_i32(words + i / 4, word);  // kStride words; the next round overwrites the other lanes
  }
  memcpy(to, words, kActivationGroup);
}

inline void narrow(const RoundedGroup &group, int8_t *to) {
  for (uint32_t i = 0; i < kActivationGroup; ++i) to[i] = static_cast<int8_t>(group.codes[i]);
}

// Q4_0's nibbles: columns i and i + 16 share a byte, so runs of four columns alternate between the halves of a block.
inline void narrow_nibbles(const RoundedGroup &group, int8_t *to) {
  int8_t codes[kActivationGroup];
  narrow(group, codes);
  for (uint32_t v = 0; v < 16; v += 4) {
    memcpy(to + 2 * v, codes + v, 4);
    memcpy(to + 2 * v + 4, codes + 16 + v, 4);
  }
}

inline void narrow_to_order(ActivationOrder order, const RoundedGroup &codes, int8_t *to) {
  switch (order) {
    case ActivationOrder::kStride8:
      return narrow_strided<8>(codes, to);
    case ActivationOrder::kStride4:
      return narrow_strided<4>(codes, to);
    case ActivationOrder::kNibbles:
      return narrow_nibbles(codes, to);
    case ActivationOrder::kNatural:
      return narrow(codes, to);
  }
}

// The bits of a group's magnitudes, the larger one of every 16th. As integers they are ordered: finite, infinite, NaN.
inline I32x16 magnitudes(const float *x) {
  const I32x16 mask = splat_i32(INT32_MAX);
  return max(bit_and(bits_of(load(x)), mask), bit_and(bits_of(load(x + 16)), mask));
}

constexpr uint32_t kMostGroups = 16;  // of a block: lanes

// The scale of a block, and of each of its groups the integer and what its values are multiplied with to become codes.
// Without codes, where all values are too small or where one is no number, all integers are 0, and so are the sums.
struct BlockScale {
  float scale = 0.0f;
  bool has_codes = false;
  alignas(64) int32_t multipliers[kMostGroups];
  alignas(64) float inverses[kMostGroups];

  BlockScale(const float *x, ActivationLayout layout) {
    if (layout.most_multiplier == 0) {
      const float amax = begin(reduce_max(magnitudes(x)), kSmallestAmaxBits);
      if (!has_codes) return;
      scale = amax / 127.0f;
      inverses[0] = 127.0f / amax;
      return;
    }
    const I32x16 amax = largest_of_groups(x, layout.groups());
    const float of_block = begin(reduce_max(amax), kSmallestSharedAmaxBits);
    if (has_codes) {
      share(from_bits(amax), of_block, static_cast<float>(layout.most_multiplier));
    } else {
      store_i32(multipliers, splat_i32(0));
    }
  }

 private:
  // The bits of the largest magnitudes, one in each lane.
  static I32x16 largest_of_groups(const float *x, uint32_t groups) {
    if (groups <= 4) return largest_of_four(x, groups);
    alignas(64) int32_t lanes[2 * kMostGroups];
    for (uint32_t i = 0; i < groups; i += 4) {
      store_i32(lanes + i, largest_of_four(x + i * kActivationGroup, groups - i));
    }
    return load_i32(lanes);
  }

  static I32x16 largest_of_four(const float *x, uint32_t groups) {
    I32x16 of_group[4];
    for (uint32_t i = 0; i < 4; ++i) {
      of_group[i] = i < groups ? magnitudes(x + i * kActivationGroup) : splat_i32(0);
    }
    return reduce_max_each(of_group[0], of_group[1], of_group[2], of_group[3]);
  }

  // From the bits of the block's largest magnitude to this magnitude, and whether there are codes.
  float begin(int32_t amax, int32_t smallest) {
    has_codes = amax >= smallest && amax < kInfinityBits;
    if (amax >= kInfinityBits) scale = __builtin_nanf("");
    float magnitude;
    memcpy(&magnitude, &amax, sizeof magnitude);
    return magnitude;
  }

  // Among groups with these largest magnitudes, one in each lane. Integers are rounded up, so that no code is beyond
  // 127.
  void share(F32x16 amax, float largest, float most) {
    const F32x16 zero = splat(0.0f), one = splat(1.0f);
    scale = largest / (127.0f * most);
    const F32x16 exact = mul(amax, splat(most / largest));
    const F32x16 nearest = to_f32(to_i32(exact));
    const F32x16 multiplier = min(select(less(nearest, exact), add(nearest, one), nearest), splat(most));
    store_i32(multipliers, to_i32(multiplier));
    store(inverses, select(equal(multiplier, zero), zero, div(one, mul(splat(scale), multiplier))));
  }
};

inline void store_multipliers(const BlockScale &scale, ActivationLayout layout, GroupMultiplier *to) {
  if (layout.most_multiplier == 0) return;
  for (uint32_t i = 0; i < layout.groups(); ++i) {
    const auto m = static_cast<int16_t>(scale.multipliers[i]);
    to[i] = {{m, 0, m, m}};
  }
}

// The codes of a group in their order, and the sums of every 16 of them.
struct HalfSums {
  int32_t first, second;
};
inline HalfSums store_group(const float *x, float inverse, ActivationOrder order, int8_t *to) {
  const F32x16 factor = splat(inverse);
  RoundedGroup rounded;
  const I32x16 first = to_i32(mul(load(x), factor)), second = to_i32(mul(load(x + 16), factor));
  store_i32(rounded.codes, first);
  store_i32(rounded.codes + 16, second);
  store_i32(rounded.codes + kActivationGroup, splat_i32(0));
  narrow_to_order(order, rounded, to);
  return {reduce_add(first), reduce_add(second)};
}

inline void quantize_block(const float *x, ActivationLayout layout, const QuantizedRow &to) {
  const BlockScale scale(x, layout);
  *to.scales = scale.scale;
  store_multipliers(scale, layout, to.multipliers);
  if (!scale.has_codes) memset(to.codes, 0, layout.block);
  int32_t of_block = 0;
  for (uint32_t i = 0; i < layout.groups(); ++i) {
    HalfSums sums = {0, 0};
    if (scale.has_codes) {
      sums = store_group(x + i * kActivationGroup, scale.inverses[i], layout.order, to.codes + i * kActivationGroup);
    }
    const int32_t multiplier = layout.most_multiplier > 0 ? scale.multipliers[i] : 1;
    if (layout.sum_columns < kActivationGroup) {
      to.sums[2 * i] = static_cast<int16_t>(sums.first * multiplier);
      to.sums[2 * i + 1] = static_cast<int16_t>(sums.second * multiplier);
    } else {
      of_block += (sums.first + sums.second) * multiplier;
    }
  }
  if (layout.sum_columns < kActivationGroup) return;
  if (layout.has_wide_sums()) {
    *to.wide_sums = of_block;
  } else {
    *to.sums = static_cast<int16_t>(of_block);
  }
}

// The same for sums to be looked up, for some blocks of a row: first all codes, in the order of columns, then all
// tables. Each group by itself would wait for its largest value, and keep the next ones from beginning.
template <class Lookup>
void tabulate_blocks(const float *x, uint64_t blocks, ActivationLayout layout, const QuantizedRow &row,
                     int16_t *tables) {
  for (uint64_t block = 0; block < blocks; ++block, x += layout.block) {
    const QuantizedRow to = row.from(block, layout);
    const BlockScale scale(x, layout);
    *to.scales = scale.scale;
    store_multipliers(scale, layout, to.multipliers);
    if (!scale.has_codes) {
      memset(to.codes, 0, layout.block);
      continue;
    }
    for (uint32_t i = 0; i < layout.groups(); ++i) {
      const F32x16 inverse = splat(scale.inverses[i]);
      const float *of_group = x + i * kActivationGroup;
      int8_t *codes = to.codes + i * kActivationGroup;
      Lookup::store_codes(codes, to_i32(mul(load(of_group), inverse)));
      Lookup::store_codes(codes + 16, to_i32(mul(load(of_group + 16), inverse)));
    }
  }
  Lookup::build_groups(row.codes, blocks * layout.groups(), tables);
}

// To the tables of a kind, from the first of them on.
inline void tabulate(const float *x, uint64_t blocks, ActivationLayout layout, const QuantizedRow &row, int16_t *tables,
                     uint64_t first_group) {
  if constexpr (TritLookup::kExists) {
    if (layout.tables == SumTables::kTrits) {
      return tabulate_blocks<TritLookup>(x, blocks, layout, row, tables + first_group * TritLookup::kElements);
    }
  }
  if constexpr (SignLookup::kExists) {
    tabulate_blocks<SignLookup>(x, blocks, layout, row, tables + first_group * SignLookup::kElements);
  }
}

void quantize(const QuantizeArgs &args) {
  const ActivationLayout layout = args.layout;
  const size_t row_bytes = quantized_row_bytes(layout, args.columns);
  const uint64_t first = args.begin / layout.block, last = args.end / layout.block;
  for (uint32_t i = 0; i < args.n; ++i) {
    const float *x = args.x + i * args.x_stride + args.begin;
    const QuantizedRow row = QuantizedRow(args.rows + i * row_bytes, args.columns, layout).from(first, layout);
    if (args.tables) {
      const uint64_t first_group = (i * args.columns + args.begin) / kActivationGroup;
      tabulate(x, last - first, layout, row, args.tables, first_group);
      continue;
    }
    for (uint64_t block = 0; block < last - first; ++block) {
      quantize_block(x + block * layout.block, layout, row.from(block, layout));
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
