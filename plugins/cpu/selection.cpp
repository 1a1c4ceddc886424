#include "plugins/cpu/selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

namespace bonsai::cpu {
namespace {

// A number that orders logits as the ABI does: larger value, then lower id; +0 and -0 are equal, NaN is lowest.
uint64_t rank_of(float value, uint32_t id) {
  uint32_t order = 0;
  if (!std::isnan(value)) {
    const uint32_t bits = std::bit_cast<uint32_t>(value + 0.0f);  // -0 becomes +0
    order = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  }
  return uint64_t{order} << 32 | ~id;
}

int32_t id_of(uint64_t rank) { return static_cast<int32_t>(~static_cast<uint32_t>(rank)); }

// ln of a positive finite number, the same on every machine: x = m 2^e with m around 1, and the series of 2 atanh(s),
// s = (m - 1) / (m + 1), |s| < 0.172, whose remainder after s^21 is below 1e-18.
double natural_log(double x) {
  int exponent = 0;
  double mantissa = std::frexp(x, &exponent);
  if (mantissa < std::numbers::sqrt2 / 2) {
    mantissa *= 2;
    --exponent;
  }
  const double s = (mantissa - 1) / (mantissa + 1), square = s * s;
  double series = 0;
  for (int n = 21; n >= 1; n -= 2) series = series * square + 1.0 / n;
  return exponent * std::numbers::ln2 + 2 * s * series;
}

}  // namespace

void adjust_logits(const bonsai_output &output, std::span<float> logits) {
  for (uint32_t i = 0; i < output.n_adjustments; ++i) {
    float &logit = logits[static_cast<uint32_t>(output.adjust_ids[i])];
    const float repeat = output.adjust_repeat[i];
    logit = (logit > 0 ? logit / repeat : logit * repeat) + output.adjust_add[i];
  }
  if (output.mask) {
    for (size_t i = 0; i < logits.size(); ++i) {
      if (!(output.mask[i / 32] >> (i % 32) & 1)) logits[i] = -std::numeric_limits<float>::infinity();
    }
  }
  if (output.temperature != 0 && output.temperature != 1) {
    for (float &logit : logits) logit /= output.temperature;
  }
}

int32_t find_largest(const KernelTable &kernels, std::span<const float> logits) {
  const float largest = kernels.max_value(logits.data(), logits.size());
  const auto found = std::find(logits.begin(), logits.end(), largest);
  return found == logits.end() ? 0 : static_cast<int32_t>(found - logits.begin());
}

void find_top(std::span<const float> logits, std::span<int32_t> ids, std::span<uint64_t> ranks) {
  const size_t k = ids.size();
  const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(k);
  for (uint32_t id = 0; id < k; ++id) ranks[id] = rank_of(logits[id], id);
  std::make_heap(ranks.begin(), end, std::greater<>{});  // the least of the k best in front
  float least = logits[static_cast<uint32_t>(id_of(ranks[0]))];
  for (uint32_t id = static_cast<uint32_t>(k); id < logits.size(); ++id) {
    if (logits[id] < least) continue;  // what most ids meet
    const uint64_t rank = rank_of(logits[id], id);
    if (rank < ranks[0]) continue;
    std::pop_heap(ranks.begin(), end, std::greater<>{});
    *(end - 1) = rank;
    std::push_heap(ranks.begin(), end, std::greater<>{});
    least = logits[static_cast<uint32_t>(id_of(ranks[0]))];
  }
  std::sort_heap(ranks.begin(), end, std::greater<>{});
  std::transform(ranks.begin(), end, ids.begin(), id_of);
}

float log_sum_exp(const KernelTable &kernels, std::span<const float> logits) {
  const float largest = kernels.max_value(logits.data(), logits.size());
  if (std::isinf(largest)) return largest;
  const double sum = kernels.sum_exp(logits.data(), logits.size(), largest);
  if (std::isnan(sum)) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(static_cast<double>(largest) + natural_log(sum));
}

}  // namespace bonsai::cpu
