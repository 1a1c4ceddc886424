// The avx512 tier with products of many vectors in AMX's tile registers.
#define BONSAI_TIER avx512_amx
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/amx/tiles.h"
#include "plugins/cpu/simd/avx512/bytes.h"
//
#include "plugins/cpu/kernels/tile_table.inl.h"

namespace bonsai::cpu {

const ManyVectors &avx512_amx_many_vectors() {
  static constexpr ManyVectors kTiles = avx512_amx::many_vectors<avx512_amx::TileKernels, avx512_kernels>("avx512-amx");
  return kTiles;
}

}  // namespace bonsai::cpu
