// Level 0: the forward pass composed in float32 on the host from the device's matrix products. One thread;
// the equations are the reference's, the code and the arithmetic are not.
#pragma once

#include <span>
#include <vector>

#include "core/model/config.h"
#include "host/runtime/executor.h"
#include "host/runtime/kv_cache.h"

namespace bonsai::host {

class Composer final : public Executor {
 public:
  // `config` has been checked. Allocates the KV cache and all scratch.
  Composer(const DeviceModel &model, const ExecutorConfig &config);

  const ExecutorConfig &config() const override { return config_; }
  int level() const override { return 0; }
  uint64_t memory_bytes() const override;
  SelectionLimits selection_limits() const override { return {}; }
  BackendResult<void> forward(const Batch &batch, std::span<Output> outputs) override;
  BackendResult<void> kv_copy(std::span<const uint32_t> sources, std::span<const uint32_t> destinations) override;
  BackendResult<void> kv_export(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                std::span<std::byte> data) override;
  BackendResult<void> kv_import(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                std::span<const std::byte> data) override;

 private:
  BackendResult<void> run_layer(uint32_t layer, const Batch &batch);
  BackendResult<void> run_outputs(std::span<Output> outputs);
  BackendResult<void> run_head(std::span<Output *const> outputs);
  void output_norm(const Output &output, float *h) const;
  void rotate_and_store(uint32_t layer, const Batch &batch);
  void attend(uint32_t layer, const Batch &batch);
  void attend_run(uint32_t layer, uint32_t kv_head, const Batch &batch, size_t begin, size_t end);
  BackendResult<void> multiply(const Weight &weight, uint64_t rows, size_t n, const std::vector<float> &x,
                               std::vector<float> &y);
  void rope(float *head, uint32_t position) const;

  const DeviceModel &model_;
  const model::Config &shape_;
  ExecutorConfig config_;
  model::RopeTable rope_;
  KvCache kv_;
  // For a batch of n tokens, the first n rows:
  std::vector<float> x_;         // (max_tokens, hidden) the residual stream
  std::vector<float> h_;         // (max_tokens, hidden) what a norm or a projection gives
  std::vector<float> qkv_;       // (max_tokens, (heads + 2 * kv_heads) * head_dim)
  std::vector<float> attended_;  // (max_tokens, heads * head_dim)
  std::vector<float> gate_up_;   // (max_tokens, 2 * ffn)
  std::vector<float> swiglu_;    // (max_tokens, ffn)
  std::vector<float> logits_;    // (kHeadRows, vocab)
  // For one kv head of one sequence:
  std::vector<float> keys_, values_;  // (context, head_dim)
  std::vector<float> scores_;         // (context)
};

}  // namespace bonsai::host
