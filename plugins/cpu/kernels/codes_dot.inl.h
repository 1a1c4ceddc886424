// Integer codes of 16 rows times int8 activations, a group of columns at a time: what the layouts of code_layout.h are
// to codes_matmul.inl.h, and their dot products, which are exact. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <type_traits>

#include "core/quant/iq4_blocks.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/prefetch.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// What uneven codes stand for, as products take it: with the vocabulary's bias; or, where sums have no room
// for 8 bits, in two digits of four, 16 high + low, with the bias that makes them positive.
constexpr int kDigitBias = 128;
struct NumberTables {
  int8_t whole[16], low[16], high[16];
  constexpr NumberTables() : whole(), low(), high() {
    for (int i = 0; i < 16; ++i) {
      const int number = quant::kIQ4Values[i];
      whole[i] = static_cast<int8_t>(number + kSignedDotBias);
      low[i] = (number + kDigitBias) % 16;
      high[i] = (number + kDigitBias) / 16;
    }
  }
};
constexpr NumberTables kNumberTables;

// What the kernels derive from a layout.
template <CodeLayout kLayoutValue>
struct Codes {
  static constexpr CodeLayout kLayout = kLayoutValue;
  static constexpr int kBits = kLayout.bits;
  static constexpr int kHighBits = kLayout.high_bits;
  static constexpr int kGroup = kActivationGroup;
  static constexpr int kGroups = kLayout.activations.groups();  // of a block
  static constexpr int kSubBlocks = kLayout.sub_blocks;
  static constexpr bool kMinima = kLayout.minimum != Minimum::kNone;
  static constexpr bool kSignedBytes = kLayout.has_signed_bytes();
  static constexpr bool kUneven = kLayout.uneven;
  static constexpr bool kHasDigits = kUneven && !kHasWideDotSums;  // see DigitSums
  static constexpr int kOffset = kHasDigits ? kDigitBias : kSignedBytes ? kSignedDotBias : kLayout.offset;
  static constexpr int kSteps = 8 / kBits;                        // runs of 4 columns in a vector of codes
  static constexpr int kVectors = kLayout.low_words() / kGroups;  // of a group's codes, or of their lower parts
  static constexpr int kIntegersBytes = kLayout.integers() * kTileRows;
  static constexpr bool kStrips = kLayout.strip_tiles > 1;
  static constexpr size_t kBlockStride = TilePlace::block_stride(kLayout);
  static constexpr size_t kScalesStride = kBlockStride;  // but in CopiedTile
  static constexpr size_t kGroupStride = size_t{64} * kVectors * kLayout.strip_tiles;
  static constexpr bool kInCache = false;  // nothing is left to be asked for
  static_assert(!kStrips || (kVectors == 1 && kBits == 1));
  static_assert(kGroups == 1 || kSubBlocks > 0 || (kHighBits == 0 && kLayout.minimum == Minimum::kNone));

  // Vectors of codes whose products are summed up in one go: what a DotSum can hold (see dot4), within a sub-block, and
  // with half a vector of high bits.
  static constexpr int run_vectors() {
    if (kHighBits > 0) return 4 / kHighBits / kSteps;
    if (kSubBlocks > 0) return kGroups * kVectors / kSubBlocks;
    return kVectors < 8 ? kVectors : 8;
  }
  static constexpr int kRunVectors = run_vectors();
  static constexpr int kRuns = kVectors / kRunVectors;  // of a group
  static constexpr int kRunColumns = 4 * kSteps * kRunVectors;
  static constexpr int kRunsOfPair = kSubBlocks > 0 ? 2 * kGroups *kRuns / kSubBlocks : 0;  // in two sub-blocks
  static constexpr int kMostCode = (1 << (kBits + kHighBits)) - 1;
  static_assert((kSignedBytes && !kHasDigits) || kMostCode * 254 * kSteps * kRunVectors < 1 << 15);
  static_assert(!kMinima || kLayout.offset == 0);

  // Codes in three parts take so many registers that sums would otherwise be spilled.
  static constexpr bool kHoldsSums = kSubBlocks > 0 && kHighBits > 0;

  // Sums that begin with what the offset takes from them save an operation each.
  static constexpr bool kStartsCorrected = !kMinima && kLayout.multiplier_shift == 0;

  // Sums are int32 to the end of a block. Of 256 products of Q6_K's scale (-128..127), code less its offset (-32..31)
  // and activation code (127), times 16, the sum is at most 2130706432, and so is every sum on the way, as it begins
  // with what the offset takes; code_layout.h asserts it. So are IQ4_XS's (-32..31, -127..113 with 128 added at most,
  // 127, 16). All others stay at half of that: Q8_K's, times 255, below 2^30, Q5_K's, times 16, likewise; ternary ones
  // with codes of 3, times 1023 and for one token 4, below 2^28.

  // Tokens at a time, and what their number is divided by for those that are left. The formats that 1-bit and ternary
  // models come in have every power of two; for the others that would take the compiler too long. Sub-blocks gain
  // nothing by more than 4, and two sums for each token fill registers with 2.
  static constexpr bool kEveryNumber = kLayout.columns() < 256 && kHighBits == 0 && !kMinima;
  static constexpr int kTokens = kHasDigits                          ? std::min(kMaxTokens, 2)
                                 : kSubBlocks == 0 || kMaxTokens < 4 ? kMaxTokens
                                                                     : 4;
  static constexpr int kTokenStep = kEveryNumber || kHasDigits ? 2 : 4;
};

// A group's place in a tile.
struct GroupView {
  const uint8_t *bytes;
  bool odd;
  // What is asked for at a super-block's turn is counted from here: from where it begins; or, of tiles side by side,
  // this is what is asked for.
  uintptr_t asked = 0;
};

template <int T>
struct TokenView {
  const int8_t *codes[T];
  const float *scales[T];
  const GroupMultiplier *multipliers[T];
  const int16_t *sums[T];
  const int32_t *wide_sums[T];
};

// always_inline below: otherwise GCC keeps the sums, which are arrays, in memory.

// The upper parts of a run's codes, the first step's where they belong: above the lower parts. A vector of them serves
// two runs, with four bits of each byte each.
template <class Format>
[[gnu::always_inline]] inline Bytes64 high_bits_of_run(const uint8_t *vector, bool second) {
  if constexpr (Format::kHighBits == 0) {
    return splat_byte(0);
  } else {
    const Bytes64 both = load_bytes(vector);
    return second ? shift_right_bytes<4 - Format::kBits>(both) : shift_left_bytes<Format::kBits>(both);
  }
}

// A vector of words: 32 bits of each row.
template <class Format>
[[gnu::always_inline]] inline Bytes64 load_words(GroupView group, size_t vector) {
  if constexpr (Format::kStrips) {
    const Bytes64 lower = load_bytes(group.bytes), upper = load_bytes(group.bytes + 64);
    return group.odd ? join_odd_halves(lower, upper) : join_even_halves(lower, upper);
  } else {
    return load_bytes(group.bytes + 64 * vector);
  }
}

// Adds a run of codes times several tokens: each step's codes are shifted into place once and used T times.
template <class Format, int T>
[[gnu::always_inline]] inline void dot_run(GroupView codes, Bytes64 high, const TokenView<T> &tokens, size_t column,
                                           DotSum (&sums)[T]) {
  const Bytes64 mask = splat_byte((1 << Format::kBits) - 1);
  const Bytes64 high_mask = splat_byte(Format::kMostCode - ((1 << Format::kBits) - 1));
#pragma GCC unroll 8
  for (int v = 0; v < Format::kRunVectors; ++v) {
    Bytes64 bytes = load_words<Format>(codes, v);
#pragma GCC unroll 8
    for (int step = 0; step < Format::kSteps; ++step) {
      Bytes64 step_codes = bit_and(bytes, mask);
      bytes = shift_right_bytes<Format::kBits>(bytes);
      if constexpr (Format::kHighBits > 0) {
        step_codes = bit_or(step_codes, bit_and(high, high_mask));
        high = shift_right_bytes<Format::kHighBits>(high);
      }
      if constexpr (Format::kUneven) step_codes = look_up_bytes(repeat_16_bytes(kNumberTables.whole), step_codes);
      const size_t at = column + 4 * (v * Format::kSteps + step);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        sums[t] = dot4(sums[t], step_codes, splat_4_bytes(tokens.codes[t] + at));
        if constexpr (Format::kHoldsSums) hold_sum(sums[t]);
      }
    }
  }
}

// Sums of a run's products where uneven codes have digits.
struct DigitSums {
  DotSum low, high;
};

template <class Format, int T>
[[gnu::always_inline]] inline void dot_run(GroupView codes, Bytes64, const TokenView<T> &tokens, size_t column,
                                           DigitSums (&sums)[T]) {
  const Bytes64 mask = splat_byte(15);
#pragma GCC unroll 4
  for (int v = 0; v < Format::kRunVectors; ++v) {
    const Bytes64 bytes = load_words<Format>(codes, v);
#pragma GCC unroll 2
    for (int step = 0; step < Format::kSteps; ++step) {
      const Bytes64 step_codes = bit_and(step == 0 ? bytes : shift_right_bytes<4>(bytes), mask);
      const Bytes64 low = look_up_bytes(repeat_16_bytes(kNumberTables.low), step_codes),
                    high = look_up_bytes(repeat_16_bytes(kNumberTables.high), step_codes);
      const size_t at = column + 4 * (v * Format::kSteps + step);
#pragma GCC unroll 2
      for (int t = 0; t < T; ++t) {
        const Bytes64 of_token = splat_4_bytes(tokens.codes[t] + at);
        sums[t] = {dot4(sums[t].low, low, of_token), dot4(sums[t].high, high, of_token)};
      }
    }
  }
}

template <class Format>
using RunSum = std::conditional_t<Format::kHasDigits, DigitSums, DotSum>;

template <class Format>
RunSum<Format> zero_run_sum() {
  if constexpr (Format::kHasDigits) {
    return {zero_dot_sum(), zero_dot_sum()};
  } else {
    return zero_dot_sum();
  }
}

constexpr GroupMultiplier kSixteen = {{16, 0, 16, 16}};

inline I32x16 add_scaled_dot_sum(I32x16 total, DigitSums sums, I16x32 scale, const GroupMultiplier &multiplier) {
  const I16x32 factor = mul_pairs(scale, multiplier);
  return add_scaled_dot_sum(add_scaled_dot_sum(total, sums.low, factor), sums.high, mul_pairs(factor, kSixteen));
}

// Adds the dot products of a block that is one group.
template <class Format, int T>
[[gnu::always_inline]] inline void dot_group(GroupView group, const TokenView<T> &tokens, size_t column,
                                             I32x16 (&dots)[T]) {
#pragma GCC unroll 2
  for (int run = 0; run < Format::kRuns; ++run) {
    const uint8_t *high = group.bytes + 64 * (Format::kVectors + run / 2);
    const GroupView codes = {group.bytes + 64 * run * Format::kRunVectors, group.odd};
    DotSum sums[T];
    for (int t = 0; t < T; ++t) sums[t] = begin_dot_sum(dots[t]);
    dot_run<Format>(codes, high_bits_of_run<Format>(high, run % 2 != 0), tokens, column + run * Format::kRunColumns,
                    sums);
    for (int t = 0; t < T; ++t) dots[t] = end_dot_sum(dots[t], sums[t]);
  }
}

template <class Format, int T>
requires(Format::kHasDigits) [[gnu::always_inline]] inline void dot_group(GroupView group, const TokenView<T> &tokens,
                                                                          size_t column, I32x16 (&dots)[T]) {
  static_assert(Format::kRuns == 1);
  DigitSums sums[T];
  for (int t = 0; t < T; ++t) sums[t] = zero_run_sum<Format>();
  dot_run<Format>(group, splat_byte(0), tokens, column, sums);
  for (int t = 0; t < T; ++t) {
    dots[t] = add_scaled_dot_sum(end_dot_sum(dots[t], sums[t].low), sums[t].high, splat_pair(kSixteen.both()));
  }
}

// Codes of 8 bits are the step.
template <class Format, int T>
requires(Format::kBits == 8) [[gnu::always_inline]] inline void dot_group(GroupView group, const TokenView<T> &tokens,
                                                                          size_t column, I32x16 (&dots)[T]) {
  SignedExcess excess;
#pragma GCC unroll 8
  for (int v = 0; v < Format::kVectors; ++v) {
    const SignedWeights weights = signed_weights(load_bytes(group.bytes + 64 * v));
    excess = add_excess(excess, weights);
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) {
      dots[t] = dot4_signed(dots[t], weights, splat_4_bytes(tokens.codes[t] + column + 4 * v));
    }
  }
  for (int t = 0; t < T; ++t) dots[t] = take_excess(dots[t], excess);
}

// Adds the dot products of one of several groups, times its integer. The variants below do the same.
template <class Format, int T>
[[gnu::always_inline]] inline void dot_one_group(GroupView group, const TokenView<T> &tokens, size_t index,
                                                 I32x16 (&dots)[T]) {
  static_assert(Format::kRuns == 1);
  static_assert(Format::kMostCode * 127 * Format::kGroup < 1 << 15, "add_multiplied takes 16 bits");
  DotSum sums[T];
  for (int t = 0; t < T; ++t) sums[t] = zero_dot_sum();
  dot_run<Format>(group, splat_byte(0), tokens, index * Format::kGroup, sums);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) dots[t] = add_multiplied<0>(dots[t], sums[t], tokens.multipliers[t][index]);
}

template <class Format, int T>
requires(Format::kBits == 8)
    [[gnu::always_inline]] inline void dot_one_group(GroupView group, const TokenView<T> &tokens, size_t index,
                                                     I32x16 (&dots)[T]) {
  I32x16 sums[T];
  for (int t = 0; t < T; ++t) sums[t] = splat_i32(0);
  dot_group<Format>(group, tokens, index * Format::kGroup, sums);
  for (int t = 0; t < T; ++t) dots[t] = add(dots[t], mul(sums[t], tokens.multipliers[t][index]));
}

// One token and codes of 1 or 2 bits: every second step's codes stay where they are and all is scaled at the end, which
// saves half of the shifts. So dots are 2^kBits times what they are elsewhere.
template <class Format>
requires(Format::kBits <= 2)
    [[gnu::always_inline]] inline void dot_one_group(GroupView group, const TokenView<1> &token, size_t index,
                                                     I32x16 (&dots)[1]) {
  const Bytes64 even = splat_byte((1 << Format::kBits) - 1);
  const Bytes64 odd = splat_byte(((1 << Format::kBits) - 1) << Format::kBits);
  const int8_t *x = token.codes[0] + index * Format::kGroup;
  DotSum even_sum = zero_dot_sum();
  DotSum odd_sum = zero_dot_sum();
  static_assert(Format::kVectors <= 4, "what the sums can hold (see dot4)");
  static_assert((Format::kMostCode << Format::kBits) * 127 * Format::kGroup / 2 < 1 << 15,
                "add_multiplied takes 16 bits");
#pragma GCC unroll 4
  for (int v = 0; v < Format::kVectors; ++v) {
    Bytes64 bytes = load_words<Format>(group, v);
#pragma GCC unroll 4
    for (int step = 0; step < Format::kSteps; step += 2, x += 8) {
      even_sum = dot4(even_sum, bit_and(bytes, even), splat_4_bytes(x));
      odd_sum = dot4(odd_sum, bit_and(bytes, odd), splat_4_bytes(x + 4));
      bytes = shift_right_bytes<2 * Format::kBits>(bytes);
    }
  }
  const GroupMultiplier &multiplier = token.multipliers[0][index];
  dots[0] = add_multiplied<Format::kBits>(dots[0], even_sum, multiplier);
  dots[0] = add_multiplied<0>(dots[0], odd_sum, multiplier);
}

template <class Format, int T>
constexpr int kDotsShift = T == 1 && Format::kBits <= 2 ? Format::kBits : 0;

// -------- Integers of sub-blocks

// The scales of two sub-blocks, those of a row next to each other.
template <class Format>
I16x32 pair_scales(const uint8_t *group, int pair) {
  const I16x32 bytes = load_i8_pairs(group + 2 * kTileRows * pair);
  return Format::kLayout.minimum == Minimum::kSharingBytes ? nibbles<0>(bytes) : bytes;
}

// Their minima.
template <class Format>
I16x32 pair_minima(const uint8_t *group, int pair) {
  if constexpr (Format::kLayout.minimum == Minimum::kSharingBytes) {
    return nibbles<4>(load_i8_pairs(group + 2 * kTileRows * pair));
  } else {
    return load_i8_pairs(group + 2 * kTileRows * (Format::kSubBlocks / 2 + pair));
  }
}

// The dot products of a super-block. Sub-blocks are taken in pairs; each one's sum is multiplied by its scale and by
// the integer of its activations. Where both are one group, the integer can wait for the pair's sum or, of one token,
// go into the scales at once.
template <class Format, int T>
[[gnu::always_inline]] inline void dot_sub_blocks(GroupView view, const TokenView<T> &tokens, uint64_t block,
                                                  I32x16 (&dots)[T]) {
  constexpr int kRunsOfPair = Format::kRunsOfPair;
  constexpr int kPairs = Format::kSubBlocks / 2;
  constexpr int kGroupsOfPair = Format::kGroups / kPairs;
  static_assert(kGroupsOfPair == 1 || kGroupsOfPair == 2);
  const uint8_t *low = view.bytes + Format::kIntegersBytes;
  const uint8_t *high = low + 64 * Format::kVectors * Format::kGroups;
  size_t column = block * Format::kLayout.columns(), group = block * Format::kGroups;
#pragma GCC unroll 1
  for (int pair = 0; pair < kPairs; ++pair, group += kGroupsOfPair) {
    constexpr size_t kAsked = Format::kBlockStride / kPairs;
    prefetch_super_block<Format>(view.asked + pair * kAsked, kAsked);
    I16x32 scales = pair_scales<Format>(view.bytes, pair);
    if constexpr (kGroupsOfPair == 1 && T == 1) scales = mul_pairs(scales, tokens.multipliers[0][group]);
    I32x16 of_pair[T];
    for (int t = 0; t < T; ++t) of_pair[t] = splat_i32(0);
#pragma GCC unroll 4
    for (int run = 0; run < kRunsOfPair; ++run, low += 64 * Format::kRunVectors, column += Format::kRunColumns) {
      const I16x32 scale = run < kRunsOfPair / 2 ? repeat_even(scales) : repeat_odd(scales);
      RunSum<Format> sums[T];
      for (int t = 0; t < T; ++t) sums[t] = zero_run_sum<Format>();
      dot_run<Format>({low, false}, high_bits_of_run<Format>(high + run / 2 * 64, run % 2 != 0), tokens, column, sums);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        if constexpr (kGroupsOfPair == 2) {
          const GroupMultiplier &multiplier = tokens.multipliers[t][group + run / Format::kRuns];
          dots[t] = add_scaled_dot_sum(dots[t], sums[t], scale, multiplier);
        } else {
          I32x16 &total = T == 1 ? dots[t] : of_pair[t];
          total = add_scaled_dot_sum(total, sums[t], scale);
        }
      }
    }
    if constexpr (kGroupsOfPair == 1 && T > 1) {
      for (int t = 0; t < T; ++t) {
        dots[t] = add(dots[t], mul(of_pair[t], tokens.multipliers[t][group]));
      }
    }
    high += 32 * kRunsOfPair;
  }
}

// Two integers of each row, times the sums of the activations of two sub-blocks.
template <class Format, int T>
[[gnu::always_inline]] inline void dot_pair_sums(I16x32 integers, int pair, const TokenView<T> &tokens,
                                                 size_t first_sum, I32x16 (&sums)[T]) {
  constexpr int kSums = kSuperBlockActivations.block / Format::kSubBlocks / kSuperBlockActivations.sum_columns;
  static_assert(kSums == 1 || kSums == 2);
  for (int t = 0; t < T; ++t) {
    const int16_t *x = tokens.sums[t] + first_sum + 2 * kSums * pair;
    if constexpr (kSums == 1) {
      sums[t] = dot2(sums[t], integers, splat_pair(x));
    } else {
      sums[t] = dot2(sums[t], repeat_even(integers), splat_pair(x));
      sums[t] = dot2(sums[t], repeat_odd(integers), splat_pair(x + 2));
    }
  }
}

// The sums over sub-blocks of their minimum, or of their scale if the format has none, times the activations' sums.
template <class Format, int T>
[[gnu::always_inline]] inline void dot_sub_block_sums(const uint8_t *group, const TokenView<T> &tokens,
                                                      size_t first_sum, I32x16 (&sums)[T]) {
  for (int t = 0; t < T; ++t) sums[t] = splat_i32(0);
#pragma GCC unroll 1
  for (int pair = 0; pair < Format::kSubBlocks / 2; ++pair) {
    dot_pair_sums<Format>(Format::kMinima ? pair_minima<Format>(group, pair) : pair_scales<Format>(group, pair), pair,
                          tokens, first_sum, sums);
  }
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
