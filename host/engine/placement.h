// The model on one device: its weights there, and the executors of the sessions that run there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host/backend/device.h"
#include "host/engine/fair_mutex.h"
#include "host/runtime/device_model.h"
#include "host/runtime/executor.h"
#include "host/speculation/pass_costs.h"

namespace bonsai::host {

// Whether a failure is a backend's, whatever status it chose for it, so that the CPU may do better.
bool is_backends_fault(const BackendError &error);

// Whether it is the CPU backend, which takes over from others and has none that could take over from it.
bool is_cpu(const Backend &backend);

class Placement;

// Has an executor destroyed as its placement makes every call on the device: when no other thread is there.
struct Discard {
  Placement *placement = nullptr;
  void operator()(Executor *executor) const noexcept;
};
using LentExecutor = std::unique_ptr<Executor, Discard>;  // its placement outlives it

// Shared by the engine and every session that runs on the device, and gone with the last of them. All functions may be
// called from any thread: one at a time reaches the device, and none does once it is lost. The model outlives this.
class Placement {
 public:
  // Brings the weights to `device` and makes a first executor, so that what cannot run fails here. `sizes` without its
  // blocks, which depend on the device.
  static BackendResult<std::shared_ptr<Placement>> create(const model::Model &model, std::unique_ptr<Device> device,
                                                          const ExecutorConfig &sizes, const UploadProgress &progress);
  ~Placement();
  Placement(const Placement &) = delete;
  Placement &operator=(const Placement &) = delete;

  const Backend &backend() const { return device_->backend(); }
  const std::string &device_name() const { return device_->info().name; }
  const ExecutorConfig &executor_config() const { return executor_config_; }
  uint64_t session_bytes() const { return session_bytes_; }  // of one executor: KV cache and scratch
  // Zeros where the device does not say, but for what its weights occupy and borrow, which it said when they were
  // uploaded.
  Device::Status status();
  BackendResult<std::optional<std::vector<Device::Phase>>> profile(bonsai_profile_action action);

  // One executor for each session, which may be given back for the next one. Numbers that no model's logits can be,
  // from a backend that is not the CPU's, are its failure: NaN and +infinity.
  BackendResult<LentExecutor> take_executor();
  void give_back(LentExecutor executor);
  BackendResult<void> forward(Executor &executor, const Batch &batch, std::span<Output> outputs);

  // Whether a pass runs while this host does other things, so that submitting one ahead of time pays: on a processor of
  // this host it would only be in the way of what is due.
  bool runs_elsewhere() const { return runs_elsewhere_; }
  // Whether no byte depends on what is computed together.
  bool is_deterministic() const { return (device_->info().features & BONSAI_FEATURE_DETERMINISTIC) != 0; }
  // Executor::submit() and wait(); drop() waits for all that is in flight, whatever comes of it.
  BackendResult<void> submit(Executor &executor, const Batch &batch, Output output);
  BackendResult<Output> wait(Executor &executor);
  void drop(Executor &executor);

  // An executor of other sizes. What is kept in reserve gives way where there is no memory for both.
  BackendResult<LentExecutor> make_executor(const ExecutorConfig &sizes);
  BackendResult<void> kv_copy(Executor &executor, std::span<const uint32_t> sources,
                              std::span<const uint32_t> destinations);
  BackendResult<void> kv_export(Executor &executor, std::span<const uint32_t> blocks, uint32_t n_tokens,
                                std::span<std::byte> data);
  BackendResult<void> kv_import(Executor &executor, std::span<const uint32_t> blocks, uint32_t n_tokens,
                                std::span<const std::byte> data);

  // What sessions have learned here.
  PassCosts &pass_costs() { return pass_costs_; }

  // Nothing is kept in reserve until another session ends.
  void drop_reserve();
  // No new session will come: nothing is kept in reserve from here on.
  void retire();

 private:
  friend struct Discard;
  Placement(std::unique_ptr<Device> device, const ExecutorConfig &sizes);
  BackendResult<void> start(const model::Model &model, const UploadProgress &progress);
  BackendResult<void> check_numbers(std::span<const Output> outputs) const;
  LentExecutor lend(std::unique_ptr<Executor> executor) { return {executor.release(), {this}}; }
  template <class Call>
  auto on_device(Call call) -> decltype(call());

  ExecutorConfig executor_config_;
  uint64_t session_bytes_ = 0;
  bool runs_elsewhere_ = false;
  PassCosts pass_costs_;

  FairMutex mutex_;                   // held for every call on the device and on what was made from it
  std::optional<BackendError> lost_;  // BONSAI_DEVICE_LOST as it was first reported: from then on, only frees are legal
  bool retired_ = false;
  // Destroyed from the last to the first: executors before weights, weights before the device.
  std::unique_ptr<Device> device_;
  std::unique_ptr<DeviceModel> device_model_;
  std::unique_ptr<Executor> spare_executor_;  // of a session that ended, or from the start
};

}  // namespace bonsai::host
