// What an engine and its sessions share: the file, the tokenizer, and the device where new sessions run.
#pragma once

#include <bonsai/engine.h>

#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/weights.h"
#include "core/text/tokenizer.h"
#include "host/backend/registry.h"
#include "host/engine/constraint.h"
#include "host/engine/placement.h"

namespace bonsai::host {

struct EngineState {
  EngineOptions options;
  model::Model model;
  std::optional<text::Tokenizer> tokenizer;  // empty where the file has none: `no_tokenizer` says why
  std::string no_tokenizer;
  std::vector<int32_t> end_tokens;  // ids that end a text
  SamplingOptions sampling;         // as the file says, and "balanced" where it does not
  ExecutorConfig sizes;             // of a session, without its blocks: those depend on the device
  mutable Constraints constraints;

  // Throws EngineError.
  static std::shared_ptr<EngineState> load(const EngineOptions &options);

  EngineState() = default;
  EngineState(const EngineState &) = delete;
  EngineState &operator=(const EngineState &) = delete;

  uint32_t context() const { return sizes.context; }
  const text::Tokenizer &require_tokenizer() const;  // throws where the file has none
  // The ids of a text, special tokens that are spelled out included. At the start of a sequence the model's BOS comes
  // first if it wants one, or where there would be nothing else. Throws as Session::append() does.
  std::vector<int32_t> encode(std::string_view text, bool at_start) const;
  void check_tokens(std::span<const int32_t> tokens) const;  // throws: none at all, an id outside the vocabulary
  void log(LogLevel level, std::string_view line) const;

  // Where new sessions run, and why it is not the backend that was opened first (empty: it is).
  struct Home {
    std::shared_ptr<Placement> placement;
    std::string failed_over;
  };
  Home home() const;
  std::shared_ptr<Placement> placement() const { return home().placement; }

  // Where a session goes on after `failed`, on which it ran, gave `error`: to the CPU, with a warning, which new
  // sessions use from then on. Other sessions stay where they are as long as that serves them. Throws EngineError where
  // the CPU may not take over, cannot, or is what failed.
  //
  // What could not start on `failed` for want of memory, or because that takes nothing of its size, says nothing of
  // the device: it goes to the CPU alone, with a warning of its own, and new sessions try the device as before.
  enum class FailedTo { kRun, kStart };
  std::shared_ptr<Placement> fail_over(const Placement &failed, const BackendError &error,
                                       FailedTo what = FailedTo::kRun);

 private:
  void load_tokenizer();
  void choose_request();
  void open_backend();
  ChoiceLog choice_log() const;
  std::shared_ptr<Placement> start_on_cpu(const UploadProgress &progress) const;

  BackendRequest request_;  // as it was when the engine was loaded, whatever has become of the surroundings

  mutable std::mutex mutex_;  // for what follows
  std::shared_ptr<Placement> placement_;
  std::shared_ptr<Placement> cpu_;  // once something has gone over to it
  std::string fail_over_reason_;
};

// What a caller is told of it.
BackendInfo describe(const EngineState::Home &home);

// Throws EngineError unless `result` holds a value.
template <class T>
T value_or_throw(Result<T> result, ErrorKind kind) {
  if (!result) throw EngineError(kind, result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}
template <class T>
T value_or_throw(BackendResult<T> result) {
  if (!result)
    throw EngineError(result.error().is_callers_fault ? ErrorKind::kInvalidArgument : ErrorKind::kBackend,
                      result.error().message);
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace bonsai::host
