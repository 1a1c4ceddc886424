// The kernels in AVX2, FMA and F16C, with AVX-VNNI for sums of products of bytes, and many vectors in panels.
#define BONSAI_TIER avx2_vnni
#include "plugins/cpu/simd/avx2/dot_vnni.h"
//
#include "plugins/cpu/simd/avx2/bytes.h"
//
#include "plugins/cpu/simd/narrow_factors.h"
//
#include "plugins/cpu/kernels/code_panel_table.inl.h"
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

const KernelTable &avx2_vnni_kernels_without_panels() {
  static constexpr KernelTable kTable = avx2_vnni::make_table("avx2-vnni");
  return kTable;
}

const ManyVectors &avx2_vnni_many_vectors() {
  static constexpr ManyVectors kPanels =
      avx2_vnni::many_vectors<avx2_vnni::CodePanelKernels, avx2_vnni_kernels_without_panels>("avx2-vnni");
  return kPanels;
}

}  // namespace bonsai::cpu
