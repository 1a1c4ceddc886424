// The formats with codes as the kernels hold them: what packing, quantisation and the matrix kernels have to
// agree on. Formats with equal layouts share a kernel; formats with equal activations share quantised vectors.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/quant/format.h"

namespace bonsai::cpu {

// The order of the activation codes within a group: the kernels take 4 columns at a time, one from each byte of a word
// of weights, and find the activations of these 4 next to each other.
enum class ActivationOrder : uint32_t {
  kNatural,  // 0 1 2 3, 4 5 6 7, ...
  kNibbles,  // Q4_0's: columns i and i + 16 of 32 share a byte: 0 1 2 3, 16 17 18 19, 4 5 6 7, ...
  kStride4,  // four consecutive columns share a byte: 0 4 8 12, 1 5 9 13, ...
  kStride8,  // eight do: 0 8 16 24, 1 9 17 25, ...
};

// The tables in which kernels may look up sums of activations.
enum class SumTables : uint32_t {
  kNone,
  kSigns,  // weights are signs (kernels/lookup_matmul.inl.h)
  kTrits,  // weights are in base 3 (kernels/trits_matmul.inl.h)
};

// Columns of activations that are rounded with one scale. With longer groups the seedling misses the promised 99 %
// agreement with the reference (docs/cpu-measurements.md, "Why groups of 32 activations").
inline constexpr uint32_t kActivationGroup = 32;

// How a format takes its activations: in blocks of as many columns as its weights have a scale for. A group's scale is
// the block's times an integer, so that a block's sum is one integer, and is converted and scaled once.
struct ActivationLayout {
  uint32_t block = 0;  // columns that share a float scale: whole groups. 0: activations stay float
  ActivationOrder order = ActivationOrder::kNatural;
  uint32_t sum_columns = 0;      // consecutive columns whose codes are summed up: the block, or 16
  uint32_t most_multiplier = 0;  // the largest of the integers, of the group that needs it; 0: the block is one group
  SumTables tables = SumTables::kNone;
  bool operator==(const ActivationLayout &) const = default;

  constexpr uint32_t groups() const { return block / kActivationGroup; }
  // Sums are of codes times their group's integer, and those of blocks of several groups take 32 bits.
  constexpr bool has_wide_sums() const { return sum_columns > kActivationGroup; }
};

// The integer of a group, ready for multiplication with pairs of 16-bit integers: at `even` a pair's second one is left
// out, at `odd` its first one.
struct GroupMultiplier {
  int16_t words[4];  // m, 0, m, m

  const int16_t *even() const { return words; }
  const int16_t *odd() const { return words + 1; }
  const int16_t *both() const { return words + 2; }
};

// What is added to a block's scaled codes.
enum class Minimum : uint32_t {
  kNone,
  kOfBlock,       // m
  kOfSubBlocks,   // -dmin times an integer of each sub-block
  kSharingBytes,  // the same; the integers are the upper nibbles of bytes whose lower ones are the scales
};

// Codes in base 3 come in units of four groups of 32 columns: 13 words of 16 bits and a byte. A field of five bits
// holds columns 3 i to 3 i + 2 of a group, the first one as 1, 3 and 9 times the code. Each group g has three words of
// its own, 3 g to 3 g + 2, of three fields each, and a piece of 6 bits for the tenth; the sixth bits of these, in the
// order below, are what two more columns are made of: the lower bit of the code and the upper one.
//   word or piece   bits 0 to 4, 5 to 9      bits 10 to 14, of a piece 0 to 4   then
//   3 g             columns 0..2, 3..5       18..20                             21, lower bit
//   3 g + 1         6..8, 9..11              22..24                             21, upper bit
//   3 g + 2         12..14, 15..17           25..27                             28, lower bit
//   piece                                    29..31                             28, upper bit
// Pieces 0 and 1, and the lower 4 bits of piece 3, fill word 12; piece 2 and its upper bits, the byte.
inline constexpr uint32_t kTritUnitColumns = 128;
inline constexpr uint32_t kTritUnitWords = 13;
inline constexpr uint32_t kTritUnitBytes = 2 * kTritUnitWords + 1;
inline constexpr uint32_t kTritTops[] = {18, 22, 25, 29};    // first columns of the fields that share six bits
inline constexpr uint32_t kTritExtras[] = {21, 21, 28, 28};  // and the columns that have the sixth

// A block's weights are d * factor * ((code << multiplier_shift) - offset), plus what `minimum` says; the factor is 1,
// or an integer of the sub-block. Codes of 8 bits are signed, others unsigned; with float_columns they are FP8. Uneven
// ones stand for signed numbers of 8 bits, kIQ4Values (core/quant/iq4_blocks.h).
struct CodeLayout {
  ActivationLayout activations;
  uint32_t bits = 0;       // of a code, or of its lower part
  uint32_t high_bits = 0;  // of its upper part, which lies in words of its own
  uint32_t multiplier_shift = 0;
  int32_t offset = 0;
  uint32_t sub_blocks = 0;  // 0: the block has no integer scales
  Minimum minimum = Minimum::kNone;
  bool float_scale = false;    // d is a float instead of a half
  uint32_t strip_tiles = 1;    // tiles whose blocks lie side by side (packed_matrix.h)
  bool base_three = false;     // codes of 0 to 2, three in five bits
  bool sign_bytes = false;     // of one-bit words in strips, each byte lies by itself (packed_matrix.h)
  bool uneven = false;         // codes stand for uneven numbers
  uint32_t float_columns = 0;  // of a block, where activations stay float
  bool operator==(const CodeLayout &) const = default;

  // Parts of one row's block, in this order: scales (d, then m or dmin), integers of sub-blocks (scales, then minima),
  // words of codes (the lower parts, then the upper ones).
  constexpr uint32_t scale_bytes() const { return float_scale ? 4 : 2; }
  constexpr uint32_t scales() const { return minimum == Minimum::kNone ? 1 : 2; }
  constexpr uint32_t integers() const { return minimum == Minimum::kOfSubBlocks ? 2 * sub_blocks : sub_blocks; }
  constexpr bool has_signed_bytes() const { return bits == 8 || uneven; }  // once codes are what they stand for
  constexpr uint32_t columns() const { return activations.block > 0 ? activations.block : float_columns; }
  constexpr uint32_t low_words() const { return columns() * bits / 32; }
  constexpr uint32_t high_words() const { return columns() * high_bits / 32; }
  constexpr uint32_t words() const { return low_words() + high_words(); }
  constexpr uint32_t trit_units() const { return columns() / kTritUnitColumns; }
  constexpr uint32_t code_bytes() const { return base_three ? trit_units() * kTritUnitBytes : words() * 4; }
  constexpr uint32_t block_bytes() const { return scales() * scale_bytes() + integers() + code_bytes(); }
};

// Of blocks without integer scales: 128 products of signs or ternary codes with activations, times this, are numbers
// that a float holds.
inline constexpr uint32_t kMostMultiplier = 1023;
static_assert(128 * 127 * kMostMultiplier <= 1 << 24);

// Of super-blocks: Q6_K's products, times this, come to 2^31 less 1 %; sums of 16 activations, to what 16 bits hold.
inline constexpr uint32_t kMostSuperBlockMultiplier = 16;
static_assert(uint64_t{256} * 128 * 32 * 127 * kMostSuperBlockMultiplier <= INT32_MAX);
static_assert(16 * 127 * kMostSuperBlockMultiplier <= INT16_MAX);
// And IQ4_XS's, whose numbers are larger and whose scales are smaller, to 2^31 less 2 %.
static_assert(uint64_t{256} * 32 * 127 * 127 * kMostSuperBlockMultiplier <= INT32_MAX);

// Of Q8_K, whose products are with numbers of 8 bits.
inline constexpr uint32_t kMostByteMultiplier = 255;
static_assert(uint64_t{256} * 128 * 127 * kMostByteMultiplier <= INT32_MAX / 2);

constexpr ActivationLayout one_group(ActivationOrder order) { return {kActivationGroup, order, kActivationGroup}; }

constexpr ActivationLayout block_of(uint32_t columns, ActivationOrder order, SumTables tables = SumTables::kNone) {
  return {columns, order, columns, kMostMultiplier, tables};
}

inline constexpr ActivationLayout kSuperBlockActivations = {
    .block = 256, .sum_columns = 16, .most_multiplier = kMostSuperBlockMultiplier};
inline constexpr ActivationLayout kNibbleActivations = one_group(ActivationOrder::kNibbles);

inline constexpr CodeLayout kQ8_0Layout = {.activations = one_group(ActivationOrder::kNatural), .bits = 8};
inline constexpr CodeLayout kQ4_0Layout = {.activations = kNibbleActivations, .bits = 4, .offset = 8};
inline constexpr CodeLayout kQ4_1Layout = {.activations = kNibbleActivations, .bits = 4, .minimum = Minimum::kOfBlock};
inline constexpr CodeLayout kQ5_0Layout = {.activations = kNibbleActivations, .bits = 4, .high_bits = 1, .offset = 16};
inline constexpr CodeLayout kQ5_1Layout = {
    .activations = kNibbleActivations, .bits = 4, .high_bits = 1, .minimum = Minimum::kOfBlock};

inline constexpr CodeLayout kQ1_0G128Layout = {
    .activations = block_of(128, ActivationOrder::kStride8, SumTables::kSigns),
    .bits = 1,
    .multiplier_shift = 1,
    .offset = 1,
    .strip_tiles = 8};
inline constexpr CodeLayout kSignBytesG128Layout = [] {
  CodeLayout layout = kQ1_0G128Layout;
  layout.sign_bytes = true;
  return layout;
}();
inline constexpr CodeLayout kTernaryG128Layout = {
    .activations = block_of(128, ActivationOrder::kStride4), .bits = 2, .offset = 1};
inline constexpr CodeLayout kQ2_0G64Layout = {
    .activations = block_of(64, ActivationOrder::kStride4), .bits = 2, .offset = 1};
inline constexpr CodeLayout kTernary256Layout = {
    .activations = block_of(256, ActivationOrder::kNatural), .bits = 2, .offset = 1};

inline constexpr CodeLayout kTritsG128Layout = {
    .activations = block_of(128, ActivationOrder::kNatural, SumTables::kTrits),
    .bits = 2,
    .offset = 1,
    .strip_tiles = 8,
    .base_three = true};
inline constexpr CodeLayout kTrits256Layout = [] {
  CodeLayout layout = kTritsG128Layout;
  layout.activations = block_of(256, ActivationOrder::kNatural, SumTables::kTrits);
  return layout;
}();

inline constexpr CodeLayout kQ2_KLayout = {
    .activations = kSuperBlockActivations, .bits = 2, .sub_blocks = 16, .minimum = Minimum::kSharingBytes};
inline constexpr CodeLayout kQ3_KLayout = {
    .activations = kSuperBlockActivations, .bits = 2, .high_bits = 1, .offset = 4, .sub_blocks = 16};
inline constexpr CodeLayout kQ4_KLayout = {
    .activations = kSuperBlockActivations, .bits = 4, .sub_blocks = 8, .minimum = Minimum::kOfSubBlocks};
inline constexpr CodeLayout kQ5_KLayout = {.activations = kSuperBlockActivations,
                                           .bits = 4,
                                           .high_bits = 1,
                                           .sub_blocks = 8,
                                           .minimum = Minimum::kOfSubBlocks};
inline constexpr CodeLayout kQ6_KLayout = {
    .activations = kSuperBlockActivations, .bits = 4, .high_bits = 2, .offset = 32, .sub_blocks = 16};
inline constexpr CodeLayout kQ8_KLayout = {
    .activations = {.block = 256, .sum_columns = 256, .most_multiplier = kMostByteMultiplier},
    .bits = 8,
    .float_scale = true};

inline constexpr CodeLayout kIQ4_NLLayout = {.activations = kNibbleActivations, .bits = 4, .uneven = true};
inline constexpr CodeLayout kIQ4_XSLayout = {
    .activations = kSuperBlockActivations, .bits = 4, .sub_blocks = 8, .uneven = true};

// A block that holds a code which is no number, an infinite one included, has the scale NaN.
inline constexpr CodeLayout kF8Layout = {.activations = {}, .bits = 8, .float_columns = 32};

// The bits of a float that a code in FP8 fills: its sign, and its other seven from the mantissa's upper ones on.
template <int kMantissaBits>
constexpr int32_t f8_bits() {
  return INT32_MIN | 0x7F << (23 - kMantissaBits);
}

// How a matrix's blocks are packed.
enum class Packing : uint32_t {
  kUsual,
  kTrits,      // ternary formats, for kernels that look their sums up
  kTernary,    // as usual, and no code is 3
  kSignBytes,  // Q1_0_G128, as kTrits
};

// The layout of a format; with blocks of 0 columns if it is not repacked.
CodeLayout code_layout(quant::Format format, Packing packing = Packing::kUsual);

}  // namespace bonsai::cpu
