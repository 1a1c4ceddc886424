#include "host/bench/work.h"

#include <fmt/format.h>

#include <array>
#include <string>

#include "core/quant/format.h"

namespace bonsai::bench {
namespace {

std::array<const gguf::Tensor *, 7> matrices(const model::LayerWeights &layer) {
  return {layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_output, layer.ffn_gate, layer.ffn_up, layer.ffn_down};
}

uint64_t file_bytes(const model::Model &model, const std::string &name) {
  const gguf::Tensor *tensor = model.file->find_tensor(name);
  return tensor != nullptr ? tensor->data.size() : 0;
}

uint64_t layer_bytes(const model::Model &model) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    for (const gguf::Tensor *matrix : matrices(model.layers[i])) bytes += matrix->data.size();
    for (const char *norm : {"attn_norm", "ffn_norm", "attn_q_norm", "attn_k_norm"})
      bytes += file_bytes(model, fmt::format("blk.{}.{}.weight", i, norm));
  }
  return bytes;
}

uint64_t head_bytes(const model::Model &model) {
  return model.head->data.size() + file_bytes(model, "output_norm.weight");
}

uint64_t embedding_row_bytes(const model::Model &model) {
  return model.tied ? 0 : model.token_embd->data.size() / model.token_embd->rows();
}

// A multiplication and an addition for each weight and token.
void add_products(MatrixWork &work, const gguf::Tensor &matrix, uint64_t n_tokens) {
  const uint64_t operations = 2 * matrix.rows() * matrix.columns() * n_tokens;
  (arithmetic_of(matrix.format) == Arithmetic::kFma ? work.fma : work.int8) += operations;
}

// Of one query token with one position in all layers: q K^T and the sum over V.
uint64_t attention_operations(const model::Config &shape) {
  return uint64_t{4} * shape.layers * shape.heads * shape.head_dim;
}

// Positions that `n_tokens` tokens behind `depth` others attend to, in sum.
uint64_t positions_attended(uint64_t depth, uint64_t n_tokens) {
  return n_tokens * depth + n_tokens * (n_tokens + 1) / 2;
}

quant::Format stored_format(KvType kv) {
  switch (kv) {
    case KvType::kQ8_0:
      return quant::Format::kQ8_0;
    case KvType::kF32:
      return quant::Format::kF32;
    case KvType::kF16:
      break;
  }
  return quant::Format::kF16;
}

}  // namespace

uint64_t weight_bytes_per_token(const model::Model &model) {
  return layer_bytes(model) + head_bytes(model) + embedding_row_bytes(model);
}

uint64_t kv_bytes_per_position(const model::Config &shape, KvType kv) {
  const uint64_t head = quant::row_bytes(quant::traits(stored_format(kv)), shape.head_dim);
  return 2 * head * shape.kv_heads * shape.layers;
}

Arithmetic arithmetic_of(quant::Format format) {
  switch (format) {
    case quant::Format::kF32:
    case quant::Format::kF16:
    case quant::Format::kBF16:
    case quant::Format::kF8_E4M3:
    case quant::Format::kF8_E5M2:
      return Arithmetic::kFma;
    default:
      return Arithmetic::kInt8;
  }
}

double peak_of(const MatrixWork &work, double int8_per_second, double fma_per_second) {
  const double seconds =
      static_cast<double>(work.int8) / int8_per_second + static_cast<double>(work.fma) / fma_per_second;
  return static_cast<double>(work.operations()) / seconds;
}

MatrixWork prefill_matrix_work(const model::Model &model, uint32_t n_tokens) {
  MatrixWork work;
  for (const model::LayerWeights &layer : model.layers)
    for (const gguf::Tensor *matrix : matrices(layer)) add_products(work, *matrix, n_tokens);
  add_products(work, *model.head, 1);
  return work;
}

Work decode_work(const model::Model &model, KvType kv, uint32_t depth, uint32_t n_tokens) {
  const uint64_t positions = positions_attended(depth, n_tokens);
  return {.operations =
              n_tokens * prefill_matrix_work(model, 1).operations() + positions * attention_operations(model.config),
          .bytes = n_tokens * weight_bytes_per_token(model) + positions * kv_bytes_per_position(model.config, kv)};
}

Work prefill_work(const model::Model &model, KvType kv, uint32_t n_tokens) {
  return {.operations = prefill_matrix_work(model, n_tokens).operations() +
                        positions_attended(0, n_tokens) * attention_operations(model.config),
          .bytes = layer_bytes(model) + head_bytes(model) + n_tokens * embedding_row_bytes(model) +
                   n_tokens * kv_bytes_per_position(model.config, kv)};
}

}  // namespace bonsai::bench
