// The avx512 tier with products of many vectors from panels.
#define BONSAI_TIER avx512_panels
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/avx512/bytes.h"
//
#include "plugins/cpu/simd/narrow_factors.h"
//
#include "plugins/cpu/kernels/panel_table.inl.h"

namespace bonsai::cpu {

const ManyVectors &avx512_panels_many_vectors() {
  static constexpr ManyVectors kPanels =
      avx512_panels::many_vectors<avx512_panels::PanelKernels, avx512_kernels>("avx512-panels");
  return kPanels;
}

}  // namespace bonsai::cpu
