// What a tier with tile registers has of its own (tile_tier.h). The last include of its translation unit.
#pragma once

#include <algorithm>

#include "plugins/cpu/kernels/tile_matmul.inl.h"
#include "plugins/cpu/kernels/tile_super_blocks.inl.h"
#include "plugins/cpu/kernels/tile_tier.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// How many vectors are worth unpacking a format's weights for (docs/cpu-kernels.md, "Tile registers").
constexpr uint32_t kFewestInstead = 9;  // of looking sums up
constexpr uint32_t fewest_vectors(quant::Format format) {
  using quant::Format;
  switch (format) {
    case Format::kQ3_K:
    case Format::kQ6_K:
      return 12;
    case Format::kQ2_K:
    case Format::kQ5_K:
      return 16;
    case Format::kQ4_1:
    case Format::kQ5_1:
    case Format::kQ8_0:
      return 21;
    case Format::kQ4_K:
      return 26;
    default:
      return kFewestInstead;
  }
}

// Half of the smallest second-level cache that such a processor has.
constexpr uint64_t kVectorBytes = 1024 * 1024;

// As many vectors at a time as a Product takes.
template <class Product>
void multiply_in_parts(const MatmulArgs &args) {
  for (uint32_t first = 0; first < args.n; first += kMostTokens) {
    const TileWork work(args, Product::kCodes, first, std::min(kMostTokens, args.n - first));
    Product(work).multiply();
  }
}

template <CodeLayout kLayout>
void multiply_by_tiles(const MatmulArgs &args) {
  multiply_in_parts<TileProduct<kLayout>>(args);
}

template <CodeLayout kLayout>
void multiply_super_blocks(const MatmulArgs &args) {
  multiply_in_parts<SuperBlockProduct<kLayout>>(args);
}

// Whether it was done: other formats and looked-up sums are the other tier's.
inline bool multiply_in_tiles(const MatmulArgs &args) {
  using quant::Format;
  if (args.tables) return false;
  if (args.matrix->packing == Packing::kTrits) {
    const bool is_256 = quant::traits(args.matrix->format).block_weights == kTrits256Layout.columns();
    is_256 ? multiply_by_tiles<kTrits256Layout>(args) : multiply_by_tiles<kTritsG128Layout>(args);
    return true;
  }
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
    case Format::kQ2_K:
      return multiply_super_blocks<kQ2_KLayout>(args), true;
    case Format::kQ3_K:
      return multiply_super_blocks<kQ3_KLayout>(args), true;
    case Format::kQ4_K:
      return multiply_super_blocks<kQ4_KLayout>(args), true;
    case Format::kQ5_K:
      return multiply_super_blocks<kQ5_KLayout>(args), true;
    case Format::kQ6_K:
      return multiply_super_blocks<kQ6_KLayout>(args), true;
    default:
      return false;
  }
}

// With fewer vectors of a format than fewest() says, the other tier multiplies those that are packed as usual.
template <const KernelTable &kOther(), uint32_t fewest(quant::Format)>
void multiply_many_in_tiles(const MatmulArgs &args) {
  const bool is_few = args.matrix->packing == Packing::kUsual && args.n < fewest(args.matrix->format);
  if (is_few || !multiply_in_tiles(args)) kOther().matmul(args);
}

template <const KernelTable &kOther(), uint32_t fewest(quant::Format) = fewest_vectors>
constexpr TileKernels make_tiles(const char *name) {
  return {.name = name,
          .most_looked_up = fewest(quant::Format::kQ1_0_G128) - 1,
          .vector_bytes = kVectorBytes,
          .matmul = multiply_many_in_tiles<kOther, fewest>};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
