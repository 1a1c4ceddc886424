// Weights of FP8 checkpoints: a tensor of codes (OCP 8-bit Floating Point Specification, E4M3), and one of scales that
// they are multiplied by.
#pragma once

#include "core/base/result.h"
#include "core/quant/format.h"
#include "tools/common/recoder.h"
#include "tools/convert/checkpoint.h"

namespace bonsai::convert {

// How the codes are read: each is a block of its own. Only what decodes is there.
const quant::FormatTraits &fp8_codes();

// The scales of `codes`, of two dimensions: one for the whole tensor, one for each row, or one for each of `blocks`.
// Errors name the tensor of the scales and what was expected.
Result<tools::ScaleGrid> read_scales(const SourceTensor &codes, const SourceTensor &scales, const Fp8Blocks &blocks);

}  // namespace bonsai::convert
