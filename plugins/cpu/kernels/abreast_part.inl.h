// A part of a block's columns times 32 vectors abreast: what both ways to look sums up (abreast_together.inl.h,
// abreast_in_turn.inl.h) have in common. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <bit>

#include "plugins/cpu/kernels/abreast_fields.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Columns of a block that are multiplied before the next: tables of so many stay in a second-level cache, or what was
// found in them.
constexpr uint32_t kPartColumns = 128;

template <CodeLayout kLayout>
struct AbreastParts {
  static constexpr uint32_t kParts = kLayout.columns() > kPartColumns ? kLayout.columns() / kPartColumns : 1;
  static constexpr uint32_t kGroups = kLayout.activations.groups() / kParts, kPairs = kGroups / 2;  // of a part
  static_assert(kGroups % 2 == 0 && kParts <= 2);
};

// The vectors' side of a part: codes by lane (vector_of_lane), and what sums of pairs of groups, and then of the block,
// are multiplied with.
template <CodeLayout kLayout>
struct VectorsOfPart {
  const int8_t *codes[kAbreastVectors];
  alignas(64) int16_t multipliers[AbreastParts<kLayout>::kPairs][2][kAbreastVectors];
  alignas(64) float scales[kAbreastVectors];
};

// What was unpacked of a block for up to kRows rows, record by record.
template <CodeLayout kLayout, uint32_t kRows>
struct AbreastWeights {
  using Parts = AbreastParts<kLayout>;
  static constexpr uint32_t kRecordBytes = AbreastFields<kLayout>::kBytes;
  alignas(64) uint8_t records[Parts::kParts][Parts::kGroups][kRows * kRecordBytes];
  alignas(64) float scales[kRows];
};

// Where a field's entry lies in its table, in bytes: the field is in a word from a bit on, and as long as the mask.
[[gnu::always_inline]] inline uint64_t entry_place(uint64_t word, uint32_t bit, uint64_t mask) {
  constexpr int kEntryBits = std::countr_zero(kAbreastVectors * sizeof(int16_t));
  return std::rotr(word, static_cast<int>(bit) - kEntryBits) & mask << kEntryBits;
}

// Results of rows so far, and sums of a block's first part, if it has two.
struct AbreastResults {
  float (*y)[kAbreastVectors];
  int32_t (*sums)[kAbreastVectors];
};

// From a part's sums of products to results.
template <CodeLayout kLayout, class Lookup>
class PartFactors {
  static constexpr uint32_t kPairs = AbreastParts<kLayout>::kPairs, kParts = AbreastParts<kLayout>::kParts;

 public:
  [[gnu::always_inline]] explicit PartFactors(const VectorsOfPart<kLayout> &vectors) {
    for (int half = 0; half < 2; ++half) {
      for (uint32_t pair = 0; pair < kPairs; ++pair) {
        multipliers_[pair][half] = Lookup::load(vectors.multipliers[pair][half]);
      }
      scales_[half] = load(vectors.scales + 16 * half);
    }
  }

  // Adds a pair of groups, each sum times its group's integer.
  [[gnu::always_inline]] void add_pair(uint32_t pair, I16x32 first, I16x32 second, I32x16 (&sums)[2]) const {
    I16x32 halves[2];
    Lookup::interleave(first, second, halves[0], halves[1]);
    for (int half = 0; half < 2; ++half) sums[half] = dot2(sums[half], halves[half], multipliers_[pair][half]);
  }

  // Adds a part's sums to the results of a row; those of a first of two parts are left to the second.
  template <uint32_t kPart>
  [[gnu::always_inline]] void add_row(I32x16 (&sums)[2], float weight_scale, const AbreastResults &results,
                                      size_t row) const {
    if constexpr (kParts > 1) {
      int32_t *of_first = results.sums[row];
      for (int half = 0; half < 2; ++half) {
        if constexpr (kPart == 0) {
          store_i32(of_first + 16 * half, sums[half]);
        } else {
          sums[half] = add(sums[half], load_i32(of_first + 16 * half));
        }
      }
    }
    if constexpr (kPart + 1 == kParts) {
      const F32x16 of_weights = splat(weight_scale);
      for (int half = 0; half < 2; ++half) {
        float *y = results.y[row] + 16 * half;
        store(y, fma(to_f32(sums[half]), mul(of_weights, scales_[half]), load(y)));
      }
    }
  }

 private:
  I16x32 multipliers_[kPairs][2];
  F32x16 scales_[2];
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
