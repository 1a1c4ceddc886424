// What a tier with tile registers has of its own (many_vectors.h). The last include of its translation unit.
#pragma once

#include <algorithm>
#include <type_traits>

#include "plugins/cpu/kernels/many_vectors.inl.h"
#include "plugins/cpu/kernels/tile_matmul.inl.h"
#include "plugins/cpu/kernels/tile_super_blocks.inl.h"
#include "plugins/cpu/kernels/unpacked_trits.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

struct TileKernels {
  static constexpr bool takes(CodeLayout) { return true; }

  // How many vectors are worth unpacking a format's weights for (docs/cpu-prompts.md, "Tile registers"); by default,
  // instead of looking sums up.
  static constexpr uint32_t fewest_vectors(quant::Format format) {
    using quant::Format;
    switch (format) {
      case Format::kQ3_K:
      case Format::kQ6_K:
        return 12;
      case Format::kQ2_K:
      case Format::kQ5_K:
        return 16;
      case Format::kQ4_1:
      case Format::kQ5_1:
      case Format::kQ8_0:
        return 21;
      case Format::kQ4_K:
      case Format::kIQ4_XS:
        return 26;
      default:
        return 9;
    }
  }

  static bool multiply_floats(const MatmulArgs &) { return false; }

  // Half of the smallest second-level cache that such a processor has.
  static constexpr uint64_t kVectorBytes = 1024 * 1024;
  static constexpr size_t kScratchBytes = 0;      // all is on the stack
  static constexpr uint64_t kMostPanelBytes = 0;  // it multiplies with rows

  // As many vectors at a time as a Product takes.
  template <CodeLayout kLayout>
  static bool multiply(const MatmulArgs &args) {
    using Product = std::conditional_t<(kLayout.sub_blocks > 0), SuperBlockProduct<kLayout>, TileProduct<kLayout>>;
    for (uint32_t first = 0; first < args.n; first += kMostTokens) {
      const TileWork work(args, kLayout, first, std::min(kMostTokens, args.n - first));
      Product(work).multiply();
    }
    return true;
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
