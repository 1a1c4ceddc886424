// Panels of quantised vectors (panels.h) as panel_matmul.inl.h reads them. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/codes_dot.inl.h"
#include "plugins/cpu/kernels/panel_sizes.h"
#include "plugins/cpu/kernels/panels.h"
#include "plugins/cpu/kernels/quantized_row.inl.h"
#include "plugins/cpu/kernels/transpose.inl.h"
#include "plugins/cpu/kernels/unpacked_weights.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

constexpr uint32_t kPanelStep = 4;  // panels have a multiple of so many vectors

// Columns of a pair of tiles that are unpacked at a time: they, and those of a panel, fill half of the first-level
// cache.
constexpr uint32_t kPieceColumns = 512;

// Panels that are multiplied with in one go.
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
//
// Codes of sub-blocks with minima lie around kCentre, not around zero: less that much, twice as many columns have room.
// What was taken away, kCentre times sums of activations, is added to the block's integer in the end. With half of the
// registers, there would be too few runs of more than 16 columns side by side. Where sums are multiplied in 32 bits
// (kWide), none of this is needed, and a run is a sub-block.
template <CodeLayout kLayout>
struct PanelFormat {
  static constexpr uint32_t kColumns = kLayout.columns();
  static constexpr uint32_t kGroups = kLayout.activations.groups();
  static constexpr bool kOneGroup = kGroups == 1;
  static constexpr bool kSubBlocks = kLayout.sub_blocks > 0;
  static constexpr bool kMinima = kLayout.minimum != Minimum::kNone;
  static constexpr uint32_t kFactorColumns = kSubBlocks ? kColumns / kLayout.sub_blocks : kActivationGroup;
  static constexpr int kOffset = kOffsetOfUnsigned<kLayout>;
  static_assert(!kMinima || kOffset == 0);
  static constexpr int kMostByte =
      kLayout.uneven ? UINT8_MAX : ((1 << (kLayout.bits + kLayout.high_bits)) - 1) << kLayout.multiplier_shift;
  static constexpr bool fits(int most, uint32_t columns) { return most * 127 * static_cast<int>(columns) < 1 << 15; }
  static constexpr uint32_t kMostRun = kLaneParts == 1 ? kFactorColumns : std::min(16u, kFactorColumns);
  static constexpr bool kWide = kSubBlocks && kWideFactors;  // sums of runs are not held to 16 bits
  static constexpr bool kWholeGroups = kSubBlocks && kFactorColumns == kActivationGroup;
  static constexpr bool kCentred = !kWide && kWholeGroups && kMinima && !fits(kMostByte, kMostRun);
  static constexpr int kCentre = kCentred ? (kMostByte + 1) / 2 : 0;
  static constexpr int kTaken = kOffset + kCentre;                             // from codes
  static constexpr int kMost = kSubBlocks && kTaken > 0 ? kTaken : kMostByte;  // of what runs sum up, around zero
  static constexpr uint32_t kRun = !kSubBlocks || kWide    ? kFactorColumns
                                   : fits(kMost, kMostRun) ? kMostRun
                                                           : kMostRun / 2;
  static constexpr uint32_t kRuns = kColumns / kRun;
  static constexpr uint32_t kRunsOfFactor = kFactorColumns / kRun, kFactors = kActivationGroup / kFactorColumns;
  static_assert(kOneGroup || kWide || fits(kMost, kRun));

  // Sums of sub-blocks' activations, of blocks that take them, in pairs. Those of 32 columns take 17 bits: they are
  // halved, and what that leaves, 0 or 1, lies beside them, of four sub-blocks in a word.
  static constexpr bool kHalved = kWholeGroups && kMinima;
  static constexpr uint32_t kSumPairs = kSubBlocks && kMinima ? kColumns / kFactorColumns / 2 : 0;
  static constexpr uint32_t kRestWords = kHalved ? kSumPairs / 2 : 0;
  static_assert(kHalved || kSumPairs == 0 || kFactorColumns == kLayout.activations.sum_columns);

  // Where the offset is taken from: the sums of runs where these have no room for it, otherwise those of blocks.
  static constexpr bool kRunsStart = kSubBlocks && kTaken > 0;
  static constexpr bool kBlocksStart = !kSubBlocks && !kMinima;
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
  int32_t sums[Format::kSumPairs][T];                                  // pairs of them
  int32_t rests[Format::kRestWords][T];                                // to be taken away
  int32_t centre_rests[Format::kCentred ? Format::kRestWords : 0][T];  // times kCentre

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
        if constexpr (Format::kHalved) {
          halve_sums(row.sums, t);
        } else {
          for (uint32_t i = 0; i < Format::kSumPairs; ++i) memcpy(&sums[i][t], row.sums + 2 * i, 4);
        }
        if constexpr (Format::kBlocksStart) starts[0][t] = -Format::kOffset * *row.wide_sums;
      }
    }
    gather(of_vectors);
    if constexpr (Format::kRunsStart) start_runs();
  }

 private:
  void halve_sums(const int16_t *of_16, uint32_t t) {
    for (uint32_t word = 0; word < Format::kRestWords; ++word, of_16 += 8) {
      int16_t halves[4];
      int8_t taken[4], added[4];
      for (uint32_t i = 0; i < 4; ++i) {
        const int sum = of_16[2 * i] + of_16[2 * i + 1], rest = sum & 1;
        const uint32_t at = i % 2 * 2 + i / 2;  // as join_bytes has them
        halves[i] = static_cast<int16_t>(sum >> 1);
        taken[at] = static_cast<int8_t>(-rest);
        added[at] = static_cast<int8_t>(Format::kCentre * rest);
      }
      memcpy(&sums[2 * word][t], halves, 4);
      memcpy(&sums[2 * word + 1][t], halves + 2, 4);
      memcpy(&rests[word][t], taken, 4);
      if constexpr (Format::kCentred) memcpy(&centre_rests[word][t], added, 4);
    }
  }

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
    const Bytes64 offset = splat_byte(Format::kTaken);
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

// Where a panel's blocks of some vectors lie.
template <CodeLayout kLayout>
class PanelPlaces {
 public:
  explicit PanelPlaces(uint64_t columns)
      : panel_bytes_(panel_bytes(columns / kLayout.columns(), sizeof(PanelBlock<kLayout, kPanelVectors>))) {}

  template <uint32_t T>
  PanelBlock<kLayout, T> *blocks(std::byte *panels, uint64_t panel) const {
    return reinterpret_cast<PanelBlock<kLayout, T> *>(panels + panel * panel_bytes_);
  }
  template <uint32_t T>
  const PanelBlock<kLayout, T> *blocks(const std::byte *panels, uint64_t panel) const {
    return reinterpret_cast<const PanelBlock<kLayout, T> *>(panels + panel * panel_bytes_);
  }

 private:
  uint64_t panel_bytes_;
};

// See FillPanelsArgs.
template <CodeLayout kLayout>
void fill_panels(const FillPanelsArgs &args) {
  constexpr uint64_t kStepBlocks = kPassColumns / kLayout.columns();
  const PanelDivision panels(args.n);
  const PanelPlaces<kLayout> places(args.columns);
  const size_t row_bytes = quantized_row_bytes(kLayout.activations, args.columns);
  const uint64_t steps = steps_of_panel(args.columns), all = args.columns / kLayout.columns();
  for (uint64_t step = args.begin; step < args.end; ++step) {
    const auto panel = static_cast<uint32_t>(step / steps);
    const std::byte *first = args.quantized_rows + panels.first(panel) * row_bytes;
    const auto row = [&](uint32_t t) {
      return ConstQuantizedRow(first + t * row_bytes, args.columns, kLayout.activations);
    };
    const uint64_t begin = step % steps * kStepBlocks, end = std::min(all, begin + kStepBlocks);
    panels.with_width(panel, [&]<uint32_t T>(std::integral_constant<uint32_t, T>) {
      PanelBlock<kLayout, T> *blocks = places.template blocks<T>(args.panels, panel);
      for (uint64_t block = begin; block < end; ++block) blocks[block].fill(row, block, panels.vectors(panel));
    });
  }
}

template <CodeLayout kLayout>
constexpr PanelKind kPanelKind = {.vectors = kPanelVectors,
                                  .block_columns = kLayout.columns(),
                                  .block_bytes = sizeof(PanelBlock<kLayout, kPanelVectors>),
                                  .fill = fill_panels<kLayout>};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
