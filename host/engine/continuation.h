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
#include "host/sampling/logprobs.h"
#include "host/sampling/sampler.h"
#include "host/sampling/stop_strings.h"

namespace bonsai::host {

// Engine, options and callback outlive it. For each token: selection() where the device can select, choose(), then,
// once whoever computes has it, accept().
class Continuation {
 public:
  // `before`: the tokens that are continued. Throws EngineError where an option is out of range.
  Continuation(const EngineState &engine, const GenerateOptions &options, const TextCallback &callback,
               std::span<const int32_t> before);

  // What a device has to pick out of the next row for choose() to choose from that as from all logits.
  Selection selection(const SelectionLimits &limits);

  // How likely a token of the prompt was, by the logits (vocabulary) ahead of it and what was made of them. In the
  // order of the prompt, before anything is chosen.
  void score(int32_t token, std::span<const float> logits, const LogProbs &logprobs);
  uint32_t n_scored() const { return static_cast<uint32_t>(result_.prompt_logprobs.size()); }

  // The token that follows the logits (vocabulary), which bias and penalties change; nullopt: the text has ended.
  std::optional<int32_t> choose(std::span<float> logits);
  // The same where log-probabilities are asked for and were made of these logits before.
  std::optional<int32_t> choose(std::span<float> logits, const LogProbs &logprobs);
  // The same from what selection() asked for.
  std::optional<int32_t> choose(const TopLogits &top);

  // What the next tokens may be, if others than the model's own logits decided: the same choices with the same random
  // numbers, behind those that were guessed before. Only one at a time, and nothing else happens meanwhile.
  class Guess {
   public:
    explicit Guess(Continuation &continuation);
    ~Guess();
    Guess(const Guess &) = delete;
    Guess &operator=(const Guess &) = delete;

    Selection selection(const SelectionLimits &limits);
    // nullopt: the text would end, or no choice can be made. Changes the logits as choose() does.
    std::optional<int32_t> next(std::span<float> logits);
    std::optional<int32_t> next(const TopLogits &top);

   private:
    std::optional<int32_t> take(const Result<int32_t> &token);
    Continuation &continuation_;
    Sampler sampler_;
    size_t n_constrained_ = 0;  // tokens that the constraint was told
  };

  // Shows the chosen token's text. `room`: tokens that may follow it. A value: what ended the generation.
  std::optional<FinishReason> accept(int32_t token, uint32_t room);

  // What was generated, complete: text that was held back is shown. Called once, at the end.
  Generation finish(FinishReason reason);

  GenerationStats &stats() { return result_.stats; }
  uint32_t n_left() const { return options_.max_tokens - static_cast<uint32_t>(result_.tokens.size()); }

 private:
  Sampler make_sampler() const;
  std::optional<Constraint> make_constraint();
  static Selection restricted(Selection selection, const SelectionLimits &limits, Constraint &constraint);
  std::optional<int32_t> choose_from(std::span<float> logits, const LogProbs *logprobs);
  std::optional<int32_t> unless_it_ends(int32_t token);
  bool show(const std::string &text);

  const EngineState &engine_;
  const GenerateOptions &options_;
  const TextCallback &callback_;
  Sampler sampler_;
  text::StreamDecoder decoder_;
  StopStrings stops_;
  Generation result_;
  std::optional<Constraint> constraint_;
  std::optional<TokenLogProbs> logprobs_;  // of the token that was chosen last, if they were asked for
  std::vector<float> unadjusted_;          // (vocabulary) logits as the model made them; kept for its memory
  bool refused_ = false;                   // by the callback
};

}  // namespace bonsai::host
