#include "plugins/cuda/model.h"

#include "plugins/common/failure.h"
#include "plugins/cuda/device.h"
#include "plugins/cuda/weight.h"

namespace bonsai::cuda {
namespace {

// Vectors begin at multiples of this many floats: 256 bytes.
constexpr uint64_t kAligned = 64;

uint64_t aligned(uint64_t n) { return (n + kAligned - 1) / kAligned * kAligned; }

// Floats that one layer's vectors take at most: norms and biases, whether it has them or not.
uint64_t layer_floats(const ModelShape &shape) {
  return 3 * aligned(shape.hidden) + 2 * aligned(shape.head_dim) + aligned(shape.qkv_rows());
}

uint64_t kept_floats(const ModelShape &shape) {
  const uint64_t table = aligned(uint64_t{shape.rope_positions} * (shape.rope_dim / 2));
  return 2 * table + shape.layers * layer_floats(shape) + (shape.has_head ? aligned(shape.hidden) : 0);
}

// Appends a matrix whose row 0 is output element `to`.
void append_slice(const bonsai_weight_slice *slice, const SliceShape &expected, uint64_t to,
                  std::vector<MatrixRows> &rows) {
  checked_weight<Weight>(slice, expected).append_rows(slice->first_row, slice->rows, to, rows);
}

}  // namespace

uint64_t Model::bytes(const ModelShape &shape) { return kept_floats(shape) * sizeof(float); }

Model::Model(Device &device, const bonsai_model_spec &spec)
    : shape_(check_shape(spec)), rms_eps_(spec.rms_eps), softmax_scale_(spec.softmax_scale) {
  require_pointer(spec.layers, "model->layers");
  vectors_ = DeviceBuffer(device.context(), bytes(shape_), "norms and RoPE tables");
  kept_.reserve(kept_floats(shape_));
  const uint64_t table = uint64_t{shape_.rope_positions} * (shape_.rope_dim / 2);
  rope_cos_ = keep(spec.rope_cos, table);
  rope_sin_ = keep(spec.rope_sin, table);
  layers_.reserve(shape_.layers);
  for (uint32_t i = 0; i < shape_.layers; ++i) add_layer(checked(spec.layers[i], "layer"));
  if (shape_.has_embedding) {
    append_slice(
        spec.embedding,
        {.name = "model->embedding", .rows = shape_.vocab, .columns = shape_.hidden, .use = BONSAI_USE_EMBEDDING}, 0,
        embedding_);
  }
  if (shape_.has_head) {
    output_norm_ = keep(spec.output_norm, shape_.hidden);
    append_slice(spec.head, matrix("model->head", shape_.vocab, shape_.hidden), 0, head_);
  }
  run_to_end(device.stream(),
             [&] { device.stream().upload(vectors_.data(), kept_.data(), kept_.size() * sizeof(float)); });
  kept_ = {};
}

// Copies a vector, and says where it will lie on the device; nullptr stays nullptr.
const float *Model::keep(const float *values, uint64_t n) {
  if (!values) return nullptr;
  const float *place = vectors_.as<float>() + kept_.size();
  kept_.insert(kept_.end(), values, values + n);
  kept_.resize(aligned(kept_.size()));
  return place;
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
  layer.qkv_bias = keep_qkv_bias(spec);
}

// The three biases as one vector, with zeros for those that are missing; nullptr if all are.
const float *Model::keep_qkv_bias(const bonsai_layer_spec &spec) {
  if (!spec.q_bias && !spec.k_bias && !spec.v_bias) return nullptr;
  const uint64_t q = shape_.q_rows(), kv = shape_.kv_rows();
  std::vector<float> bias(shape_.qkv_rows(), 0.0f);
  if (spec.q_bias) std::copy_n(spec.q_bias, q, bias.begin());
  if (spec.k_bias) std::copy_n(spec.k_bias, kv, bias.begin() + static_cast<ptrdiff_t>(q));
  if (spec.v_bias) std::copy_n(spec.v_bias, kv, bias.begin() + static_cast<ptrdiff_t>(q + kv));
  return keep(bias.data(), bias.size());
}

}  // namespace bonsai::cuda
