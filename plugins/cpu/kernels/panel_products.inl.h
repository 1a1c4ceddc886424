// What tiers with panels have in common of many_vectors.inl.h's Kernels. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <new>
#include <type_traits>

#include "plugins/cpu/kernels/many_vectors.inl.h"
#include "plugins/cpu/kernels/panel_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Sums of sub-blocks whose codes stand for 8 bits do not fit 16.
constexpr bool can_be_panels(CodeLayout layout) { return kWideFactors || !layout.uneven || layout.sub_blocks == 0; }

struct PanelProducts {
  static constexpr uint64_t kVectorBytes = 256 * 1024;  // of what is multiplied without panels
  static constexpr size_t kScratchBytes = 128 * 1024;

  template <CodeLayout kLayout>
  static bool multiply(const MatmulArgs &args) {
    if (!args.scratch || !args.panels) return false;
    multiply_all<PanelProduct<kLayout>, kScratchBytes>(args);
    return true;
  }

  template <CodeLayout kLayout>
  static constexpr uint64_t kBytesOf256Columns = 256 / kLayout.columns() * sizeof(PanelBlock<kLayout, kPanelVectors>);
  // Super-blocks with the shortest runs, each of which has an integer that its sum begins with, take the most.
  static constexpr uint64_t kMostPanelBytes = kBytesOf256Columns<kQ6_KLayout>;

  template <CodeLayout kLayout>
  static const PanelKind *panel_kind() {
    static_assert(kBytesOf256Columns<kLayout> <= kMostPanelBytes);
    return &kPanelKind<kLayout>;
  }

  // Of vectors that stay floats: none.
  static constexpr const PanelKind *float_panel_kind(quant::Format) { return nullptr; }

  // As many vectors at a time as a Product takes.
  template <class Product, size_t kBytes>
  static void multiply_all(const MatmulArgs &args) {
    static_assert(sizeof(Product) <= kBytes && alignof(Product) <= kPackedAlignment);
    static_assert(std::is_trivially_destructible_v<Product>);
    for (uint32_t first = 0; first < args.n; first += kMostInPanels) {
      (new (args.scratch) Product(args, first, std::min(kMostInPanels, args.n - first)))->multiply();
    }
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
