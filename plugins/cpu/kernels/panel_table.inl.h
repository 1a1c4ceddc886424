// What a tier with panels has of its own (many_vectors.h). The last include of its translation unit.
#pragma once

#include "plugins/cpu/kernels/float_matmul.inl.h"
#include "plugins/cpu/kernels/many_vectors.inl.h"
#include "plugins/cpu/kernels/panel_f8.inl.h"
#include "plugins/cpu/kernels/panel_products.inl.h"
#include "plugins/cpu/kernels/unpacked_trits.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// More vectors for each row, as its conversion takes the units that multiply.
template <class Weights>
struct ForManyVectors : Weights {
  static constexpr int kRows = 2, kTokens = kFloatPanelVectors;
  static constexpr uint64_t kPiece = 4096;
  static constexpr uint64_t kFewestRows = 64;
  static constexpr bool kAsksForNextRows = true, kFromPanels = true;
};

struct PanelKernels : PanelProducts {
  // Sums of signs are looked up.
  static constexpr bool takes(CodeLayout layout) { return can_be_panels(layout) && layout.bits > 1; }

  // How many vectors are worth unpacking a format's weights for (docs/cpu-prompts.md, "Panels").
  static constexpr uint32_t fewest_vectors(quant::Format format) {
    using quant::Format;
    switch (format) {
      case Format::kF32:
      case Format::kF16:
      case Format::kBF16:
      case Format::kQ2_K:
      case Format::kQ3_K:
        return 8;
      case Format::kQ4_K:
      case Format::kQ5_K:
      case Format::kQ6_K:
      case Format::kTQ1_0:
      case Format::kTQ2_0:
      case Format::kTQ1_0_G128:
      case Format::kTQ2_0_G128:
        return 9;
      default:
        return 17;
    }
  }

  static constexpr const PanelKind *float_panel_kind(quant::Format format) {
    using quant::Format;
    switch (format) {
      case Format::kF32:
      case Format::kF16:
      case Format::kBF16:
        return &kFloatPanelKind;
      case Format::kF8_E4M3:
      case Format::kF8_E5M2:
        return &kF8PanelKind;
      default:
        return nullptr;
    }
  }

  static bool multiply_floats(const MatmulArgs &args) {
    switch (args.matrix->format) {
      case quant::Format::kF32:
        return multiply_from_panels<F32Weights>(args);
      case quant::Format::kF16:
        return multiply_from_panels<F16Weights>(args);
      case quant::Format::kBF16:
        return multiply_from_panels<BF16Weights>(args);
      case quant::Format::kF8_E4M3:
        return multiply_f8<3>(args);
      case quant::Format::kF8_E5M2:
        return multiply_f8<2>(args);
      default:
        return false;
    }
  }

 private:
  template <class Weights>
  static bool multiply_from_panels(const MatmulArgs &args) {
    if (!args.panels) return false;
    cpu::BONSAI_TIER::multiply_floats<ForManyVectors<Weights>>(args);
    return true;
  }

  template <int kMantissaBits>
  static bool multiply_f8(const MatmulArgs &args) {
    using Product = F8PanelProduct<kMantissaBits>;
    if (!args.scratch || !args.panels || !Product::takes(args)) return false;
    multiply_all<Product, kScratchBytes>(args);
    return true;
  }
};

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
