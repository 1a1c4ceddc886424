#include "tools/plugin-check/random_model.h"

#include <cmath>

#include "tools/plugin-check/random.h"

namespace bonsai::check {

ModelShape narrow_shape(quant::Format format) {
  ModelShape shape;
  shape.layers = 2;
  shape.format = format;
  if (quant::traits(format).block_weights > 32) {
    shape.ffn = 512;  // two blocks of the longest kind: what a kernel that goes on to the next product may ask for
    return shape;
  }
  shape.hidden = 64;
  shape.ffn = 96;
  shape.head_dim = 32;
  return shape;
}

RandomModel::RandomModel(const ModelShape &shape) : next_seed_(shape.seed << 32) {
  model::Config &config = model_.config;
  config.name = "random";
  config.layers = shape.layers;
  config.hidden = shape.hidden;
  config.ffn = shape.ffn;
  config.heads = shape.heads;
  config.kv_heads = shape.kv_heads;
  config.head_dim = shape.head_dim;
  config.vocab = shape.vocab;
  config.context = 4096;
  config.rms_eps = shape.rms_eps;
  if (shape.yarn_factor != 0) {
    config.rope_scaling.kind = model::RopeScaling::Kind::kYarn;
    config.rope_scaling.factor = shape.yarn_factor;
    config.rope_scaling.original_context = shape.original_context;
    config.rope_scaling.attention_factor = 1 + 0.1 * std::log(shape.yarn_factor);
  }
  const uint64_t q_rows = uint64_t{shape.heads} * shape.head_dim, kv_rows = uint64_t{shape.kv_heads} * shape.head_dim;
  model_.token_embd = matrix(shape, "token_embd", shape.vocab, shape.hidden);
  model_.tied = shape.tied;
  model_.head = shape.tied ? model_.token_embd : matrix(shape, "output", shape.vocab, shape.hidden);
  model_.output_norm = norm(shape.hidden);
  for (uint32_t i = 0; i < shape.layers; ++i) {
    model::LayerWeights &layer = model_.layers.emplace_back();
    layer.attn_q = matrix(shape, "attn_q", q_rows, shape.hidden);
    layer.attn_k = matrix(shape, "attn_k", kv_rows, shape.hidden);
    layer.attn_v = matrix(shape, "attn_v", kv_rows, shape.hidden);
    layer.attn_output = matrix(shape, "attn_output", shape.hidden, q_rows);
    layer.ffn_gate = matrix(shape, "ffn_gate", shape.ffn, shape.hidden);
    layer.ffn_up = matrix(shape, "ffn_up", shape.ffn, shape.hidden);
    layer.ffn_down = matrix(shape, "ffn_down", shape.hidden, shape.ffn);
    layer.attn_norm = norm(shape.hidden);
    layer.ffn_norm = norm(shape.hidden);
    layer.q_norm = norm(shape.head_dim);
    layer.k_norm = norm(shape.head_dim);
  }
}

// Variance 1 / columns, so that activations stay near 1; the embedding's is 1, so that what it puts into the residual
// stream is of the size of what the layers add.
const gguf::Tensor *RandomModel::matrix(const ModelShape &shape, const std::string &part, uint64_t rows,
                                        uint64_t columns) {
  const auto named = shape.formats.find(part);
  const quant::FormatTraits &traits = quant::traits(named == shape.formats.end() ? shape.format : named->second);
  Random random(next_seed_++);
  std::vector<float> weights(rows * columns);
  const double spread = part == "token_embd" ? 1 : 1 / std::sqrt(static_cast<double>(columns));
  for (float &weight : weights) weight = static_cast<float>(spread * random.normal());
  if (shape.edit) shape.edit(part, weights);
  std::vector<std::byte> &bytes = bytes_.emplace_back(quant::row_bytes(traits, weights.size()));
  traits.encode(weights.data(), bytes.data(), weights.size());
  tensors_.push_back({.name = "w",
                      .shape = {columns, rows},
                      .gguf_type = traits.gguf_type,
                      .format = traits.format,
                      .offset = 0,
                      .data = bytes});
  return &tensors_.back();
}

std::vector<float> RandomModel::norm(size_t size) {
  Random random(next_seed_++);
  std::vector<float> weights(size);
  for (float &weight : weights) weight = static_cast<float>(1 + 0.1 * random.normal());
  return weights;
}

std::vector<float> decoded_row(const gguf::Tensor &matrix, uint64_t row) {
  const quant::FormatTraits &traits = quant::traits(matrix.format);
  std::vector<float> weights(matrix.columns());
  traits.decode(matrix.data.data() + row * quant::row_bytes(traits, weights.size()), weights.data(), weights.size());
  return weights;
}

}  // namespace bonsai::check
