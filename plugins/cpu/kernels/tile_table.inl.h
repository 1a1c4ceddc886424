// The table of a tier that is another one but for products of many vectors, which go through tile registers. The last
// include of such a tier's translation unit.
#pragma once

#include "plugins/cpu/kernels/tile_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Vectors that are worth unpacking weights for (docs/cpu-kernels.md, "Tile registers").
constexpr uint32_t kFewestTileTokens = 9;

// Half of the smallest second-level cache that such a processor has.
constexpr uint64_t kVectorBytes = 1024 * 1024;

// Whether it was done: other formats, fewer vectors and looked-up sums are the other tier's.
inline bool multiply_in_tiles(const MatmulArgs &args) {
  using quant::Format;
  if (args.tables) return false;
  if (args.matrix->packing == Packing::kTrits) {
    const bool is_256 = quant::traits(args.matrix->format).block_weights == kTrits256Layout.columns();
    is_256 ? multiply_by_tiles<kTrits256Layout>(args) : multiply_by_tiles<kTritsG128Layout>(args);
    return true;
  }
  if (args.n < kFewestTileTokens) return false;
  switch (args.matrix->format) {
    case Format::kQ8_0:
      return multiply_by_tiles<kQ8_0Layout>(args), true;
    case Format::kQ4_0:
      return multiply_by_tiles<kQ4_0Layout>(args), true;
    case Format::kQ4_1:
      return multiply_by_tiles<kQ4_1Layout>(args), true;
    case Format::kQ5_0:
      return multiply_by_tiles<kQ5_0Layout>(args), true;
    case Format::kQ5_1:
      return multiply_by_tiles<kQ5_1Layout>(args), true;
    case Format::kQ1_0_G128:
      return multiply_by_tiles<kQ1_0G128Layout>(args), true;
    case Format::kTQ2_0_G128:
    case Format::kTQ1_0_G128:
      return multiply_by_tiles<kTernaryG128Layout>(args), true;
    case Format::kQ2_0_G64:
      return multiply_by_tiles<kQ2_0G64Layout>(args), true;
    case Format::kTQ2_0:
    case Format::kTQ1_0:
      return multiply_by_tiles<kTernary256Layout>(args), true;
    default:
      return false;
  }
}

template <const KernelTable &kOther()>
KernelTable with_tiles(const char *name) {
  KernelTable table = kOther();
  table.name = name;
  table.most_looked_up = kFewestTileTokens - 1;
  table.vector_bytes = kVectorBytes;
  table.matmul = [](const MatmulArgs &args) {
    if (!multiply_in_tiles(args)) kOther().matmul(args);
  };
  return table;
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
