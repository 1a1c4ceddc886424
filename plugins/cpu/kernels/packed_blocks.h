// One row's block, between the form of the file and the one that code_layout.h describes.
#pragma once

#include <cstddef>

#include "core/quant/format.h"
#include "plugins/cpu/kernels/code_layout.h"

namespace bonsai::cpu {

// The largest block in either form.
constexpr size_t kMaxBlockBytes = 292;

struct BlockForm {
  // From the file's block to the kernels'. nullptr: the two are the same.
  void (*from_file)(const std::byte *file, std::byte *packed);
  // The weights of a packed block, the bytes that quant::FormatTraits::decode gives; NaN where FP8's scale became NaN.
  void (*decode)(const std::byte *packed, float *weights);
};

// `format` must be one that is repacked; with Packing::kTrits a ternary one whose codes are 0 to 2.
BlockForm block_form(quant::Format format, Packing packing);

}  // namespace bonsai::cpu
