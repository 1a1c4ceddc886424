// One sequence: its tokens, which of them the KV cache holds, and the logits behind the last.
#pragma once

#include <bonsai/engine.h>

#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "host/engine/engine_state.h"

namespace bonsai::host {

// All functions throw EngineError.
class SessionState {
 public:
  explicit SessionState(std::shared_ptr<EngineState> engine);
  ~SessionState();
  SessionState(const SessionState &) = delete;
  SessionState &operator=(const SessionState &) = delete;

  const EngineState &engine() const { return *engine_; }
  std::span<const int32_t> tokens() const { return tokens_; }
  uint32_t length() const { return static_cast<uint32_t>(tokens_.size()); }
  uint32_t room() const { return engine_->context() - length(); }

  void append_text(std::string_view text);
  void append_tokens(std::span<const int32_t> tokens);
  void truncate(uint32_t length);

  // How many tokens compute() would run.
  uint32_t n_pending() const { return length() - n_computed_; }

  // Brings the KV cache and the logits up to the last token, in pieces of a batch. False if cancelled between two; what
  // was done by then stays. Precondition: the session is not empty.
  bool compute(const std::stop_token &cancel = {});

  // The logits behind the last token; the caller may change them. Precondition: compute() returned true and nothing was
  // appended or truncated since.
  std::span<float> logits() { return logits_; }

  void evaluate(std::span<const int32_t> tokens, const LogitsCallback &callback);

 private:
  // Runs the next `n` tokens, with logits for those that `outputs` name by their place in the batch.
  void forward(uint32_t n, std::span<Output> outputs);

  std::shared_ptr<EngineState> engine_;
  std::unique_ptr<Executor> executor_;
  std::vector<uint32_t> block_table_;
  std::vector<int32_t> tokens_;
  uint32_t n_computed_ = 0;    // tokens whose keys and values are in the cache
  std::vector<float> logits_;  // (vocabulary); of the last token once nothing is pending
};

// The loop behind Session::generate().
Generation generate(SessionState &session, const GenerateOptions &options, const TextCallback &callback);

}  // namespace bonsai::host
