#include "host/runtime/session_spec.h"

#include <cmath>

#include "core/base/floating_point_environment.h"

namespace bonsai::host {
namespace {

constexpr size_t kSlicesOfLayer = 7;  // q, k, v, o, gate, up, down
constexpr size_t kSlicesOfModel = 2;  // embedding, head

}  // namespace

SessionSpec::SessionSpec(const DeviceModel &model, uint32_t context)
    : rope_(model::make_rope_table(model.model().config, context)) {
  const model::Config &shape = model.model().config;
  slices_.reserve(shape.layers * kSlicesOfLayer + kSlicesOfModel);
  layers_.reserve(shape.layers);
  for (uint32_t i = 0; i < shape.layers; ++i) add_layer(model.layers()[i], model.model().layers[i], shape);
  for (const bonsai_layer_spec &layer : layers_) layer_pointers_.push_back(&layer);

  raw_.struct_size = sizeof raw_;
  raw_.n_layers = shape.layers;
  raw_.hidden = shape.hidden;
  raw_.ffn = shape.ffn;
  raw_.n_heads = shape.heads;
  raw_.n_kv_heads = shape.kv_heads;
  raw_.head_dim = shape.head_dim;
  raw_.vocab = shape.vocab;
  raw_.rms_eps = shape.rms_eps;
  const DefaultFloatingPoint environment;  // for the division and the rounding
  raw_.softmax_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  raw_.rope_dim = 2 * rope_.pairs;
  raw_.rope_positions = rope_.positions;
  raw_.rope_cos = rope_.cos.data();
  raw_.rope_sin = rope_.sin.data();
  raw_.layers = layer_pointers_.data();
  raw_.embedding = model.embedding() ? slice(model.embedding(), 0, shape.vocab) : nullptr;
  raw_.output_norm = model.model().output_norm.data();
  raw_.head = slice(model.head(), 0, shape.vocab);
}

const bonsai_weight_slice *SessionSpec::slice(const Weight &weight, uint64_t first_row, uint64_t rows) {
  slices_.push_back({sizeof(bonsai_weight_slice), 0, weight.handle(), first_row, rows});
  return &slices_.back();
}

void SessionSpec::add_layer(const DeviceLayer &matrices, const model::LayerWeights &weights,
                            const model::Config &shape) {
  const uint64_t q_rows = uint64_t{shape.heads} * shape.head_dim, kv_rows = uint64_t{shape.kv_heads} * shape.head_dim;
  bonsai_layer_spec layer{};
  layer.struct_size = sizeof layer;
  layer.kind = BONSAI_LAYER_DECODER;
  layer.q = slice(matrices.qkv, 0, q_rows);
  layer.k = slice(matrices.qkv, q_rows, kv_rows);
  layer.v = slice(matrices.qkv, q_rows + kv_rows, kv_rows);
  layer.o = slice(matrices.o, 0, shape.hidden);
  layer.gate = slice(matrices.gate_up, 0, shape.ffn);
  layer.up = slice(matrices.gate_up, shape.ffn, shape.ffn);
  layer.down = slice(matrices.down, 0, shape.hidden);
  layer.attn_norm = weights.attn_norm.data();
  layer.ffn_norm = weights.ffn_norm.data();
  layer.q_norm = weights.q_norm.data();
  layer.k_norm = weights.k_norm.data();
  layers_.push_back(layer);
}

}  // namespace bonsai::host
