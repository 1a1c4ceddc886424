#include "core/gguf/type42.h"

#include <vector>

#include "core/base/utf8.h"
#include "core/gguf/cursor.h"

namespace bonsai::gguf {
namespace {

uint64_t tensor_bytes(const Type42Tensor &tensor, quant::Format format) {
  return tensor.rows * quant::row_bytes(quant::traits(format), tensor.columns);
}

bool has_room(const Type42Tensor &tensor, quant::Format format) {
  return tensor.columns % quant::traits(format).block_weights == 0 && tensor_bytes(tensor, format) <= tensor.extent;
}

bool fits(const Type42Tensor &tensor, quant::Format format, uint64_t alignment) {
  return has_room(tensor, format) && tensor.extent - tensor_bytes(tensor, format) < alignment;
}

tl::unexpected<Error> fits_neither(const Type42Tensor &tensor, uint64_t alignment) {
  const Field field{"type", tensor.name};
  constexpr auto kG64 = quant::Format::kQ2_0_G64;
  constexpr auto kG128 = quant::Format::kTQ2_0_G128;
  if (tensor.columns % quant::traits(kG64).block_weights != 0) {
    return fail_at(tensor.type_at, field, "found 42 with rows of {} weights, expected a multiple of 64",
                   tensor.columns);
  }
  const std::string g128 = tensor.columns % quant::traits(kG128).block_weights == 0
                               ? fmt::format(" or {} (PQ2_0)", tensor_bytes(tensor, kG128))
                               : "";
  return fail_at(tensor.type_at, field,
                 "found 42 with {} bytes to the next tensor or the end, expected {} (Q2_0){} and padding below {}",
                 tensor.extent, tensor_bytes(tensor, kG64), g128, alignment);
}

}  // namespace

Result<Type42Meaning> resolve_type_42(std::span<const Type42Tensor> tensors, uint64_t alignment) {
  const Type42Tensor *g64 = nullptr;   // the first that fits only this
  const Type42Tensor *g128 = nullptr;  // likewise
  std::vector<const Type42Tensor *> neither;
  for (const Type42Tensor &tensor : tensors) {
    const bool fits_g64 = fits(tensor, quant::Format::kQ2_0_G64, alignment);
    const bool fits_g128 = fits(tensor, quant::Format::kTQ2_0_G128, alignment);
    if (!fits_g64 && !fits_g128) neither.push_back(&tensor);
    if (fits_g64 && !fits_g128 && g64 == nullptr) g64 = &tensor;
    if (fits_g128 && !fits_g64 && g128 == nullptr) g128 = &tensor;
  }
  if (g64 != nullptr && g128 != nullptr) {
    return fail_at(g128->type_at, Field{"type", g128->name},
                   "found 42, by its extent PQ2_0, while tensor {} is Q2_0 by its own; expected one meaning per file",
                   quoted(g64->name));
  }
  const bool decided = g64 != nullptr || g128 != nullptr;
  const auto format = g128 != nullptr ? quant::Format::kTQ2_0_G128 : quant::Format::kQ2_0_G64;
  for (const Type42Tensor *tensor : neither) {
    if (!decided || !has_room(*tensor, format)) return fits_neither(*tensor, alignment);
  }
  return Type42Meaning{format, decided};
}

}  // namespace bonsai::gguf
