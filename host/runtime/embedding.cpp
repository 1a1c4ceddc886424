#include "host/runtime/embedding.h"

namespace bonsai::host {

void decode_embeddings(const model::Model &model, std::span<const int32_t> tokens, std::span<float> hidden) {
  const gguf::Tensor &table = *model.token_embd;
  const quant::FormatTraits &format = quant::traits(table.format);
  const size_t columns = table.columns(), row_bytes = quant::row_bytes(format, columns);
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = table.data.subspan(static_cast<size_t>(tokens[i]) * row_bytes, row_bytes);
    format.decode(row.data(), hidden.subspan(i * columns, columns).data(), columns);
  }
}

}  // namespace bonsai::host
