// The kernels in AVX-512 F, BW, DQ, VL and VNNI.
#define BONSAI_TIER avx512
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

const KernelTable &avx512_kernels() {
  static constexpr KernelTable kTable = avx512::make_table("avx512");
  return kTable;
}

}  // namespace bonsai::cpu
