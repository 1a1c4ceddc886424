#include "tests/plugins/cpu/kernels_avx512_amx_emulated.h"

#include "tests/plugins/cpu/kernels_avx512_emulated.h"
#include "tests/plugins/cpu/kernels_avx512_on_simde.h"
//
#define BONSAI_TIER avx512_amx_emulated
#include "plugins/cpu/simd/avx512/vector.h"
//
#include "plugins/cpu/simd/avx512/bytes.h"
#include "tests/plugins/cpu/tiles_emulated.h"
//
#include "plugins/cpu/kernels/tile_table.inl.h"

namespace bonsai::cpu {

// Any number of vectors in tiles, so that every test tries them.
static constexpr uint32_t fewest(quant::Format) { return 1; }

const KernelTable &avx512_amx_emulated_kernels() {
  static constexpr ManyVectors kTiles =
      avx512_amx_emulated::many_vectors<avx512_amx_emulated::TileKernels, avx512_emulated_kernels, fewest>(
          "avx512-amx (emulated)");
  static const KernelTable kTable = with_many_vectors(avx512_emulated_kernels(), kTiles);
  return kTable;
}

}  // namespace bonsai::cpu
