#include "tests/plugins/cpu/kernels_avx512_panels32_emulated.h"

#include "tests/plugins/cpu/kernels_avx512_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_on_simde.h"
//
#define BONSAI_TIER avx512_panels32_emulated
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/avx512/bytes.h"
//
#include "plugins/cpu/simd/avx512/wide_factors.h"
//
#include "plugins/cpu/simd/avx512/abreast_lookup_in_turn.h"
//
#include "plugins/cpu/kernels/abreast_matmul.inl.h"
#include "plugins/cpu/kernels/panel_table.inl.h"

namespace bonsai::cpu {

// Any number of vectors in panels, so that every test tries them, and few rows and vectors abreast.
static constexpr uint32_t fewest(quant::Format) { return 1; }

const KernelTable &avx512_panels32_emulated_kernels() {
  static constexpr ManyVectors kPanels = [] {
    ManyVectors many =
        avx512_panels32_emulated::many_vectors<avx512_panels32_emulated::PanelKernels, avx512_emulated_kernels, fewest>(
            "avx512-panels32 (emulated)");
    many.abreast = avx512_panels32_emulated::abreast_kernel<avx512_panels32_emulated::AbreastLookupInTurn>();
    many.abreast.fewest_vectors = 20;
    many.abreast.fewest_rows = 16;
    return many;
  }();
  static const KernelTable kTable = with_many_vectors(avx512_emulated_kernels(), kPanels);
  return kTable;
}

}  // namespace bonsai::cpu
