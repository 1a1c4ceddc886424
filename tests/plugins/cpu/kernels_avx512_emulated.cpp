#include "tests/plugins/cpu/kernels_avx512_emulated.h"

#include "tests/plugins/cpu/kernels_avx512_on_simde.h"
//
#define BONSAI_TIER avx512_emulated
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/kernels/table.inl.h"

namespace bonsai::cpu {

// Few rows and vectors abreast, too, so that small models try it.
const KernelTable &avx512_emulated_kernels() {
  static constexpr KernelTable kTable = [] {
    KernelTable table = avx512_emulated::make_table("avx512 (emulated)");
    table.abreast.fewest_rows = 16;
    table.abreast.fewest_vectors = 20;
    return table;
  }();
  return kTable;
}

}  // namespace bonsai::cpu
