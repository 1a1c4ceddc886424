#include "plugins/common/model_shape.h"

#include <cmath>

namespace bonsai::plugin {
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
  check_range(spec.head_dim, kMaxHeadDim, "head_dim");
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

void check_layer(const bonsai_layer_spec &spec) {
  if (spec.kind != BONSAI_LAYER_DECODER) refuse("layer->kind is {}, expected BONSAI_LAYER_DECODER", spec.kind);
  require_pointer(spec.attn_norm, "layer->attn_norm");
  require_pointer(spec.ffn_norm, "layer->ffn_norm");
}

void check_slice(const bonsai_weight_slice &slice, const WeightShape &weight, const SliceShape &expected) {
  if (slice.reserved != 0) reject("{}->reserved is {}, expected 0", expected.name, slice.reserved);
  if (slice.rows != expected.rows || weight.columns != expected.columns) {
    reject("{} is ({}, {}), expected ({}, {})", expected.name, slice.rows, weight.columns, expected.rows,
           expected.columns);
  }
  if (slice.first_row > weight.rows || slice.rows > weight.rows - slice.first_row) {
    reject("{}: rows {} to {} reach beyond the weight's {}", expected.name, slice.first_row,
           slice.first_row + slice.rows, weight.rows);
  }
  if (!(weight.uses & expected.use)) {
    reject("{}: the weight was not uploaded for {}", expected.name,
           expected.use == BONSAI_USE_MATRIX ? "BONSAI_USE_MATRIX" : "BONSAI_USE_EMBEDDING");
  }
}

}  // namespace bonsai::plugin
