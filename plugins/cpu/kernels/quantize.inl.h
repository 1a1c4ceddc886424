// Activations to int8 codes in the order that dot_group (codes_dot.inl.h) reads them. Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/lookup_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kMaxGroup = 256;
constexpr int32_t kInfinityBits = 0x7F800000;
constexpr int32_t kSmallestAmaxBits = 0x04800000;  // 2^-118

// Where one row's parts lie: see quantized_row_bytes.
struct QuantizedRowView {
  int8_t *codes;
  float *scales;
  int16_t *sums;  // at most 256 codes of 127 each, which 16 bits hold

  QuantizedRowView(std::byte *row, uint64_t columns, uint32_t group) {
    codes = reinterpret_cast<int8_t *>(row);
    scales = reinterpret_cast<float *>(row + columns);
    sums = reinterpret_cast<int16_t *>(row + columns + columns / group * sizeof(float));
  }

  // The same from a group on.
  QuantizedRowView from(uint64_t group, ActivationLayout layout) const {
    QuantizedRowView rest = *this;
    rest.codes += group * layout.group;
    rest.scales += group;
    rest.sums += group * (layout.group / layout.sum_columns);
    return rest;
  }
};

// Codes of one group as they come from rounding, with room for a whole vector behind them.
struct RoundedGroup {
  alignas(64) int32_t codes[kMaxGroup + 16];
};

// One byte of weights holds kStride consecutive columns, and a step takes one column from each of a word's four bytes:
// the activations of step k of a word are columns k, k + kStride, k + 2 kStride and k + 3 kStride.
template <int kStride>
void narrow_strided(const RoundedGroup &group, uint32_t n, int8_t *to) {
  const I32x16 low_byte = splat_i32(0xFF);
  alignas(64) int32_t words[kMaxGroup / 4 + 16];
  for (uint32_t i = 0; i < n; i += 4 * kStride) {
    const int32_t *codes = group.codes + i;
    I32x16 word = bit_and(load_i32(codes), low_byte);
    word = add(word, shift_left<8>(bit_and(load_i32(codes + kStride), low_byte)));
    word = add(word, shift_left<16>(bit_and(load_i32(codes + 2 * kStride), low_byte)));
    word = add(word, shift_left<24>(bit_and(load_i32(codes + 3 * kStride), low_byte)));
    store_i32(words + i / 4, word);  // kStride words; the next round overwrites the other lanes
  }
  memcpy(to, words, n);
}

inline void narrow(const RoundedGroup &group, uint32_t n, int8_t *to) {
  for (uint32_t i = 0; i < n; ++i) to[i] = static_cast<int8_t>(group.codes[i]);
}

// Q4_0's nibbles: columns i and i + 16 share a byte, so runs of four columns alternate between the halves of a block.
inline void narrow_nibbles(const RoundedGroup &group, uint32_t n, int8_t *to) {
  int8_t codes[kMaxGroup];
  narrow(group, n < kMaxGroup ? n : kMaxGroup, codes);  // no group is longer, but the compiler cannot know
  for (uint32_t i = 0; i < n; i += 32) {
    for (uint32_t v = 0; v < 16; v += 4) {
      memcpy(to + i + 2 * v, codes + i + v, 4);
      memcpy(to + i + 2 * v + 4, codes + i + 16 + v, 4);
    }
  }
}

inline void narrow_to_order(ActivationOrder order, const RoundedGroup &codes, uint32_t n, int8_t *to) {
  switch (order) {
    case ActivationOrder::kStride8:
      return narrow_strided<8>(codes, n, to);
    case ActivationOrder::kStride4:
      return narrow_strided<4>(codes, n, to);
    case ActivationOrder::kNibbles:
      return narrow_nibbles(codes, n, to);
    case ActivationOrder::kNatural:
      return narrow(codes, n, to);
  }
}

// The bits of the largest magnitude. As integers, magnitudes are ordered: finite, infinite, NaN.
inline int32_t amax_bits(const float *x, uint32_t n) {
  const I32x16 magnitude = splat_i32(INT32_MAX);
  I32x16 largest = splat_i32(0);
  for (uint32_t i = 0; i < n; i += 16) largest = max(largest, bit_and(bits_of(load(x + i)), magnitude));
  return reduce_max(largest);
}

// The scale of a group and what its values are multiplied with to become codes. Without codes they are 0, and so are
// the sums: where all values are too small, or where one is no number.
struct GroupScale {
  float scale;
  float inverse;
  bool has_codes;

  static GroupScale of(const float *x, uint32_t n) {
    const int32_t bits = amax_bits(x, n);
    if (bits < kSmallestAmaxBits) return {0.0f, 0.0f, false};
    if (bits >= kInfinityBits) return {__builtin_nanf(""), 0.0f, false};
    float amax;
    memcpy(&amax, &bits, sizeof amax);
    return {amax / 127.0f, 127.0f / amax, true};
  }
};

inline void quantize_group(const float *x, ActivationLayout layout, const QuantizedRowView &to) {
  int16_t *sums = to.sums;
  const GroupScale scale = GroupScale::of(x, layout.group);
  *to.scales = scale.scale;
  if (!scale.has_codes) {
    memset(sums, 0, layout.group / layout.sum_columns * sizeof *sums);
    memset(to.codes, 0, layout.group);
    return;
  }
  const F32x16 inverse = splat(scale.inverse);
  RoundedGroup rounded;
  for (uint32_t i = 0; i < layout.group; i += layout.sum_columns, ++sums) {
    I32x16 total = splat_i32(0);
    for (uint32_t j = i; j < i + layout.sum_columns; j += 16) {
      const I32x16 code = to_i32(mul(load(x + j), inverse));
      total = add(total, code);
      store_i32(rounded.codes + j, code);
    }
    *sums = static_cast<int16_t>(reduce_add(total));
  }
  store_i32(rounded.codes + layout.group, splat_i32(0));
  narrow_to_order(layout.order, rounded, layout.group, to.codes);
}

// The same for sums to be looked up, for some groups of a row: first all codes, in the order of columns, then all
// tables. Each group by itself would wait for its largest value, and keep the next ones from beginning.
template <class Lookup>
void tabulate_groups(const float *x, uint64_t groups, const QuantizedRowView &row, int16_t *tables) {
  int8_t *codes = row.codes;
  for (uint64_t group = 0; group < groups; ++group, x += kLookupColumns, codes += kLookupColumns) {
    const GroupScale scale = GroupScale::of(x, kLookupColumns);
    row.scales[group] = scale.scale;
    if (!scale.has_codes) {
      memset(codes, 0, kLookupColumns);
      continue;
    }
    const F32x16 inverse = splat(scale.inverse);
    Lookup::store_codes(codes, to_i32(mul(load(x), inverse)));
    Lookup::store_codes(codes + 16, to_i32(mul(load(x + 16), inverse)));
  }
  for (uint64_t group = 0; group < groups; ++group) {
    Lookup::build_group(row.codes + kLookupColumns * group, tables + Lookup::kElements * group);
  }
}

// To the tables of a kind, of which `done` groups come before.
inline void tabulate(const float *x, uint64_t groups, SumTables kind, const QuantizedRowView &row, int16_t *tables,
                     uint64_t done) {
  if constexpr (TritLookup::kExists) {
    if (kind == SumTables::kTrits) {
      return tabulate_groups<TritLookup>(x, groups, row, tables + done * TritLookup::kElements);
    }
  }
  if constexpr (SignLookup::kExists) tabulate_groups<SignLookup>(x, groups, row, tables + done * SignLookup::kElements);
}

void quantize(const QuantizeArgs &args) {
  const ActivationLayout layout = args.layout;
  const size_t row_bytes = quantized_row_bytes(layout, args.columns);
  const uint64_t groups = args.columns / layout.group;
  const uint64_t first = args.begin / layout.group, last = args.end / layout.group;
  for (uint32_t i = 0; i < args.n; ++i) {
    const float *x = args.x + i * args.x_stride + args.begin;
    const QuantizedRowView row =
        QuantizedRowView(args.rows + i * row_bytes, args.columns, layout.group).from(first, layout);
    if (args.tables) {
      tabulate(x, last - first, layout.tables, row, args.tables, i * groups + first);
      continue;
    }
    for (uint64_t group = 0; group < last - first; ++group) {
      quantize_group(x + group * layout.group, layout, row.from(group, layout));
    }
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
