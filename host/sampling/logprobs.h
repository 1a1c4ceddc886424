// Log-probabilities of a row of logits.
#pragma once

#include <bonsai/logprobs.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace bonsai::host {

// log softmax over the row, in float64.
class LogProbs {
 public:
  // The `n_top` likeliest of `logits` (vocab); all if there are fewer. Copies the row, which may change afterwards.
  // Error: logits that are no distribution, as they hold NaN or +infinity, or nothing but -infinity.
  static Result<LogProbs> create(std::span<const float> logits, uint32_t n_top);

  // For a token of the vocabulary.
  TokenLogProbs of(int32_t token) const;

 private:
  LogProbs() = default;

  std::vector<float> logits_;
  double log_sum_exp_ = 0;
  std::vector<LogProb> top_;
};

// How likely each of the tokens was, (rows), by the logits (vocabulary) ahead of it, with the `n_top` likeliest. A row
// of 151,936 logits takes a millisecond, so that up to `n_threads` (0: as many as there are cores) share the work.
Result<std::vector<TokenLogProbs>> score_tokens(std::span<const int32_t> tokens,
                                                std::span<const std::span<const float>> rows, uint32_t n_top,
                                                uint32_t n_threads);

}  // namespace bonsai::host
