// Quantised vectors for products of many of them: panels of up to 12 vectors side by side, in the order in which
// panel_matmul.inl.h reads them. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/codes_dot.inl.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"
#include "plugins/cpu/kernels/transpose.inl.h"
#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Vectors side by side: what is multiplied at once, two, four or six of them, divides it (panel_matmul.inl.h).
constexpr uint32_t kPanelVectors = 12;
constexpr uint32_t kPanelStep = 4;  // narrower panels have a multiple of this

// Columns of a pair of tiles that are unpacked at a time: they, and those of a panel, fill half of the first-level
// cache.
constexpr uint32_t kPieceColumns = 512;

// Columns of all panels, which stay in the second-level cache while all tiles are multiplied with them.
constexpr uint32_t kPassColumns = 2048;
constexpr uint32_t kMostPanels = 11;
constexpr uint32_t kMostInPanels = kMostPanels * kPanelVectors;

// Vectors in panels: all are of kPanelVectors, but for the last one, which is as narrow as will do.
class PanelDivision {
 public:
  explicit PanelDivision(uint32_t n) : n_(n) {}
  uint32_t count() const { return (n_ + kPanelVectors - 1) / kPanelVectors; }
  uint32_t first(uint32_t panel) const { return panel * kPanelVectors; }
  uint32_t vectors(uint32_t panel) const { return std::min(kPanelVectors, n_ - first(panel)); }

  // Calls body(its width).
  template <class Body>
  void with_width(uint32_t panel, const Body &body) const {
    const uint32_t n = vectors(panel);
    if (n > 2 * kPanelStep) return body(std::integral_constant<uint32_t, kPanelVectors>());
    if (n > kPanelStep) return body(std::integral_constant<uint32_t, 2 * kPanelStep>());
    body(std::integral_constant<uint32_t, kPanelStep>());
  }

 private:
  uint32_t n_;
};

// What a layout makes of its blocks. A run is columns whose products are summed up before they are multiplied with
// integers, in the lower half of 32 bits: as many as 16 bits have room for, less what has to be taken from unsigned
// bytes. Blocks of one group are one run, and 32 bits.
template <CodeLayout kLayout>
struct PanelFormat {
  static constexpr uint32_t kColumns = kLayout.columns();
  static constexpr uint32_t kGroups = kLayout.activations.groups();
  static constexpr bool kOneGroup = kGroups == 1;
  static constexpr bool kSubBlocks = kLayout.sub_blocks > 0;
  static constexpr bool kMinima = kLayout.minimum != Minimum::kNone;
  static constexpr int kOffset = kOffsetOfUnsigned<kLayout>;
  static constexpr int kMostByte = ((1 << (kLayout.bits + kLayout.high_bits)) - 1) << kLayout.multiplier_shift;
  static constexpr int kMost = kSubBlocks && kOffset > 0 ? kOffset : kMostByte;  // of what runs sum up, around zero
  static constexpr uint32_t kRun = !kSubBlocks ? kActivationGroup : kMost * 127 * 16 < 1 << 15 ? 16 : 8;
  static constexpr uint32_t kRuns = kColumns / kRun;
  static constexpr uint32_t kFactorColumns = kSubBlocks ? kColumns / kLayout.sub_blocks : kActivationGroup;
  static constexpr uint32_t kRunsOfFactor = kFactorColumns / kRun, kFactors = kActivationGroup / kFactorColumns;
  static_assert(kOneGroup || kMost * 127 * int{kRun} < 1 << 15);
  static constexpr uint32_t kSums = kSubBlocks && kMinima ? kColumns / kLayout.activations.sum_columns : 0;

  // Where the offset is taken from: the sums of runs where these have no room for it, otherwise those of blocks.
  static constexpr bool kRunsStart = kSubBlocks && kOffset > 0;
  static constexpr bool kBlocksStart = !kSubBlocks && !kMinima;
  static_assert(!kMinima || kOffset == 0);
};

// A block of T vectors.
template <CodeLayout kLayout, uint32_t T>
struct PanelBlock {
  using Format = PanelFormat<kLayout>;

  int32_t codes[Format::kColumns / 4][T];  // four of them each
  float scales[T];
  // What sums begin with; or, of formats with a minimum for a block, the sum as a float.
  int32_t starts[Format::kRunsStart ? Format::kRuns : Format::kSubBlocks ? 0 : 1][T];
  int32_t multipliers[Format::kOneGroup ? 0 : Format::kGroups][T];
  int32_t sums[Format::kSums / 2][T];  // pairs of them

  // Block `block` of vectors: rows(t) is vector t's ConstQuantizedRow. What lies beyond the last is the first again.
  template <class Rows>
  void fill(const Rows &rows, uint64_t block, uint32_t n) {
    const int8_t *of_vectors[T];
    for (uint32_t t = 0; t < T; ++t) {
      const ConstQuantizedRow row = rows(t < n ? t : 0).from(block, kLayout.activations);
      of_vectors[t] = row.codes;
      scales[t] = *row.scales;
      if constexpr (Format::kOneGroup) {
        if constexpr (Format::kMinima) {
          const auto sum = static_cast<float>(*row.sums);
          memcpy(&starts[0][t], &sum, sizeof sum);
        } else {
          starts[0][t] = -Format::kOffset * *row.sums;
        }
      } else {
        for (uint32_t i = 0; i < Format::kGroups; ++i) memcpy(&multipliers[i][t], row.multipliers[i].even(), 4);
        for (uint32_t i = 0; i < Format::kSums / 2; ++i) memcpy(&sums[i][t], row.sums + 2 * i, 4);
        if constexpr (Format::kBlocksStart) starts[0][t] = -Format::kOffset * *row.wide_sums;
      }
    }
    gather(of_vectors);
    if constexpr (Format::kRunsStart) start_runs();
  }

 private:
  void gather(const int8_t *const (&of_vectors)[T]) {
    constexpr uint32_t kSteps = Format::kColumns / 4;
    for (uint32_t step = 0; step < kSteps; step += 4) {
      for (uint32_t t = 0; t < T; t += 4) {
        Ints4 words[4];
        for (uint32_t i = 0; i < 4; ++i) memcpy(&words[i], of_vectors[t + i] + 4 * step, sizeof words[i]);
        transpose_4(words);
        for (uint32_t i = 0; i < 4; ++i) memcpy(&codes[step + i][t], &words[i], sizeof words[i]);
      }
    }
  }

  // Each lane is a vector; those beyond the last are not stored.
  void start_runs() {
    const Bytes64 offset = splat_byte(Format::kOffset);
    for (uint32_t run = 0; run < Format::kRuns; ++run) {
      DotSum sum = zero_dot_sum();
      for (uint32_t i = 0; i < Format::kRun / 4; ++i) {
        alignas(64) int32_t words[16] = {};
        memcpy(words, codes[run * Format::kRun / 4 + i], sizeof codes[0]);
        sum = dot4(sum, offset, load_bytes(words));
      }
      alignas(64) int32_t negative[16];
      store_i32(negative, sub(splat_i32(0), end_dot_sum(splat_i32(0), sum)));
      memcpy(starts[run], negative, sizeof starts[run]);
    }
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
