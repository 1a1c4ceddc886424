// A model, or a run of its layers, as a session keeps it: checked, and copied out of the caller's spec.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <span>
#include <vector>

#include "plugins/common/buffer.h"
#include "plugins/common/model_shape.h"
#include "plugins/cpu/matmul.h"
#include "plugins/cpu/weight.h"

namespace bonsai::cpu {

using namespace plugin;

// One layer's matrices and vectors. Vectors that the model does not have are nullptr.
struct Layer {
  std::vector<MatrixRows> qkv;      // (qkv_rows, hidden): q, then k, then v
  std::vector<MatrixRows> o;        // (hidden, q_rows)
  std::vector<MatrixRows> gate_up;  // (2 * ffn, hidden)
  std::vector<MatrixRows> down;     // (hidden, ffn)
  const float *attn_norm;           // (hidden)
  const float *ffn_norm;            // (hidden)
  const float *q_norm;              // (head_dim)
  const float *k_norm;              // (head_dim)
  const float *qkv_bias;            // (qkv_rows)
  const float *o_bias;              // (hidden)

  std::vector<MatrixRows> &rows(Projection projection) {
    switch (projection) {
      case Projection::kQkv:
        return qkv;
      case Projection::kO:
        return o;
      case Projection::kGateUp:
        return gate_up;
      default:
        return down;
    }
  }
};

class Model {
 public:
  // Throws as check_shape does, and for layers and weights that do not fit the shape. Weights must outlive the model.
  explicit Model(const bonsai_model_spec &spec);

  // Memory of the copies of vectors and tables.
  static uint64_t bytes(const ModelShape &shape);
  uint64_t bytes() const { return vectors_.bytes(); }

  const ModelShape &shape() const { return shape_; }
  const Layer &layer(uint32_t i) const { return layers_[i]; }
  // The matrices that are multiplied with next once layer i is done.
  std::span<const MatrixRows> after(uint32_t i) const {
    return i + 1 < shape_.layers ? layers_[i + 1].qkv : head_.empty() ? layers_[0].qkv : head_;
  }
  // Of qkv: kv heads, with their queries. Of gate_up: runs of kFfnSector columns.
  static constexpr uint64_t kFfnSector = 32;
  Sectors qkv_sectors() const { return {shape_.kv_heads, 3}; }
  Sectors ffn_sectors() const { return {(uint64_t{shape_.ffn} + kFfnSector - 1) / kFfnSector, 2}; }
  float rms_eps() const { return rms_eps_; }
  float softmax_scale() const { return softmax_scale_; }
  // Cosines and sines of a position, (rope_dim / 2) each.
  const float *rope_cos(uint32_t position) const { return rope_cos_ + position * uint64_t{shape_.rope_dim / 2}; }
  const float *rope_sin(uint32_t position) const { return rope_sin_ + position * uint64_t{shape_.rope_dim / 2}; }
  const float *output_norm() const { return output_norm_; }      // (hidden); nullptr: no head
  const std::vector<MatrixRows> &head() const { return head_; }  // (vocab, hidden)
  // Decodes a token's row of the embedding, (hidden). Precondition: the session has one.
  void embed(int32_t token, float *x) const;

 private:
  const float *keep(const float *values, uint64_t n);
  void add_layer(const bonsai_layer_spec &spec);
  void keep_qkv_bias(const bonsai_layer_spec &spec, Layer &layer);

  ModelShape shape_;
  float rms_eps_;
  float softmax_scale_;
  std::vector<Layer> layers_;
  std::vector<MatrixRows> head_;
  const Weight *embedding_ = nullptr;
  uint64_t embedding_row_ = 0;  // of token 0
  const float *output_norm_ = nullptr;
  const float *rope_cos_ = nullptr;
  const float *rope_sin_ = nullptr;
  Buffer<float> vectors_;  // every vector and table, one after the other
  uint64_t kept_ = 0;      // elements of it in use
};

}  // namespace bonsai::cpu
