#include "plugins/cpu/model.h"

#include <algorithm>

#include "plugins/common/failure.h"
#include "plugins/cpu/kv_cache.h"

namespace bonsai::cpu {

using namespace plugin;

namespace {

// Appends a matrix whose row 0 is output element `to`.
void append_slice(const bonsai_weight_slice *slice, const SliceShape &expected, uint64_t to,
                  std::vector<MatrixRows> &rows) {
  checked_weight<Weight>(slice, expected).append_rows(slice->first_row, slice->rows, to, rows);
}

// Floats that one layer's vectors take: norms and biases, whether it has them or not.
uint64_t layer_floats(const ModelShape &shape) {
  return 3 * uint64_t{shape.hidden} + 2 * uint64_t{shape.head_dim} + shape.qkv_rows();
}

uint64_t kept_floats(const ModelShape &shape) {
  const uint64_t tables = uint64_t{shape.rope_positions} * shape.rope_dim;  // half of it cosines, half sines
  return tables + shape.layers * layer_floats(shape) + (shape.has_head ? shape.hidden : 0);
}

}  // namespace

uint64_t Model::bytes(const ModelShape &shape) { return Buffer<float>::bytes(kept_floats(shape)); }

Model::Model(const bonsai_model_spec &spec)
    : shape_(check_shape(spec)),
      rms_eps_(spec.rms_eps),
      softmax_scale_(spec.softmax_scale),
      vectors_(kept_floats(shape_), "norms and RoPE tables") {
  require_pointer(spec.layers, "model->layers");
  const uint64_t table = uint64_t{shape_.rope_positions} * (shape_.rope_dim / 2);
  rope_cos_ = keep(spec.rope_cos, table);
  rope_sin_ = keep(spec.rope_sin, table);
  layers_.reserve(shape_.layers);
  for (uint32_t i = 0; i < shape_.layers; ++i) add_layer(checked(spec.layers[i], "layer"));
  if (shape_.has_embedding) {
    embedding_ = &checked_weight<Weight>(
        spec.embedding,
        {.name = "model->embedding", .rows = shape_.vocab, .columns = shape_.hidden, .use = BONSAI_USE_EMBEDDING});
    embedding_row_ = spec.embedding->first_row;
  }
  if (shape_.has_head) {
    output_norm_ = keep(spec.output_norm, shape_.hidden);
    append_slice(spec.head, matrix("model->head", shape_.vocab, shape_.hidden), 0, head_);
  }
}

// Copies a vector; nullptr stays nullptr.
const float *Model::keep(const float *values, uint64_t n) {
  if (!values) return nullptr;
  float *kept = vectors_.data() + kept_;
  std::copy_n(values, n, kept);
  kept_ += n;
  return kept;
}

void Model::add_layer(const bonsai_layer_spec &spec) {
  check_layer(spec);
  Layer &layer = layers_.emplace_back();
  each_slice(shape_, spec,
             [&](Projection projection, const bonsai_weight_slice *slice, const SliceShape &expected, uint64_t to) {
               append_slice(slice, expected, to, layer.rows(projection));
             });
  layer.attn_norm = keep(spec.attn_norm, shape_.hidden);
  layer.ffn_norm = keep(spec.ffn_norm, shape_.hidden);
  layer.q_norm = keep(spec.q_norm, shape_.head_dim);
  layer.k_norm = keep(spec.k_norm, shape_.head_dim);
  layer.o_bias = keep(spec.o_bias, shape_.hidden);
  keep_qkv_bias(spec, layer);
}

// The three biases as one vector, with zeros for those that are missing; nullptr if all are.
void Model::keep_qkv_bias(const bonsai_layer_spec &spec, Layer &layer) {
  layer.qkv_bias = nullptr;
  if (!spec.q_bias && !spec.k_bias && !spec.v_bias) return;
  float *bias = vectors_.data() + kept_;
  std::fill_n(bias, shape_.qkv_rows(), 0.0f);
  const uint64_t q = shape_.q_rows(), kv = shape_.kv_rows();
  if (spec.q_bias) std::copy_n(spec.q_bias, q, bias);
  if (spec.k_bias) std::copy_n(spec.k_bias, kv, bias + q);
  if (spec.v_bias) std::copy_n(spec.v_bias, kv, bias + q + kv);
  kept_ += shape_.qkv_rows();
  layer.qkv_bias = bias;
}

void Model::embed(int32_t token, float *x) const {
  embedding_->lookup(embedding_row_ + static_cast<uint32_t>(token), {x, shape_.hidden});
}

}  // namespace bonsai::cpu
