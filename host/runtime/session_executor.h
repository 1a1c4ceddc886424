// Levels 1 and 2: the backend holds the KV cache and runs whole layers, or whole batches.
#pragma once

#include <bonsai/backend.h>

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "host/runtime/executor.h"

namespace bonsai::host {

class SessionExecutor final : public Executor {
 public:
  // Makes a session on the model's device. `level` is 1 or 2 and offered by the backend; `config` has been checked.
  static BackendResult<std::unique_ptr<Executor>> create(const DeviceModel &model, const ExecutorConfig &config,
                                                         int level);
  ~SessionExecutor() override;
  SessionExecutor(const SessionExecutor &) = delete;
  SessionExecutor &operator=(const SessionExecutor &) = delete;

  const ExecutorConfig &config() const override { return config_; }
  int level() const override { return level_; }
  uint64_t memory_bytes() const override { return memory_bytes_; }
  SelectionLimits selection_limits() const override { return limits_; }
  BackendResult<void> forward(const Batch &batch, std::span<Output> outputs) override;
  bool chains() const override;
  BackendResult<void> submit(const Batch &batch, Output output) override;
  BackendResult<Output> wait() override;
  uint32_t n_in_flight() const override { return static_cast<uint32_t>(in_flight_.size()); }
  BackendResult<void> kv_copy(std::span<const uint32_t> sources, std::span<const uint32_t> destinations) override;
  BackendResult<void> kv_export(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                std::span<std::byte> data) override;
  BackendResult<void> kv_import(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                std::span<const std::byte> data) override;

 private:
  SessionExecutor(const DeviceModel &model, const ExecutorConfig &config, int level);
  bonsai_batch raw_batch(const Batch &batch);
  void prepare_outputs(std::span<Output> outputs);
  BackendResult<void> check_top(const Output &output);
  BackendResult<void> check_found(std::span<const Output> outputs);
  BackendResult<void> run_layers(const bonsai_batch &batch);
  BackendResult<void> run_forward(const bonsai_batch &batch);
  BackendResult<uint64_t> start_last(const Batch &batch);
  BackendResult<uint64_t> submit_forward(const bonsai_batch &batch);
  BackendResult<void> wait_forward(uint64_t ticket);
  const bonsai_backend_api &api() const { return model_.device().api(); }

  // A pass that was submitted; results are written into its output.
  struct InFlight {
    uint64_t ticket;
    Output output;
  };

  const DeviceModel &model_;
  ExecutorConfig config_;
  int level_;
  SelectionLimits limits_;
  bonsai_session *session_ = nullptr;
  uint64_t memory_bytes_ = 0;
  std::vector<float> hidden_;  // (max_tokens, hidden) embeddings, where the host decodes them; else empty
  std::vector<bonsai_output> raw_outputs_;
  std::vector<const bonsai_output *> output_pointers_;
  std::vector<bool> is_selected_;   // (vocab) by the output that is being checked; none between checks
  std::deque<InFlight> in_flight_;  // outlives the session: until that is destroyed, its passes may write here
};

}  // namespace bonsai::host
