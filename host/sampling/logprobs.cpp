#include "host/sampling/logprobs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/floating_point_environment.h"

namespace bonsai::host {

Result<LogProbs> LogProbs::create(std::span<const float> logits, uint32_t n_top) {
  const DefaultFloatingPoint environment;
  // NaN never becomes the largest, but its exp does reach the sum.
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) largest = std::max(largest, logit);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  const double log_sum_exp = largest + std::log(sum);
  if (!std::isfinite(log_sum_exp))
    return tl::unexpected(
        Error{"logprobs: the logits are no distribution, as they hold NaN or +infinity, or nothing but -infinity"});
  LogProbs result(logits, log_sum_exp);
  result.find_top(n_top);
  return result;
}

LogProbs::LogProbs(std::span<const float> logits, double log_sum_exp)
    : logits_(logits.begin(), logits.end()), log_sum_exp_(log_sum_exp) {}

void LogProbs::find_top(uint32_t n) {
  std::vector<int32_t> ids(logits_.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + std::min<std::ptrdiff_t>(n, std::ssize(ids));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float logit_a = logits_[static_cast<size_t>(a)], logit_b = logits_[static_cast<size_t>(b)];
    return logit_a > logit_b || (logit_a == logit_b && a < b);
  });
  for (auto id = ids.begin(); id != end; ++id) top_.push_back({*id, logprob(*id)});
}

TokenLogProbs LogProbs::of(int32_t token) const {
  const DefaultFloatingPoint environment;
  return {.chosen = {token, logprob(token)}, .top = top_};
}

}  // namespace bonsai::host
