// Decides which format each tensor of the output has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/gguf/file.h"
#include "tools/quantize/quantize.h"

namespace bonsai::quantize {

struct PlannedTensor {
  const gguf::Tensor *source;
  const quant::FormatTraits *format;

  uint64_t weights() const { return source->rows() * source->columns(); }
};

// Whether it has more than one row: n x 1 is a vector, as the loader has it.
bool is_matrix(const gguf::Tensor &tensor);

// Vectors become F32. Matrices get the request's format, or that of the last rule that matches; where rows do not
// divide into its blocks, Q8_0 or else F16, with a notice. In file order.
std::vector<PlannedTensor> plan_tensors(const gguf::File &file, const Request &request,
                                        std::vector<std::string> &notices);

}  // namespace bonsai::quantize
