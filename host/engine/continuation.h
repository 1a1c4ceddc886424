// What one generation says: it chooses tokens from logits, turns them into text, and knows when to end. It does not
// know who computes the logits: a session, or a step that serves many requests.
#pragma once

#include <bonsai/engine.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/text/tokenizer.h"
#include "host/engine/constraint.h"
#include "host/engine/engine_state.h"
#include "host/sampling/sampler.h"
#include "host/sampling/stop_strings.h"

namespace bonsai::host {

// Engine, options and callback outlive it. For each token: choose(), then, once whoever computes has it, accept().
class Continuation {
 public:
  // `before`: the tokens that are continued. Throws EngineError where an option is out of range.
  Continuation(const EngineState &engine, const GenerateOptions &options, const TextCallback &callback,
               std::span<const int32_t> before);

  // The token that follows the logits (vocabulary), which bias and penalties change; nullopt: the text has ended.
  std::optional<int32_t> choose(std::span<float> logits);

  // Shows the chosen token's text. `room`: tokens that may follow it. A value: what ended the generation.
  std::optional<FinishReason> accept(int32_t token, uint32_t room);

  // What was generated, complete: text that was held back is shown. Called once, at the end.
  Generation finish(FinishReason reason);

  GenerationStats &stats() { return result_.stats; }

 private:
  Sampler make_sampler() const;
  std::optional<Constraint> make_constraint();
  bool show(const std::string &text);

  const EngineState &engine_;
  const GenerateOptions &options_;
  const TextCallback &callback_;
  Sampler sampler_;
  text::StreamDecoder decoder_;
  StopStrings stops_;
  Generation result_;
  std::optional<Constraint> constraint_;
  bool refused_ = false;  // by the callback
};

}  // namespace bonsai::host
