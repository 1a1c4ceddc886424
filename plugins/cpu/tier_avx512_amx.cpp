// The avx512 tier with products of many vectors in AMX's tile registers.
#define BONSAI_TIER avx512_amx
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/amx/bytes.h"
#include "plugins/cpu/simd/amx/tiles.h"
//
#include "plugins/cpu/kernels/tile_matmul.inl.h"
#include "plugins/cpu/kernels/tile_table.inl.h"

namespace bonsai::cpu {

const KernelTable &avx512_amx_kernels() {
  static const KernelTable kTable = avx512_amx::with_tiles<avx512_kernels>("avx512-amx");
  return kTable;
}

}  // namespace bonsai::cpu
