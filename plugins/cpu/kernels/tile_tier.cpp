#include "plugins/cpu/kernels/tile_tier.h"

namespace bonsai::cpu {

KernelTable with_tiles(const KernelTable &other, const TileKernels &tiles) {
  KernelTable table = other;
  table.name = tiles.name;
  table.most_looked_up = tiles.most_looked_up;
  table.vector_bytes = tiles.vector_bytes;
  table.matmul = tiles.matmul;
  table.abreast = {};
  return table;
}

#if defined(__x86_64__)
const KernelTable &avx512_amx_kernels() {
  static const KernelTable kTable = with_tiles(avx512_kernels(), avx512_amx_tiles());
  return kTable;
}
#endif

}  // namespace bonsai::cpu
