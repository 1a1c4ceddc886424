// What an engine and its sessions share: the file, the tokenizer, the device and the weights on it.
#pragma once

#include <bonsai/engine.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "core/model/weights.h"
#include "core/text/tokenizer.h"
#include "host/backend/device.h"
#include "host/backend/registry.h"
#include "host/runtime/device_model.h"
#include "host/runtime/executor.h"

namespace bonsai::host {

// Members are destroyed from the last to the first: executors before weights, weights before the device.
struct EngineState {
  EngineOptions options;
  model::Model model;
  std::optional<text::Tokenizer> tokenizer;  // empty where the file has none: `no_tokenizer` says why
  std::string no_tokenizer;
  std::vector<int32_t> end_tokens;  // ids that end a text
  ExecutorConfig executor_config;

  std::mutex device_mutex;  // held for every call on the device and on what was made from it
  std::unique_ptr<Device> device;
  std::unique_ptr<DeviceModel> device_model;
  uint64_t session_bytes = 0;                // of one executor: KV cache and scratch
  std::unique_ptr<Executor> spare_executor;  // made at loading, so that what cannot run fails there; reused afterwards

  // Throws EngineError.
  static std::shared_ptr<EngineState> load(const EngineOptions &options);

  EngineState() = default;
  ~EngineState();
  EngineState(const EngineState &) = delete;
  EngineState &operator=(const EngineState &) = delete;

  uint32_t context() const { return executor_config.context; }
  const text::Tokenizer &require_tokenizer() const;  // throws where the file has none
  void log(LogLevel level, std::string_view line) const;

  std::unique_ptr<Executor> take_executor();
  void give_back_executor(std::unique_ptr<Executor> executor);

 private:
  void load_tokenizer();
  void open_backend();
  BackendResult<void> start_on_device();
};

// Throws EngineError unless `result` holds a value.
template <class T>
T value_or_throw(Result<T> result, ErrorKind kind) {
  if (!result) throw EngineError(kind, result.error().message);
  return *std::move(result);
}
template <class T>
T value_or_throw(BackendResult<T> result) {
  if (!result) throw EngineError(ErrorKind::kBackend, result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace bonsai::host
