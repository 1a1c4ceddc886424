// A model, or a run of its layers, as a session keeps it: checked, its vectors and tables on the device.
#pragma once

#include <bonsai/backend.h>

#include <array>
#include <cstdint>
#include <vector>

#include "plugins/common/model_shape.h"
#include "plugins/cuda/linear.h"

namespace bonsai::cuda {

using namespace plugin;

// One layer's matrices and vectors. Vectors are in device memory; those that the model does not have are nullptr.
struct Layer {
  std::array<std::vector<MatrixRows>, 4> projections;
  const float *attn_norm;  // (hidden)
  const float *ffn_norm;   // (hidden)
  const float *q_norm;     // (head_dim)
  const float *k_norm;     // (head_dim)
  const float *qkv_bias;   // (qkv_rows)
  const float *o_bias;     // (hidden)

  std::vector<MatrixRows> &rows(Projection projection) { return projections[static_cast<size_t>(projection)]; }
  const std::vector<MatrixRows> &rows(Projection projection) const {
    return projections[static_cast<size_t>(projection)];
  }
};

class Model {
 public:
  // Throws as check_shape does, and for layers and weights that do not fit the shape. Weights must outlive the model.
  // The context is current; what is submitted to the device's stream from here on finds the vectors there.
  Model(Device &device, const bonsai_model_spec &spec);

  // Device memory of vectors and tables.
  static uint64_t bytes(const ModelShape &shape);

  const ModelShape &shape() const { return shape_; }
  const Layer &layer(uint32_t i) const { return layers_[i]; }
  float rms_eps() const { return rms_eps_; }
  float softmax_scale() const { return softmax_scale_; }
  const float *rope_cos() const { return rope_cos_; }                      // (rope_positions, rope_dim / 2), device
  const float *rope_sin() const { return rope_sin_; }                      // likewise
  const float *output_norm() const { return output_norm_; }                // (hidden), device; nullptr: no head
  const std::vector<MatrixRows> &head() const { return head_; }            // (vocab, hidden)
  const std::vector<MatrixRows> &embedding() const { return embedding_; }  // (vocab, hidden); empty: none

 private:
  const float *keep(const float *values, uint64_t n);
  void add_layer(const bonsai_layer_spec &spec);
  const float *keep_qkv_bias(const bonsai_layer_spec &spec);

  ModelShape shape_;
  float rms_eps_;
  float softmax_scale_;
  std::vector<Layer> layers_;
  std::vector<MatrixRows> head_;
  std::vector<MatrixRows> embedding_;
  const float *output_norm_ = nullptr;
  const float *rope_cos_ = nullptr;
  const float *rope_sin_ = nullptr;
  DeviceBuffer vectors_;     // every vector and table, one after the other
  std::vector<float> kept_;  // the same on the host, while the model is made
};

}  // namespace bonsai::cuda
