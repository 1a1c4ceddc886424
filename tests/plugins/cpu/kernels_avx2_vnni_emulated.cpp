#include "tests/plugins/cpu/kernels_avx2_vnni_emulated.h"

#include <immintrin.h>
#include <simde/x86/avx512/dpbusd.h>

// The instruction has one meaning in AVX-VNNI and in AVX-512 VNNI, which SIMDe has.
#undef _mm256_dpbusd_avx_epi32
#define _mm256_dpbusd_avx_epi32(sum, a, b) simde_mm256_dpbusd_epi32(sum, a, b)
//
#define BONSAI_TIER avx2_vnni_emulated
#include "plugins/cpu/simd/avx2/dot_vnni.h"
//
#include "plugins/cpu/simd/avx2/bytes.h"
//
#include "plugins/cpu/simd/narrow_factors.h"
//
#include "plugins/cpu/kernels/code_panel_table.inl.h"
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

namespace {

// Few rows and vectors abreast, too, so that small models try it.
const KernelTable &without_panels() {
  static constexpr KernelTable kTable = [] {
    KernelTable table = avx2_vnni_emulated::make_table("avx2-vnni (emulated)");
    table.abreast.fewest_rows = 16;
    table.abreast.fewest_vectors = 20;
    return table;
  }();
  return kTable;
}

// And any number of vectors in panels.
constexpr uint32_t fewest(quant::Format) { return 1; }

}  // namespace

const KernelTable &avx2_vnni_emulated_kernels() {
  static constexpr ManyVectors kPanels =
      avx2_vnni_emulated::many_vectors<avx2_vnni_emulated::CodePanelKernels, without_panels, fewest>(
          "avx2-vnni (emulated)");
  static const KernelTable kTable = with_many_vectors(without_panels(), kPanels);
  return kTable;
}

}  // namespace bonsai::cpu
