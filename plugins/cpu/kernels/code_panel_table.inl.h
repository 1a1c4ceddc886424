// What a tier with half of the registers has of its own for many vectors (many_vectors.h).
#pragma once

#include "plugins/cpu/kernels/panel_products.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

struct CodePanelKernels : PanelProducts {
  // Others gain nothing, or are multiplied abreast.
  static constexpr bool takes(CodeLayout layout) {
    return can_be_panels(layout) && (layout.sub_blocks > 0 || layout.bits == 4);
  }

  // How many vectors are worth unpacking a format's weights for (docs/cpu-prompts.md, "Panels").
  static constexpr uint32_t fewest_vectors(quant::Format format) {
    using quant::Format;
    switch (format) {
      case Format::kQ3_K:
        return 9;
      case Format::kQ2_K:
      case Format::kQ5_K:
      case Format::kQ6_K:
        return 13;
      case Format::kQ4_0:
      case Format::kQ4_1:
      case Format::kQ4_K:
        return 65;
      default:
        return 17;
    }
  }

  static bool multiply_floats(const MatmulArgs &) { return false; }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
