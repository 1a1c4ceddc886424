// The kernels in plain C++: every machine, and the definition that the others are tested against.
#define BONSAI_TIER portable
#include "plugins/cpu/simd/portable/vector.h"
//
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

const KernelTable &portable_kernels() {
  static constexpr KernelTable kTable = portable::make_table("portable");
  return kTable;
}

}  // namespace bonsai::cpu
