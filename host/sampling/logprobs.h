// Log-probabilities of a row of logits.
#pragma once

#include <bonsai/logprobs.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace bonsai::host {

// log softmax over the row, in float64; the largest logit is subtracted first, so that exp stays in range.
class LogProbs {
 public:
  // The `n_top` likeliest of `logits` (vocab); all if there are fewer. Copies the row, which may change afterwards.
  // Error: logits that are no distribution, as they hold NaN or +infinity, or nothing but -infinity.
  static Result<LogProbs> create(std::span<const float> logits, uint32_t n_top);

  // For a token of the vocabulary.
  TokenLogProbs of(int32_t token) const;

 private:
  LogProbs(std::span<const float> logits, double log_sum_exp);
  double logprob(int32_t token) const { return double{logits_[static_cast<size_t>(token)]} - log_sum_exp_; }
  void find_top(uint32_t n);

  std::vector<float> logits_;
  double log_sum_exp_;
  std::vector<LogProb> top_;
};

}  // namespace bonsai::host
