// Which of a tier's own kernels for many vectors multiplies a matrix (many_vectors.h). Part of a tier: see
// simd/portable/vector.h.
#pragma once

#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/many_vectors.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

// body<layout>() of the matrix's layout; false: its format has none.
template <class Body>
bool with_layout(const PackedMatrix &matrix, const Body &body) {
  using quant::Format;
  if (matrix.packing == Packing::kTrits) {
    const bool is_256 = quant::traits(matrix.format).block_weights == kTrits256Layout.columns();
    return is_256 ? body.template operator()<kTrits256Layout>() : body.template operator()<kTritsG128Layout>();
  }
  switch (matrix.format) {
    case Format::kQ8_0:
      return body.template operator()<kQ8_0Layout>();
    case Format::kQ4_0:
      return body.template operator()<kQ4_0Layout>();
    case Format::kQ4_1:
      return body.template operator()<kQ4_1Layout>();
    case Format::kQ5_0:
      return body.template operator()<kQ5_0Layout>();
    case Format::kQ5_1:
      return body.template operator()<kQ5_1Layout>();
    case Format::kQ1_0_G128:
      return body.template operator()<kQ1_0G128Layout>();
    case Format::kTQ2_0_G128:
    case Format::kTQ1_0_G128:
      return body.template operator()<kTernaryG128Layout>();
    case Format::kQ2_0_G64:
      return body.template operator()<kQ2_0G64Layout>();
    case Format::kTQ2_0:
    case Format::kTQ1_0:
      return body.template operator()<kTernary256Layout>();
    case Format::kQ2_K:
      return body.template operator()<kQ2_KLayout>();
    case Format::kQ3_K:
      return body.template operator()<kQ3_KLayout>();
    case Format::kQ4_K:
      return body.template operator()<kQ4_KLayout>();
    case Format::kQ5_K:
      return body.template operator()<kQ5_KLayout>();
    case Format::kQ6_K:
      return body.template operator()<kQ6_KLayout>();
    case Format::kIQ4_NL:
      return body.template operator()<kIQ4_NLLayout>();
    case Format::kIQ4_XS:
      return body.template operator()<kIQ4_XSLayout>();
    default:
      return false;
  }
}

// Kernels::multiply<layout>(args) of the matrix's layout, or what they do with formats that have none. False: what
// these do not take, and looked-up sums, are the other tier's.
template <class Kernels>
bool multiply_here(const MatmulArgs &args) {
  if (args.tables) return false;
  const auto multiply = [&args]<CodeLayout kLayout>() {
    if constexpr (Kernels::takes(kLayout)) return Kernels::template multiply<kLayout>(args);
    return false;
  };
  return with_layout(*args.matrix, multiply) || Kernels::multiply_floats(args);
}

// With fewer vectors of a format than fewest() says, the other tier multiplies matrices that are packed as usual; those
// that are not, unless they come with tables, only these kernels may be able to.
template <uint32_t fewest(quant::Format)>
bool is_few(const PackedMatrix &matrix, uint32_t n) {
  return matrix.packing == Packing::kUsual && n < fewest(matrix.format);
}

template <class Kernels, const KernelTable &kOther(), uint32_t fewest(quant::Format)>
void multiply_many(const MatmulArgs &args) {
  if (is_few<fewest>(*args.matrix, args.n) || !multiply_here<Kernels>(args)) kOther().matmul(args);
}

// See PanelKernel.
template <class Kernels, uint32_t fewest(quant::Format)>
const PanelKind *panel_kind_of(const PackedMatrix &matrix, uint32_t n) {
  const PanelKind *kind = nullptr;
  if (n < fewest(matrix.format)) return kind;
  const bool has_layout = with_layout(matrix, [&kind]<CodeLayout kLayout>() {
    if constexpr (Kernels::takes(kLayout)) kind = Kernels::template panel_kind<kLayout>();
    return true;
  });
  return has_layout ? kind : Kernels::float_panel_kind(matrix.format);
}

template <class Kernels, uint32_t fewest(quant::Format)>
constexpr PanelKernel panel_kernel() {
  if constexpr (Kernels::kMostPanelBytes == 0)
    return {};
  else
    return {.kind_of = panel_kind_of<Kernels, fewest>,
            .most_bytes = Kernels::kMostPanelBytes,
            .of_floats = Kernels::float_panel_kind(quant::Format::kF32),
            .of_f8 = Kernels::float_panel_kind(quant::Format::kF8_E4M3)};
}

template <class Kernels, const KernelTable &kOther(), uint32_t fewest(quant::Format) = Kernels::fewest_vectors>
constexpr ManyVectors many_vectors(const char *name) {
  return {.name = name,
          .most_with_signs = Kernels::takes(kQ1_0G128Layout) ? fewest(quant::Format::kQ1_0_G128) - 1 : UINT32_MAX,
          .most_with_trits = Kernels::takes(kTritsG128Layout) ? fewest(quant::Format::kTQ2_0_G128) - 1 : UINT32_MAX,
          .takes_codes = Kernels::takes(kQ2_0G64Layout),
          .panels = panel_kernel<Kernels, fewest>(),
          .scratch_bytes = Kernels::kScratchBytes,
          .vector_bytes = Kernels::kVectorBytes,
          .matmul = multiply_many<Kernels, kOther, fewest>};
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
