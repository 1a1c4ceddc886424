#include "host/sampling/logprobs.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "core/base/floating_point_environment.h"
#include "core/base/runnable_threads.h"

namespace bonsai::host {

namespace {

// In float64; the largest logit is subtracted first, so that exp stays in range.
Result<double> log_sum_exp(std::span<const float> logits) {
  // NaN never becomes the largest, but its exp does reach the sum.
  float largest = -std::numeric_limits<float>::infinity();
  for (const float logit : logits) largest = std::max(largest, logit);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double{logit} - largest);
  const double result = largest + std::log(sum);
  if (!std::isfinite(result))
    return fail("logprobs: the logits are no distribution, as they hold NaN or +infinity, or nothing but -infinity");
  return result;
}

LogProb logprob_of(int32_t token, float logit, double log_sum_exp) { return {token, double{logit} - log_sum_exp}; }

// In falling order, of equal ones the lower id first. So few are wanted of so many that hardly one of them is looked at
// twice.
std::vector<LogProb> likeliest(std::span<const float> logits, double log_sum_exp, uint32_t n) {
  const auto is_likelier = [&](int32_t a, int32_t b) {
    const float logit_a = logits[static_cast<size_t>(a)], logit_b = logits[static_cast<size_t>(b)];
    return logit_a > logit_b || (logit_a == logit_b && a < b);
  };
  std::vector<int32_t> ids;  // a heap with the least likely on top
  for (int32_t id = 0; n > 0 && id < std::ssize(logits); ++id) {
    if (ids.size() == n) {
      if (!is_likelier(id, ids.front())) continue;
      std::pop_heap(ids.begin(), ids.end(), is_likelier);
      ids.pop_back();
    }
    ids.push_back(id);
    std::push_heap(ids.begin(), ids.end(), is_likelier);
  }
  std::sort_heap(ids.begin(), ids.end(), is_likelier);
  std::vector<LogProb> top;
  for (const int32_t id : ids) top.push_back(logprob_of(id, logits[static_cast<size_t>(id)], log_sum_exp));
  return top;
}

}  // namespace

Result<LogProbs> LogProbs::create(std::span<const float> logits, uint32_t n_top) {
  const DefaultFloatingPoint environment;
  const Result<double> sum = log_sum_exp(logits);
  if (!sum) return tl::unexpected(sum.error());
  LogProbs result;
  result.log_sum_exp_ = *sum;
  result.top_ = likeliest(logits, *sum, n_top);
  return result;
}

TokenLogProbs LogProbs::of(int32_t token, float logit) const {
  const DefaultFloatingPoint environment;
  return {.chosen = logprob_of(token, logit, log_sum_exp_), .top = top_};
}

std::vector<Result<LogProbs>> create_logprobs(std::span<const LogProbsRequest> requests, uint32_t n_threads) {
  std::vector<Result<LogProbs>> results(requests.size());
  const auto create = [&](size_t i) { results[i] = LogProbs::create(requests[i].logits, requests[i].n_top); };
  const size_t n_wanted = std::min<size_t>(requests.size(), n_threads);
  if (n_wanted < 2) {
    for (size_t i = 0; i < requests.size(); ++i) create(i);
    return results;
  }
  tbb::task_arena arena(runnable_threads(static_cast<int>(n_wanted)));
  arena.execute([&] { tbb::parallel_for(size_t{0}, requests.size(), create); });
  return results;
}

}  // namespace bonsai::host
