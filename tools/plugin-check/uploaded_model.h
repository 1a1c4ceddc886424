// A model's weights on a device, and the specification that names them.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "core/model/weights.h"
#include "host/backend/device.h"

namespace bonsai::check {

// Which part of a model goes to the device, and how.
struct Placement {
  uint32_t first_layer = 0;
  uint32_t layers = 0;    // 0: all
  bool embedding = true;  // false: batches bring hidden states
  bool head = true;
  bool stacked = true;  // Q, K and V, and gate and up, as the parts of one weight
  bool borrowed = true;
  bool ends_together = false;  // the embedding behind the head, in one weight
  uint32_t positions = 1024;   // rows of the RoPE tables
};

// The model and the device must outlive it. Throws Failed when a weight is refused, Skipped where its
// shape is not served.
class UploadedModel {
 public:
  UploadedModel(host::Device &device, const model::Model &model, const Placement &placement = {});
  UploadedModel(const UploadedModel &) = delete;
  UploadedModel &operator=(const UploadedModel &) = delete;

  host::Device &device;
  const model::Model &model;
  const Placement placement;
  // The specification and what it points at; checks of bad arguments break them.
  bonsai_model_spec spec{};
  std::deque<bonsai_layer_spec> layers;
  std::deque<bonsai_weight_slice> slices;

 private:
  const bonsai_weight_slice *slice(const host::Weight &weight, uint64_t first_row, uint64_t rows);
  const host::Weight &upload(const std::vector<const gguf::Tensor *> &tensors, bonsai_weight_use uses);
  const bonsai_weight_slice *alone(const gguf::Tensor *tensor, bonsai_weight_use uses);
  void add_layer(const model::LayerWeights &weights);
  void add_ends();

  std::deque<host::Weight> weights_;
  std::vector<const bonsai_layer_spec *> layer_pointers_;
  model::RopeTable rope_;
};

}  // namespace bonsai::check
