// The avx512 tier with products of many vectors in AMX's tile registers.
#define BONSAI_TIER avx512_amx
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/amx/bytes.h"
#include "plugins/cpu/simd/amx/tiles.h"
//
#include "plugins/cpu/kernels/tile_table.inl.h"

namespace bonsai::cpu {

const TileKernels &avx512_amx_tiles() {
  static constexpr TileKernels kTiles = avx512_amx::make_tiles<avx512_kernels>("avx512-amx");
  return kTiles;
}

}  // namespace bonsai::cpu
