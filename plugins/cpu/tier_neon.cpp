// The kernels in AArch64's Advanced SIMD with dot products.
#define BONSAI_TIER neon
#include "plugins/cpu/simd/neon/vector.h"
//
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

const KernelTable &neon_kernels() {
  static constexpr KernelTable kTable = neon::make_table("neon");
  return kTable;
}

}  // namespace bonsai::cpu
