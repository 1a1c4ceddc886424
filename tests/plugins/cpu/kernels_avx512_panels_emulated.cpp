#include "tests/plugins/cpu/kernels_avx512_panels_emulated.h"

#include "tests/plugins/cpu/kernels_avx512_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_on_simde.h"
//
#define BONSAI_TIER avx512_panels_emulated
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/avx512/bytes.h"
//
#include "plugins/cpu/simd/narrow_factors.h"
//
#include "plugins/cpu/kernels/panel_table.inl.h"

namespace bonsai::cpu {

// Any number of vectors in panels, so that every test tries them.
static constexpr uint32_t fewest(quant::Format) { return 1; }

const KernelTable &avx512_panels_emulated_kernels() {
  static constexpr ManyVectors kPanels =
      avx512_panels_emulated::many_vectors<avx512_panels_emulated::PanelKernels, avx512_emulated_kernels, fewest>(
          "avx512-panels (emulated)");
  static const KernelTable kTable = with_many_vectors(avx512_emulated_kernels(), kPanels);
  return kTable;
}

}  // namespace bonsai::cpu
