#include "core/gguf/validate.h"

namespace bonsai::gguf {
namespace {

TensorReport validate_tensor(const Tensor &tensor) {
  const quant::FormatTraits &format = quant::traits(tensor.format);
  const uint64_t weights = tensor.columns() * tensor.rows();
  return {.name = tensor.name,
          .format = tensor.format,
          .weights = weights,
          .blocks = weights / format.block_weights,
          .nonfinite_blocks = format.count_nonfinite(tensor.data.data(), weights),
          .code3 = format.count_code3 != nullptr ? format.count_code3(tensor.data.data(), weights) : 0};
}

}  // namespace

ValidationReport validate(const File &file) {
  ValidationReport report;
  for (const Tensor &tensor : file.tensors()) {
    const TensorReport &found = report.tensors.emplace_back(validate_tensor(tensor));
    report.weights += found.weights;
    report.nonfinite_blocks += found.nonfinite_blocks;
    report.code3 += found.code3;
    file.release(tensor.data);
  }
  return report;
}

}  // namespace bonsai::gguf
