// The kernels in AVX2, FMA and F16C.
#define BONSAI_TIER avx2
#include "plugins/cpu/simd/avx2/dot_maddubs.h"
//
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

const KernelTable &avx2_kernels() {
  static constexpr KernelTable kTable = avx2::make_table("avx2");
  return kTable;
}

}  // namespace bonsai::cpu
