// A model's weights on a device, in the shape that the ABI wants them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/model/weights.h"
#include "host/backend/device.h"

namespace bonsai::host {

// Bytes uploaded so far and in all; called from the loading thread.
using UploadProgress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// Weights of one decoder layer, stacked as the kernels like them.
struct DeviceLayer {
  Weight qkv;      // (heads * head_dim + 2 * kv_heads * head_dim, hidden)
  Weight o;        // (hidden, heads * head_dim)
  Weight gate_up;  // (2 * ffn, hidden)
  Weight down;     // (hidden, ffn)
};

// Uploaded once, shared by every executor on the device. Model and device must outlive it.
class DeviceModel {
 public:
  // A dtype that the device does not take is transcoded if that is lossless (core/quant/transcode.h); otherwise the
  // error is BONSAI_UNSUPPORTED and names the tensor and the type. Pages of the file that the backend copied are
  // released.
  static BackendResult<std::unique_ptr<DeviceModel>> upload(const model::Model &model, Device &device,
                                                            const UploadProgress &progress);

  const model::Model &model() const { return model_; }
  Device &device() const { return device_; }
  const std::vector<DeviceLayer> &layers() const { return layers_; }
  const Weight &head() const { return head_ ? head_ : embedding_; }
  // Empty when the device looks no rows up, as below level 2: the host then decodes embedding rows itself.
  const Weight &embedding() const { return embedding_; }
  // What all weights occupy by their backend's account, beside memory of this host that they refer to.
  uint64_t weight_bytes() const { return weight_bytes_; }
  // Such memory: all of a weight's parts, where it keeps pointers into any.
  uint64_t borrowed_bytes() const { return borrowed_bytes_; }

 private:
  friend class Uploader;
  DeviceModel(const model::Model &model, Device &device) : model_(model), device_(device) {}
  const model::Model &model_;
  Device &device_;
  std::vector<std::vector<std::byte>> transcoded_;  // copies that borrowed weights point into: they outlive those below
  std::vector<DeviceLayer> layers_;
  Weight head_, embedding_;
  uint64_t weight_bytes_ = 0, borrowed_bytes_ = 0;
};

}  // namespace bonsai::host
