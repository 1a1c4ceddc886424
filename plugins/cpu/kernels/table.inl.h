// All kernels of a tier and the table of them. The last include of a tier's translation unit.
#pragma once

#include "plugins/cpu/kernels/attention.inl.h"
#include "plugins/cpu/kernels/codes_matmul.inl.h"
#include "plugins/cpu/kernels/float_matmul.inl.h"
#include "plugins/cpu/kernels/kernels.h"
#include "plugins/cpu/kernels/quantize.inl.h"
#include "plugins/cpu/kernels/row_kernels.inl.h"

namespace bonsai::cpu::BONSAI_TIER {
namespace {

void matmul(const MatmulArgs &args) {
  using quant::Format;
  switch (args.matrix->format) {
    case Format::kF32:
      return multiply_floats<F32Weights>(args);
    case Format::kF16:
      return multiply_floats<F16Weights>(args);
    case Format::kBF16:
      return multiply_floats<BF16Weights>(args);
    case Format::kQ8_0:
      return multiply_codes<Q8_0Codes>(args);
    case Format::kQ4_0:
      return multiply_codes<Q4_0Codes>(args);
    case Format::kQ1_0_G128:
      return multiply_codes<Q1_0G128Codes>(args);
    case Format::kTQ2_0_G128:
      return multiply_codes<TQ2_0G128Codes>(args);
    case Format::kQ2_0_G64:
      return multiply_codes<Q2_0G64Codes>(args);
    default:
      return;  // no weight of another format is taken
  }
}

constexpr KernelTable make_table(const char *name) {
  return {
      .name = name,
      .quantize = quantize,
      .matmul = matmul,
      .rms_norm = rms_norm,
      .swiglu = swiglu,
      .to_half = to_half,
      .attend = attend,
      .fold = fold,
      .finish = finish,
      .max_value = max_value,
      .sum_exp = sum_exp,
  };
}

}  // namespace
}  // namespace bonsai::cpu::BONSAI_TIER
