// Which of a tier's own kernels for many vectors multiplies a matrix (many_vectors.h). Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/many_vectors.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// Kernels::multiply<layout>(args) of the matrix's layout, or what they do with formats that have none. False: what
// these do not take, and looked-up sums, are the other tier's.
template <class Kernels>
bool multiply_here(const MatmulArgs &args) {
  using quant::Format;
  const auto multiply = [&args]<CodeLayout kLayout>() {
    if constexpr (Kernels::takes(kLayout)) Kernels::template multiply<kLayout>(args);
    return Kernels::takes(kLayout);
  };
  if (args.tables) return false;
  if (Kernels::kScratchBytes > 0 && !args.scratch) return Kernels::multiply_floats(args);
  if (args.matrix->packing == Packing::kTrits) {
    const bool is_256 = quant::traits(args.matrix->format).block_weights == kTrits256Layout.columns();
    return is_256 ? multiply.template operator()<kTrits256Layout>() : multiply.template operator()<kTritsG128Layout>();
  }
  switch (args.matrix->format) {
    case Format::kQ8_0:
      return multiply.template operator()<kQ8_0Layout>();
    case Format::kQ4_0:
      return multiply.template operator()<kQ4_0Layout>();
    case Format::kQ4_1:
      return multiply.template operator()<kQ4_1Layout>();
    case Format::kQ5_0:
      return multiply.template operator()<kQ5_0Layout>();
    case Format::kQ5_1:
      return multiply.template operator()<kQ5_1Layout>();
    case Format::kQ1_0_G128:
      return multiply.template operator()<kQ1_0G128Layout>();
    case Format::kTQ2_0_G128:
    case Format::kTQ1_0_G128:
      return multiply.template operator()<kTernaryG128Layout>();
    case Format::kQ2_0_G64:
      return multiply.template operator()<kQ2_0G64Layout>();
    case Format::kTQ2_0:
    case Format::kTQ1_0:
      return multiply.template operator()<kTernary256Layout>();
    case Format::kQ2_K:
      return multiply.template operator()<kQ2_KLayout>();
    case Format::kQ3_K:
      return multiply.template operator()<kQ3_KLayout>();
    case Format::kQ4_K:
      return multiply.template operator()<kQ4_KLayout>();
    case Format::kQ5_K:
      return multiply.template operator()<kQ5_KLayout>();
    case Format::kQ6_K:
      return multiply.template operator()<kQ6_KLayout>();
    default:
      return Kernels::multiply_floats(args);
  }
}

// With fewer vectors of a format than fewest() says, the other tier multiplies those that are packed as usual.
template <class Kernels, const KernelTable &kOther(), uint32_t fewest(quant::Format)>
void multiply_many(const MatmulArgs &args) {
  const bool is_few = args.matrix->packing == Packing::kUsual && args.n < fewest(args.matrix->format);
  if (is_few || !multiply_here<Kernels>(args)) kOther().matmul(args);
}

template <class Kernels, const KernelTable &kOther(), uint32_t fewest(quant::Format) = Kernels::fewest_vectors>
constexpr ManyVectors many_vectors(const char *name) {
  return {.name = name,
          .most_with_signs = Kernels::takes(kQ1_0G128Layout) ? fewest(quant::Format::kQ1_0_G128) - 1 : UINT32_MAX,
          .most_with_trits = Kernels::takes(kTritsG128Layout) ? fewest(quant::Format::kTQ2_0_G128) - 1 : UINT32_MAX,
          .takes_codes = Kernels::takes(kQ2_0G64Layout),
          .scratch_bytes = Kernels::kScratchBytes,
          .vector_bytes = Kernels::kVectorBytes,
          .matmul = multiply_many<Kernels, kOther, fewest>};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
