// Log-probabilities of a row of logits.
#pragma once

#include <bonsai/logprobs.h>

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.h"

namespace bonsai::host {

// log softmax over a row, in float64.
class LogProbs {
 public:
  LogProbs() = default;  // of no row

  // The `n_top` likeliest of `logits` (vocab); all if there are fewer. Error: logits that are no distribution, as they
  // hold NaN or +infinity, or nothing but -infinity.
  static Result<LogProbs> create(std::span<const float> logits, uint32_t n_top);

  // For a token of the vocabulary and its logit in that row, which need not be kept.
  TokenLogProbs of(int32_t token, float logit) const;

 private:
  double log_sum_exp_ = 0;
  std::vector<LogProb> top_;
};

struct LogProbsRequest {
  std::span<const float> logits;  // (vocabulary)
  uint32_t n_top = 0;
};

// LogProbs::create() for each. A row of 151,936 logits takes a millisecond or two, so that up to `n_threads` share the
// work; of more than there are cores oneTBB warns.
std::vector<Result<LogProbs>> create_logprobs(std::span<const LogProbsRequest> requests, uint32_t n_threads);

}  // namespace bonsai::host
