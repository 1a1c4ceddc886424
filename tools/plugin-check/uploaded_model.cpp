#include "tools/plugin-check/uploaded_model.h"

#include <cmath>

#include "tools/plugin-check/context.h"

namespace bonsai::check {

UploadedModel::UploadedModel(host::Device &device, const model::Model &model, const Placement &placement)
    : device(device),
      model(model),
      placement(placement),
      rope_(model::make_rope_table(model.config, placement.positions)) {
  const model::Config &config = model.config;
  const uint32_t n_layers = placement.layers ? placement.layers : config.layers;
  for (uint32_t i = 0; i < n_layers; ++i) add_layer(model.layers[placement.first_layer + i]);
  for (const bonsai_layer_spec &layer : layers) layer_pointers_.push_back(&layer);

  spec.struct_size = sizeof spec;
  spec.n_layers = n_layers;
  spec.hidden = config.hidden;
  spec.ffn = config.ffn;
  spec.n_heads = config.heads;
  spec.n_kv_heads = config.kv_heads;
  spec.head_dim = config.head_dim;
  spec.rms_eps = config.rms_eps;
  spec.softmax_scale = 1 / std::sqrt(static_cast<float>(config.head_dim));
  spec.rope_dim = config.head_dim;
  spec.rope_positions = placement.positions;
  spec.rope_cos = rope_.cos.data();
  spec.rope_sin = rope_.sin.data();
  spec.layers = layer_pointers_.data();
  add_ends();
}

void UploadedModel::add_ends() {
  const bool shared = model.tied && placement.embedding && placement.head;
  if (placement.embedding || placement.head) spec.vocab = model.config.vocab;
  if (placement.embedding && placement.head && placement.ends_together && !model.tied) {
    const host::Weight &ends = upload({model.head, model.token_embd}, BONSAI_USE_MATRIX | BONSAI_USE_EMBEDDING);
    spec.head = slice(ends, 0, model.head->rows());
    spec.embedding = slice(ends, model.head->rows(), model.token_embd->rows());
    spec.output_norm = model.output_norm.data();
    return;
  }
  if (placement.embedding) {
    const bonsai_weight_use also = shared ? uint32_t{BONSAI_USE_MATRIX} : 0;
    spec.embedding = alone(model.token_embd, BONSAI_USE_EMBEDDING | also);
  }
  if (placement.head) {
    spec.head = shared ? spec.embedding : alone(model.head, BONSAI_USE_MATRIX);
    spec.output_norm = model.output_norm.data();
  }
}

const host::Weight &UploadedModel::upload(const std::vector<const gguf::Tensor *> &tensors, bonsai_weight_use uses) {
  std::vector<host::Weight::Part> parts;
  for (const gguf::Tensor *tensor : tensors) {
    parts.push_back({static_cast<bonsai_dtype>(tensor->format), tensor->rows(), tensor->data});
  }
  weights_.push_back(
      value_if_served(host::Weight::upload(device, "w", tensors[0]->columns(), parts, uses, placement.borrowed)));
  return weights_.back();
}

const bonsai_weight_slice *UploadedModel::slice(const host::Weight &weight, uint64_t first_row, uint64_t rows) {
  slices.push_back({sizeof(bonsai_weight_slice), 0, weight.handle(), first_row, rows});
  return &slices.back();
}

const bonsai_weight_slice *UploadedModel::alone(const gguf::Tensor *tensor, bonsai_weight_use uses) {
  return slice(upload({tensor}, uses), 0, tensor->rows());
}

void UploadedModel::add_layer(const model::LayerWeights &weights) {
  const uint64_t q = weights.attn_q->rows(), kv = weights.attn_k->rows(), ffn = weights.ffn_gate->rows();
  bonsai_layer_spec &layer = layers.emplace_back();
  layer = {};
  layer.struct_size = sizeof layer;
  layer.kind = BONSAI_LAYER_DECODER;
  if (placement.stacked) {
    const host::Weight &qkv = upload({weights.attn_q, weights.attn_k, weights.attn_v}, BONSAI_USE_MATRIX);
    layer.q = slice(qkv, 0, q);
    layer.k = slice(qkv, q, kv);
    layer.v = slice(qkv, q + kv, kv);
    const host::Weight &gate_up = upload({weights.ffn_gate, weights.ffn_up}, BONSAI_USE_MATRIX);
    layer.gate = slice(gate_up, 0, ffn);
    layer.up = slice(gate_up, ffn, ffn);
  } else {
    layer.q = alone(weights.attn_q, BONSAI_USE_MATRIX);
    layer.k = alone(weights.attn_k, BONSAI_USE_MATRIX);
    layer.v = alone(weights.attn_v, BONSAI_USE_MATRIX);
    layer.gate = alone(weights.ffn_gate, BONSAI_USE_MATRIX);
    layer.up = alone(weights.ffn_up, BONSAI_USE_MATRIX);
  }
  layer.o = alone(weights.attn_output, BONSAI_USE_MATRIX);
  layer.down = alone(weights.ffn_down, BONSAI_USE_MATRIX);
  layer.attn_norm = weights.attn_norm.data();
  layer.ffn_norm = weights.ffn_norm.data();
  layer.q_norm = weights.q_norm.data();
  layer.k_norm = weights.k_norm.data();
}

}  // namespace bonsai::check
