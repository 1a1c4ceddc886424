// Weight formats as the matrix kernels see them: what a lane loads of a step, and how that becomes fragments for the
// tensor cores and scales. All is derived from the format's MatrixLayout; where formats differ, this file says how.
//
// Numbers are pinned: a format's products are summed group by group, in order, into a segment's sum, whichever kernel
// does it: groups of group_columns (matrix_layout.h). Groups' integer sums are exact; then segment = fmaf(sum, d *
// scale of the activations, segment) and, with the minimum, the same again. Floats go through the same tensor core
// instructions in the same order.
#pragma once

#include "activation_arguments.h"
#include "matrix_layout.h"
#include "simt.cuh"

namespace bonsai::cuda {

// Columns that a lane loads at once: 64 bytes or so, and scales in whole loads.
constexpr uint32_t step_columns(MatrixLayout layout) {
  if (layout.codes == Codes::kTwoHalves) return 32;
  if (layout.is_float()) return 64;
  if (layout.bits == 8 || layout.high_bits == 2) return 128;
  if (layout.packing == Packing::kCodesBy128) return 512;
  return layout.scales == Scales::kHalfAndMinimum && layout.high_bits == 0 ? 128 : 256;
}

// A mask of the lowest `bits` of each byte.
constexpr uint32_t low_bits_of_bytes(uint32_t bits) { return 0x01010101u * ((1u << bits) - 1); }

struct alignas(8) Pair {
  uint32_t x, y;
};

// -------- Weights as they are in memory: a lane's share of kColumns columns of a record

template <MatrixLayout kLayout, uint32_t kColumns>
struct StepCodes {
  static constexpr uint32_t kQuads = kColumns * kLayout.bits / 256;
  static constexpr uint32_t kHighQuads = kColumns * kLayout.high_bits / 256;

  uint32_t low[kQuads][4];
  uint32_t high[kHighQuads > 0 ? kHighQuads : 1][4];
};

// For rows g and g + 8.
template <MatrixLayout kLayout, uint32_t kColumns>
struct StepScales {
  // Of the step's groups, or of the block of 256 columns that the step is in.
  static constexpr bool kOfBlock = kLayout.has_integers() || kLayout.scales == Scales::kFloat;
  static constexpr uint32_t kWords =
      kOfBlock ? kLayout.scale_bytes() / 8 : kLayout.scale_bytes() / 4 * kColumns / kSegmentColumns;
  static constexpr uint32_t kIntegerWords = kLayout.integer_bytes() / 4 * kColumns / kSegmentColumns;

  uint32_t words[kWords > 0 ? kWords : 1];
  uint32_t integers[kIntegerWords > 0 ? kIntegerWords : 1];
};

template <MatrixLayout kLayout>
struct StepWeights {
  StepCodes<kLayout, step_columns(kLayout)> codes;
  StepScales<kLayout, step_columns(kLayout)> scales;
};

__device__ inline void load_quad(const uint8_t *from, uint32_t *to) {
  const Quad quad = load_streaming(from);
  to[0] = quad.x;
  to[1] = quad.y;
  to[2] = quad.z;
  to[3] = quad.w;
}

// A few words that several lanes read: 16 bytes at a time, or 8, or 4.
template <uint32_t kWords>
__device__ inline void load_words(const uint8_t *from, uint32_t *to) {
  if constexpr (kWords % 4 == 0) {
#pragma unroll
    for (uint32_t i = 0; i < kWords; i += 4) load_quad(from + 4 * i, to + i);
  } else if constexpr (kWords == 2) {
    const Pair pair = *reinterpret_cast<const Pair *>(from);
    to[0] = pair.x;
    to[1] = pair.y;
  } else {
    static_assert(kWords == 1);
    to[0] = *reinterpret_cast<const uint32_t *>(from);
  }
}

template <MatrixLayout kLayout, uint32_t kColumns>
__device__ inline void load_codes(const uint8_t *record, uint32_t step, StepCodes<kLayout, kColumns> &to) {
  using Step = StepCodes<kLayout, kColumns>;
#pragma unroll
  for (uint32_t i = 0; i < Step::kQuads; ++i) {
    load_quad(record + ((step * Step::kQuads + i) * kWarp + lane()) * sizeof(Quad), to.low[i]);
  }
  if constexpr (Step::kHighQuads > 0) {
    record += kLayout.code_bytes();
#pragma unroll
    for (uint32_t i = 0; i < Step::kHighQuads; ++i) {
      load_quad(record + ((step * Step::kHighQuads + i) * kWarp + lane()) * sizeof(Quad), to.high[i]);
    }
  }
}

template <MatrixLayout kLayout, uint32_t kColumns>
__device__ inline void load_scales(const uint8_t *record, uint32_t step, StepScales<kLayout, kColumns> &to) {
  using Step = StepScales<kLayout, kColumns>;
  const uint32_t g = lane() / 4;
  if constexpr (Step::kWords > 0) {
    const uint32_t part = Step::kOfBlock ? step * kColumns / 256 : step;
    load_words<Step::kWords>(
        record + kLayout.scales_at() + g * kLayout.scale_bytes() + part * Step::kWords * sizeof(uint32_t), to.words);
  }
  if constexpr (Step::kIntegerWords > 0) {
    load_words<Step::kIntegerWords>(
        record + kLayout.integers_at() + g * kLayout.integer_bytes() + step * Step::kIntegerWords * sizeof(uint32_t),
        to.integers);
  }
}

template <MatrixLayout kLayout>
__device__ inline StepWeights<kLayout> load_step(const uint8_t *record, uint32_t step) {
  StepWeights<kLayout> weights;
  load_codes(record, step, weights.codes);
  load_scales(record, step, weights.scales);
  return weights;
}

// -------- A group of them, ready for the tensor cores

template <MatrixLayout kLayout>
struct GroupFragments {
  static constexpr uint32_t kSteps = group_columns(kLayout) / 32;  // of 32 columns

  uint32_t of[kLayout.is_float() ? 2 : kSteps][4];
  uint32_t second[2][4];  // F32: what the first halves leave
};

// Of rows g and g + 8.
struct GroupScales {
  float d[2];
  float minimum[2];  // what is added to q d: m or -dmin
  int scale[2][2];   // integers of the row and, where groups have 16 columns, of both halves
  int minima[2][2];
};

// What uneven codes stand for, four in a word: core/quant/iq4_blocks.h has the numbers.
inline constexpr uint32_t kUnevenNumbers[] = {0xBFAD9881, 0xF6EADDCF, 0x26190D01, 0x71594535};

// What a word's lower nibbles stand for, byte by byte, and its upper ones. A permutation takes four nibbles at a time,
// of which three bits choose one of eight bytes: in either half of the table, and the fourth bit says in which it is
// right.
__device__ inline void look_up_nibbles(uint32_t word, uint32_t (&to)[2]) {
  const uint32_t in_half = word & 0x77777777, right = 0x32103210 | (word & 0x88888888) >> 1;
  uint32_t numbers[2];
#pragma unroll
  for (uint32_t i = 0; i < 2; ++i) {
    const uint32_t first = permute_bytes(kUnevenNumbers[0], kUnevenNumbers[1], in_half >> 16 * i),
                   second = permute_bytes(kUnevenNumbers[2], kUnevenNumbers[3], in_half >> 16 * i);
    numbers[i] = permute_bytes(first, second, right >> 16 * i);
  }
  to[0] = permute_bytes(numbers[0], numbers[1], 0x6420);
  to[1] = permute_bytes(numbers[0], numbers[1], 0x7531);
}

// Codes of 32 columns as a fragment of mma_s8_k32.
template <MatrixLayout kLayout, uint32_t kColumns>
__device__ inline void code_fragment(const StepCodes<kLayout, kColumns> &codes, uint32_t step, uint32_t *to) {
  constexpr uint32_t kBits = kLayout.bits, kMask = low_bits_of_bytes(kBits);
  constexpr uint32_t kInQuad = 8 / kBits;  // steps
  if constexpr (kBits == 1) {
    const uint32_t *words = codes.low[step / 8] + step / 4 % 2 * 2;
    const uint32_t at = step % 4 * 2;
    to[0] = words[0] >> at & kMask;
    to[1] = words[1] >> at & kMask;
    to[2] = words[0] >> (at + 1) & kMask;
    to[3] = words[1] >> (at + 1) & kMask;
  } else if constexpr (kLayout.codes == Codes::kUneven) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t both[2];  // steps: what the other one does not need, the compiler leaves out
      look_up_nibbles(codes.low[step / kInQuad][i], both);
      to[i] = both[step % kInQuad];
    }
  } else {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      to[i] = codes.low[step / kInQuad][i];
      if constexpr (kBits < 8) to[i] = to[i] >> step % kInQuad * kBits & kMask;
      if constexpr (kLayout.high_bits > 0) {
        constexpr uint32_t kHighInQuad = 8 / kLayout.high_bits;
        const uint32_t high = codes.high[step / kHighInQuad][i] >> step % kHighInQuad * kLayout.high_bits;
        to[i] |= (high & low_bits_of_bytes(kLayout.high_bits)) << kBits;
      }
    }
  }
}

// Two bytes, one in each half's upper byte, as two halves. E4M3's come out as 2^-8 of what they are: its exponent has
// the other bias, and no bit is lost, because that is a half even where it is subnormal.
template <MatrixLayout kLayout>
__device__ inline uint32_t halves_of_fp8(uint32_t bytes) {
  if constexpr (kLayout.codes == Codes::kE5M2) return bytes;
  return (bytes & 0x80008000u) | (bytes & 0x7F007F00u) >> 1;
}

// Codes of 32 columns as two fragments of mma_f16_k16.
template <MatrixLayout kLayout, uint32_t kColumns>
__device__ inline void half_fragments(const StepCodes<kLayout, kColumns> &codes, uint32_t step,
                                      GroupFragments<kLayout> &to) {
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
    if constexpr (kLayout.bits == 8) {
#pragma unroll
      for (uint32_t row = 0; row < 2; ++row) {
        const uint32_t four = codes.low[step][2 * half + row];
        to.of[half][row] = halves_of_fp8<kLayout>((four & 0xFF) << 8 | (four & 0xFF00) << 16);
        to.of[half][2 + row] = halves_of_fp8<kLayout>((four & 0xFF0000) >> 8 | (four & 0xFF000000));
      }
    } else {
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) {
        to.of[half][i] = codes.low[2 * step + half][i];
        if constexpr (kLayout.codes == Codes::kTwoHalves) to.second[half][i] = codes.high[2 * step + half][i];
      }
    }
  }
}

// Group `index` of a step.
template <MatrixLayout kLayout, uint32_t kColumns>
__device__ inline GroupFragments<kLayout> take_fragments(const StepCodes<kLayout, kColumns> &codes, uint32_t index) {
  GroupFragments<kLayout> fragments;
  if constexpr (kLayout.is_float()) {
    half_fragments(codes, index, fragments);
  } else {
    constexpr uint32_t kSteps = GroupFragments<kLayout>::kSteps;
#pragma unroll
    for (uint32_t i = 0; i < kSteps; ++i) code_fragment(codes, index * kSteps + i, fragments.of[i]);
  }
  return fragments;
}

__device__ inline void two_halves(uint32_t word, float (&to)[2]) {
  to[0] = half_to_float(static_cast<uint16_t>(word));
  to[1] = half_to_float(static_cast<uint16_t>(word >> 16));
}

// The small integers of 32 columns: four bytes of a word, or, of one signed byte for each row, the lower two.
template <MatrixLayout kLayout>
__device__ inline void take_integers(uint32_t word, GroupScales &to) {
#pragma unroll
  for (uint32_t row = 0; row < 2; ++row) {
    const uint32_t first = word >> 8 * row, second = word >> (16 + 8 * row);
    if constexpr (kLayout.scales == Scales::kSignedBytes) {
      to.scale[row][0] = static_cast<int8_t>(first);
      to.scale[row][1] = static_cast<int8_t>(second);
    } else if constexpr (kLayout.scales == Scales::kNibbles) {
      to.scale[row][0] = first & 15;
      to.scale[row][1] = second & 15;
      to.minima[row][0] = first >> 4 & 15;
      to.minima[row][1] = second >> 4 & 15;
    } else {
      to.scale[row][0] = first & 0xFF;
      to.minima[row][0] = second & 0xFF;
    }
  }
}

// Of group `index` of a step.
template <MatrixLayout kLayout, uint32_t kColumns>
__device__ inline GroupScales take_scales(const StepScales<kLayout, kColumns> &scales, uint32_t index) {
  GroupScales to = {};
  if constexpr (kLayout.scales == Scales::kHalf) {
    two_halves(scales.words[index], to.d);
    if constexpr (kLayout.codes == Codes::kE4M3) {
      to.d[0] *= 256.0f;
      to.d[1] *= 256.0f;
    }
  } else if constexpr (kLayout.scales == Scales::kHalfAndMinimum) {
    two_halves(scales.words[2 * index], to.d);
    two_halves(scales.words[2 * index + 1], to.minimum);
  } else if constexpr (kLayout.scales == Scales::kFloat) {
    to.d[0] = bits_to_float(scales.words[0]);
    to.d[1] = bits_to_float(scales.words[1]);
  } else if constexpr (kLayout.has_integers()) {
    two_halves(scales.words[0], to.d);
    if constexpr (kLayout.has_minima()) two_halves(scales.words[1] ^ 0x80008000u, to.minimum);  // -dmin
    constexpr bool kTwoInWord = kLayout.scales == Scales::kSignedBytes && !kLayout.splits_steps();
    take_integers<kLayout>(kTwoInWord ? scales.integers[index / 2] >> index % 2 * 16 : scales.integers[index], to);
  }
  return to;
}

// -------- Products

// What a group's integers are worth: exact sums[half] of 16 columns each, or sums[0] of all, of rows g and g + 8 times
// kTokens tokens, whose records are given.
template <MatrixLayout kLayout, uint32_t kTokens>
__device__ inline void add_group(const GroupScales &group, const int (&sums)[2][2 * kTokens],
                                 const GroupRecord (&records)[kTokens], bool second_half,
                                 float (&segment)[2 * kTokens]) {
  constexpr int kFactor = kLayout.bits == 1 ? 2 : 1;
#pragma unroll
  for (uint32_t i = 0; i < 2 * kTokens; ++i) {
    const uint32_t row = i / kTokens;
    const GroupRecord &record = records[i % kTokens];
    const int whole = record.sum, second = record.second_half_sum, first = whole - second;
    int sum = 0, minimum = 0;
    if constexpr (kLayout.splits_steps()) {
      sum = group.scale[row][0] * (sums[0][i] - kLayout.offset * first) +
            group.scale[row][1] * (sums[1][i] - kLayout.offset * second);
      if constexpr (kLayout.has_minima()) minimum = group.minima[row][0] * first + group.minima[row][1] * second;
    } else if constexpr (kLayout.has_integers()) {
      sum = group.scale[row][0] * (sums[0][i] - kLayout.offset * whole);
      minimum = group.minima[row][0] * whole;
    } else {
      // Groups of 64 are halves of the activations' groups of 128.
      const int codes = group_columns(kLayout) != 64 ? whole : second_half ? second : first;
      sum = kFactor * sums[0][i] - kLayout.offset * codes;
      minimum = whole;
    }
    segment[i] = fmaf(static_cast<float>(sum), group.d[row] * record.scale, segment[i]);
    if constexpr (kLayout.has_minima()) {
      segment[i] = fmaf(static_cast<float>(minimum), group.minimum[row] * record.scale, segment[i]);
    }
  }
}

// The records of tokens 2 t and 2 t + 1.
struct alignas(16) RecordPair {
  GroupRecord of[2];
};

// Four numbers to each of 32 lanes: rows g and g + 8 times tokens 2 t and 2 t + 1, as the tensor cores have them.
using Sums = float[4];

// 32 columns of one token as a fragment: 8 in a row for each lane or, in halves of 16, 4 of each.
template <MatrixLayout kLayout>
__device__ inline void token_fragment(const int8_t *codes, uint32_t (&to)[2]) {
  const uint32_t t = lane() % 4;
  if constexpr (kLayout.splits_steps()) {
    to[0] = *reinterpret_cast<const uint32_t *>(codes + 4 * t);
    to[1] = *reinterpret_cast<const uint32_t *>(codes + 16 + 4 * t);
  } else {
    const Pair pair = *reinterpret_cast<const Pair *>(codes + 8 * t);
    to[0] = pair.x;
    to[1] = pair.y;
  }
}

// A step's 32 columns times 8 tokens, added to the integers of the group.
template <MatrixLayout kLayout>
__device__ inline void multiply_step(const uint32_t (&weights)[4], const uint32_t (&tokens)[2], int (&sums)[2][4]) {
  if constexpr (kLayout.splits_steps()) {
    mma_s8_k16(sums[0], {weights[0], weights[1]}, tokens[0]);
    mma_s8_k16(sums[1], {weights[2], weights[3]}, tokens[1]);
  } else {
    mma_s8_k32(sums[0], weights, tokens);
  }
}

// Adds a group times kSets times 8 tokens to the segment's sums. Integers: each of `tokens` has
//   void codes(uint32_t step, uint32_t (&to)[2])   token g's fragment of 32 columns of the group
//   RecordPair records()
// Several sets take turns, so that no product waits for the one before.
template <MatrixLayout kLayout, uint32_t kSets, class Tokens>
requires(!kLayout.is_float()) __device__
    inline void multiply_group(const GroupFragments<kLayout> &weights, const GroupScales &scales,
                               const Tokens (&tokens)[kSets], bool second_half, Sums *segments) {
  int sums[kSets][2][4] = {};
#pragma unroll
  for (uint32_t step = 0; step < GroupFragments<kLayout>::kSteps; ++step) {
#pragma unroll
    for (uint32_t i = 0; i < kSets; ++i) {
      uint32_t codes[2];
      tokens[i].codes(step, codes);
      multiply_step<kLayout>(weights.of[step], codes, sums[i]);
    }
  }
#pragma unroll
  for (uint32_t i = 0; i < kSets; ++i) {
    add_group<kLayout, 2>(scales, sums[i], tokens[i].records().of, second_half, segments[i]);
  }
}

// Floats: each has Quad high() and Quad low(), token g's halves of columns 8 t to 8 t + 7 of 32.
template <MatrixLayout kLayout, uint32_t kSets, class Tokens>
requires(kLayout.is_float()) __device__
    inline void multiply_group(const GroupFragments<kLayout> &weights, const GroupScales &scales,
                               const Tokens (&tokens)[kSets], bool, Sums *segments) {
  constexpr bool kScaled = kLayout.scales != Scales::kRow;
  uint32_t high[kSets][2][2], low[kSets][2][2];
  Sums products[kSets] = {};
#pragma unroll
  for (uint32_t i = 0; i < kSets; ++i) {
    const Quad of_high = tokens[i].high(), of_low = tokens[i].low();
    high[i][0][0] = of_high.x, high[i][0][1] = of_high.y, high[i][1][0] = of_high.z, high[i][1][1] = of_high.w;
    low[i][0][0] = of_low.x, low[i][0][1] = of_low.y, low[i][1][0] = of_low.z, low[i][1][1] = of_low.w;
  }
  Sums *const sums = kScaled ? products : segments;
#pragma unroll
  for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll
    for (uint32_t i = 0; i < kSets; ++i) mma_f16_k16(sums[i], weights.of[half], high[i][half]);
#pragma unroll
    for (uint32_t i = 0; i < kSets; ++i) mma_f16_k16(sums[i], weights.of[half], low[i][half]);
    if constexpr (kLayout.codes == Codes::kTwoHalves) {
#pragma unroll
      for (uint32_t i = 0; i < kSets; ++i) mma_f16_k16(sums[i], weights.second[half], high[i][half]);
    }
  }
  if constexpr (kScaled) {
#pragma unroll
    for (uint32_t i = 0; i < 4 * kSets; ++i) {
      segments[i / 4][i % 4] = fmaf(products[i / 4][i % 4], scales.d[i % 4 / 2], segments[i / 4][i % 4]);
    }
  }
}

}  // namespace bonsai::cuda
