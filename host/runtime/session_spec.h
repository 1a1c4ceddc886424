// A device model as the ABI's structs describe it to session_create.
#pragma once

#include <bonsai/backend.h>

#include <vector>

#include "core/model/config.h"
#include "host/runtime/device_model.h"

namespace bonsai::host {

// Everything that `raw()` points to lives in this object, in the model or on its device. Backends read it during
// session_memory and session_create only.
class SessionSpec {
 public:
  // RoPE tables reach to position `context` - 1.
  SessionSpec(const DeviceModel &model, uint32_t context);
  SessionSpec(const SessionSpec &) = delete;
  SessionSpec &operator=(const SessionSpec &) = delete;

  const bonsai_model_spec &raw() const { return raw_; }

 private:
  const bonsai_weight_slice *slice(const Weight &weight, uint64_t first_row, uint64_t rows);
  void add_layer(const DeviceLayer &matrices, const model::LayerWeights &weights, const model::Config &shape);

  model::RopeTable rope_;
  std::vector<bonsai_weight_slice> slices_;  // reserved once: the structs below point into it
  std::vector<bonsai_layer_spec> layers_;
  std::vector<const bonsai_layer_spec *> layer_pointers_;
  bonsai_model_spec raw_{};
};

}  // namespace bonsai::host
