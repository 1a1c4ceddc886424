#include "tests/plugins/cpu/kernels_avx512_amx_emulated.h"

#include "tests/plugins/cpu/kernels_avx512_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_on_simde.h"
//
#define BONSAI_TIER avx512_amx_emulated
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/amx/bytes.h"
#include "tests/plugins/cpu/tiles_emulated.h"
//
#include "plugins/cpu/kernels/tile_table.inl.h"

namespace bonsai::cpu {

// Any number of vectors in tiles, so that every test tries them.
static constexpr uint32_t fewest(quant::Format) { return 1; }

const KernelTable &avx512_amx_emulated_kernels() {
  static constexpr TileKernels kTiles =
      avx512_amx_emulated::make_tiles<avx512_emulated_kernels, fewest>("avx512-amx (emulated)");
  static const KernelTable kTable = with_tiles(avx512_emulated_kernels(), kTiles);
  return kTable;
}

}  // namespace bonsai::cpu
