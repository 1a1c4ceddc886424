#include "plugins/cpu/model.h"

#include <algorithm>
#include <cmath>

#include "plugins/cpu/failure.h"
#include "plugins/cpu/kv_cache.h"

namespace bonsai::cpu {
namespace {

// Beyond these no such model exists, and sizes made of them fit 64 bits.
constexpr uint32_t kMaxLayers = 1u << 12;
constexpr uint32_t kMaxWidth = 1u << 20;  // hidden, ffn, heads * head_dim
constexpr uint32_t kMaxVocab = 1u << 24;
constexpr uint32_t kMaxPositions = 1u << 24;

void check_range(uint32_t value, uint32_t most, const char *name) {
  if (value == 0) reject("model->{} is 0, expected at least 1", name);
  if (value > most) refuse("model->{} is {}, expected at most {}", name, value, most);
}

void check_heads(const bonsai_model_spec &spec) {
  check_range(spec.n_heads, kMaxWidth, "n_heads");
  check_range(spec.n_kv_heads, kMaxWidth, "n_kv_heads");
  check_range(spec.head_dim, KvCache::kMaxHeadDim, "head_dim");
  if (spec.n_heads % spec.n_kv_heads != 0) {
    reject("model->n_kv_heads is {}, expected a divisor of n_heads, {}", spec.n_kv_heads, spec.n_heads);
  }
  if (spec.head_dim % 2 != 0) reject("model->head_dim is {}, expected an even number", spec.head_dim);
  if (uint64_t{spec.n_heads} * spec.head_dim > kMaxWidth) {
    refuse("model: {} heads of {} are {} wide, expected at most {}", spec.n_heads, spec.head_dim,
           uint64_t{spec.n_heads} * spec.head_dim, kMaxWidth);
  }
}

void check_rope(const bonsai_model_spec &spec) {
  if (spec.rope_dim % 2 != 0 || spec.rope_dim > spec.head_dim) {
    reject("model->rope_dim is {}, expected an even number up to head_dim, {}", spec.rope_dim, spec.head_dim);
  }
  check_range(spec.rope_positions, kMaxPositions, "rope_positions");
  if (spec.rope_dim == 0) return;
  require_pointer(spec.rope_cos, "model->rope_cos");
  require_pointer(spec.rope_sin, "model->rope_sin");
}

void check_ends(const bonsai_model_spec &spec) {
  if ((spec.head == nullptr) != (spec.output_norm == nullptr)) {
    reject("model->{} is NULL and model->{} is not, expected both or neither", spec.head ? "output_norm" : "head",
           spec.head ? "head" : "output_norm");
  }
  if (spec.embedding || spec.head) {
    check_range(spec.vocab, kMaxVocab, "vocab");
  } else if (spec.vocab != 0) {
    reject("model->vocab is {}, expected 0 without embedding and head", spec.vocab);
  }
}

struct SliceShape {
  const char *name;
  uint64_t rows, columns;
  bonsai_weight_use use;
};

const Weight &check_slice(const bonsai_weight_slice *given, const SliceShape &expected) {
  const bonsai_weight_slice &slice = checked(given, expected.name);
  if (!slice.weight) reject("{}->weight is NULL", expected.name);
  if (slice.reserved != 0) reject("{}->reserved is {}, expected 0", expected.name, slice.reserved);
  const Weight &weight = *reinterpret_cast<const Weight *>(slice.weight);
  if (slice.rows != expected.rows || weight.columns() != expected.columns) {
    reject("{} is ({}, {}), expected ({}, {})", expected.name, slice.rows, weight.columns(), expected.rows,
           expected.columns);
  }
  if (slice.first_row > weight.rows() || slice.rows > weight.rows() - slice.first_row) {
    reject("{}: rows {} to {} reach beyond the weight's {}", expected.name, slice.first_row,
           slice.first_row + slice.rows, weight.rows());
  }
  if (!(weight.uses() & expected.use)) {
    reject("{}: the weight was not uploaded for {}", expected.name,
           expected.use == BONSAI_USE_MATRIX ? "BONSAI_USE_MATRIX" : "BONSAI_USE_EMBEDDING");
  }
  return weight;
}

// Appends a matrix whose row 0 is output element `to`.
void append_slice(const bonsai_weight_slice *slice, const SliceShape &expected, uint64_t to,
                  std::vector<MatrixRows> &rows) {
  check_slice(slice, expected).append_rows(slice->first_row, slice->rows, to, rows);
}

SliceShape matrix(const char *name, uint64_t rows, uint64_t columns) {
  return {.name = name, .rows = rows, .columns = columns, .use = BONSAI_USE_MATRIX};
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

ModelShape check_shape(const bonsai_model_spec &spec) {
  if (spec.features != 0) refuse("model->features has unknown bits {:#x}", spec.features);
  if (spec.reserved != 0) reject("model->reserved is {}, expected 0", spec.reserved);
  check_range(spec.n_layers, kMaxLayers, "n_layers");
  check_range(spec.hidden, kMaxWidth, "hidden");
  check_range(spec.ffn, kMaxWidth, "ffn");
  check_heads(spec);
  check_rope(spec);
  check_ends(spec);
  if (!(spec.rms_eps >= 0) || std::isinf(spec.rms_eps)) {
    reject("model->rms_eps is {}, expected a number from 0", spec.rms_eps);
  }
  if (!std::isfinite(spec.softmax_scale)) {
    reject("model->softmax_scale is {}, expected a finite number", spec.softmax_scale);
  }
  return {.layers = spec.n_layers,
          .hidden = spec.hidden,
          .ffn = spec.ffn,
          .heads = spec.n_heads,
          .kv_heads = spec.n_kv_heads,
          .head_dim = spec.head_dim,
          .vocab = spec.vocab,
          .rope_dim = spec.rope_dim,
          .rope_positions = spec.rope_positions,
          .has_embedding = spec.embedding != nullptr,
          .has_head = spec.head != nullptr};
}

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
    embedding_ = &check_slice(
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
  if (spec.kind != BONSAI_LAYER_DECODER) refuse("layer->kind is {}, expected BONSAI_LAYER_DECODER", spec.kind);
  require_pointer(spec.attn_norm, "layer->attn_norm");
  require_pointer(spec.ffn_norm, "layer->ffn_norm");
  const uint64_t q = shape_.q_rows(), kv = shape_.kv_rows(), hidden = shape_.hidden, ffn = shape_.ffn;
  Layer &layer = layers_.emplace_back();
  append_slice(spec.q, matrix("layer->q", q, hidden), 0, layer.qkv);
  append_slice(spec.k, matrix("layer->k", kv, hidden), q, layer.qkv);
  append_slice(spec.v, matrix("layer->v", kv, hidden), q + kv, layer.qkv);
  append_slice(spec.o, matrix("layer->o", hidden, q), 0, layer.o);
  append_slice(spec.gate, matrix("layer->gate", ffn, hidden), 0, layer.gate_up);
  append_slice(spec.up, matrix("layer->up", ffn, hidden), ffn, layer.gate_up);
  append_slice(spec.down, matrix("layer->down", hidden, ffn), 0, layer.down);
  layer.attn_norm = keep(spec.attn_norm, hidden);
  layer.ffn_norm = keep(spec.ffn_norm, hidden);
  layer.q_norm = keep(spec.q_norm, shape_.head_dim);
  layer.k_norm = keep(spec.k_norm, shape_.head_dim);
  layer.o_bias = keep(spec.o_bias, hidden);
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
