// What tiers with panels have in common of many_vectors.inl.h's Kernels. Part of a tier: see simd/portable/vector.h.
#pragma once

#include <algorithm>
#include <new>
#include <type_traits>

#include "plugins/cpu/kernels/many_vectors.inl.h"
#include "plugins/cpu/kernels/panel_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

struct PanelProducts {
  static constexpr uint64_t kVectorBytes = 1024 * 1024;
  static constexpr size_t kScratchBytes = 512 * 1024;

  template <CodeLayout kLayout>
  static void multiply(const MatmulArgs &args) {
    multiply_all<PanelProduct<kLayout>>(args);
  }

  // As many vectors at a time as panels hold.
  template <class Product>
  static void multiply_all(const MatmulArgs &args) {
    static_assert(sizeof(Product) <= kScratchBytes && alignof(Product) <= kPackedAlignment);
    static_assert(std::is_trivially_destructible_v<Product>);
    for (uint32_t first = 0; first < args.n; first += kMostInPanels) {
      (new (args.scratch) Product(args, first, std::min(kMostInPanels, args.n - first)))->multiply();
    }
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
