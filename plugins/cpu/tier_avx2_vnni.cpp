// The kernels in AVX2, FMA and F16C, with AVX-VNNI for sums of products of bytes.
#define BONSAI_TIER avx2_vnni
#include "plugins/cpu/simd/avx2/dot_vnni.h"
//
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

const KernelTable &avx2_vnni_kernels() {
  static constexpr KernelTable kTable = avx2_vnni::make_table("avx2-vnni");
  return kTable;
}

}  // namespace bonsai::cpu
