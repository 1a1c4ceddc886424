// All kernels of a tier and the table of them. The last include of a tier's translation unit.
#pragma once

#include "plugins/cpu/kernels/abreast_matmul.inl.h"
#include "plugins/cpu/kernels/attention.inl.h"
#include "plugins/cpu/kernels/attention_tile.inl.h"
#include "plugins/cpu/kernels/bounds_matmul.inl.h"
#include "plugins/cpu/kernels/codes_matmul.inl.h"
#include "plugins/cpu/kernels/f8_matmul.inl.h"
#include "plugins/cpu/kernels/few_rows.inl.h"
#include "plugins/cpu/kernels/float_matmul.inl.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/quantize.inl.h"
#include "plugins/cpu/kernels/row_kernels.inl.h"
#include "plugins/cpu/kernels/trits_matmul.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

void matmul(const MatmulArgs &args) {
  using quant::Format;
  if (args.matrix->packing == Packing::kTrits) {
    if (quant::traits(args.matrix->format).block_weights == kTrits256Layout.columns()) {
      return multiply_trits<kTrits256Layout>(args);
    }
    return multiply_trits<kTritsG128Layout>(args);
  }
  if constexpr (SignLookup::kSignBytes) {
    if (args.matrix->packing == Packing::kSignBytes) return multiply_by_lookup<kSignsLayout, SignLookup>(args);
  }
  switch (args.matrix->format) {
    case Format::kF32:
      return multiply_floats<F32Weights>(args);
    case Format::kF16:
      return multiply_floats<F16Weights>(args);
    case Format::kBF16:
      return multiply_floats<BF16Weights>(args);
    case Format::kF8_E4M3:
      return multiply_f8<3>(args);
    case Format::kF8_E5M2:
      return multiply_f8<2>(args);
    case Format::kQ8_0:
      return multiply_codes<kQ8_0Layout>(args);
    case Format::kQ4_0:
      return multiply_codes<kQ4_0Layout>(args);
    case Format::kQ4_1:
      return multiply_codes<kQ4_1Layout>(args);
    case Format::kQ5_0:
      return multiply_codes<kQ5_0Layout>(args);
    case Format::kQ5_1:
      return multiply_codes<kQ5_1Layout>(args);
    case Format::kQ1_0_G128:
      return multiply_codes<kQ1_0G128Layout>(args);
    case Format::kTQ2_0_G128:
    case Format::kTQ1_0_G128:
      return multiply_codes<kTernaryG128Layout>(args);
    case Format::kQ2_0_G64:
      return multiply_codes<kQ2_0G64Layout>(args);
    case Format::kTQ2_0:
    case Format::kTQ1_0:
      return multiply_codes<kTernary256Layout>(args);
    case Format::kQ2_K:
      return multiply_codes<kQ2_KLayout>(args);
    case Format::kQ3_K:
      return multiply_codes<kQ3_KLayout>(args);
    case Format::kQ4_K:
      return multiply_codes<kQ4_KLayout>(args);
    case Format::kQ5_K:
      return multiply_codes<kQ5_KLayout>(args);
    case Format::kQ6_K:
      return multiply_codes<kQ6_KLayout>(args);
    case Format::kQ8_K:
      return multiply_codes<kQ8_KLayout>(args);
    case Format::kIQ4_NL:
      return multiply_codes<kIQ4_NLLayout>(args);
    case Format::kIQ4_XS:
      return multiply_codes<kIQ4_XSLayout>(args);
    default:
      return;  // no weight of another format is taken
  }
}

static_assert(SignLookup::kElements <= kMostLookupElements && TritLookup::kElements <= kMostLookupElements);

constexpr KernelTable make_table(const char *name) {
  return {
      .name = name,
      .sign_elements = SignLookup::kElements,
      .trit_elements = TritLookup::kElements,
      .sign_packing = SignLookup::kSignBytes ? Packing::kSignBytes : Packing::kUsual,
      .quantize = quantize,
      .matmul = matmul,
      .abreast = abreast_kernel<AbreastLookup>(),
      .tabulate_bounds = tabulate_bounds,
      .bound = bound,
      .multiply_few = multiply_few,
      .rms_norm = rms_norm,
      .swiglu = swiglu,
      .rotate = rotate,
      .add_rows = add_rows,
      .to_half = to_half,
      .attend = attend,
      .attend_tile = attend_tile,
      .fold = fold,
      .finish = finish,
      .max_value = max_value,
      .sum_exp = sum_exp,
  };
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
