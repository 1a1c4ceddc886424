// The numbers of a model that sizes follow from, and the checks of a spec that need no weights.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>

#include "plugins/common/failure.h"

namespace bonsai::plugin {

// Longest head that attention is made for.
inline constexpr uint32_t kMaxHeadDim = 1024;

struct ModelShape {
  uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
  uint32_t rope_dim, rope_positions;
  bool has_embedding, has_head;

  uint64_t q_rows() const { return uint64_t{heads} * head_dim; }
  uint64_t kv_rows() const { return uint64_t{kv_heads} * head_dim; }
  uint64_t qkv_rows() const { return q_rows() + 2 * kv_rows(); }
  uint32_t group() const { return heads / kv_heads; }        // heads that share a kv head
  uint32_t vectors() const { return (head_dim + 15) / 16; }  // of 16 floats in a head
};

// Checks everything but layers and weights. Throws BONSAI_INVALID_ARGUMENT for what cannot be meant and
// BONSAI_UNSUPPORTED for what no backend of this project can run right.
ModelShape check_shape(const bonsai_model_spec &spec);

// Checks what every layer's spec must have beside its slices. Throws as check_shape does.
void check_layer(const bonsai_layer_spec &spec);

// What a slice of a weight has to be.
struct SliceShape {
  const char *name;
  uint64_t rows, columns;
  bonsai_weight_use use;
};
inline SliceShape matrix(const char *name, uint64_t rows, uint64_t columns) {
  return {.name = name, .rows = rows, .columns = columns, .use = BONSAI_USE_MATRIX};
}

// What is known of any backend's weight.
struct WeightShape {
  uint64_t rows, columns;
  bonsai_weight_use uses;
};
// Throws BONSAI_INVALID_ARGUMENT unless the slice lies in `weight` and has the expected shape and use.
void check_slice(const bonsai_weight_slice &slice, const WeightShape &weight, const SliceShape &expected);

// The weight behind a slice, checked. Weight has shape().
template <class Weight>
const Weight &checked_weight(const bonsai_weight_slice *given, const SliceShape &expected) {
  const bonsai_weight_slice &slice = checked(given, expected.name);
  if (!slice.weight) reject("{}->weight is NULL", expected.name);
  const Weight &weight = *reinterpret_cast<const Weight *>(slice.weight);
  check_slice(slice, weight.shape(), expected);
  return weight;
}

// The vectors and matrices of a layer in the order of the model's mathematics, with what they have to be: calls
// append(part, slice, expected, first_row) where first_row is the slice's first element in the product's output.
enum class Projection { kQkv, kO, kGateUp, kDown };
template <class Append>
void each_slice(const ModelShape &shape, const bonsai_layer_spec &spec, Append &&append) {
  const uint64_t q = shape.q_rows(), kv = shape.kv_rows(), hidden = shape.hidden, ffn = shape.ffn;
  append(Projection::kQkv, spec.q, matrix("layer->q", q, hidden), uint64_t{0});
  append(Projection::kQkv, spec.k, matrix("layer->k", kv, hidden), q);
  append(Projection::kQkv, spec.v, matrix("layer->v", kv, hidden), q + kv);
  append(Projection::kO, spec.o, matrix("layer->o", hidden, q), uint64_t{0});
  append(Projection::kGateUp, spec.gate, matrix("layer->gate", ffn, hidden), uint64_t{0});
  append(Projection::kGateUp, spec.up, matrix("layer->up", ffn, hidden), ffn);
  append(Projection::kDown, spec.down, matrix("layer->down", hidden, ffn), uint64_t{0});
}

}  // namespace bonsai::plugin
