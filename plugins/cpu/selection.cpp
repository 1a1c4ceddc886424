#include "plugins/cpu/selection.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
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

// The value that a rank was made of; +0 for both zeros.
float value_of(uint64_t rank) {
  const auto order = static_cast<uint32_t>(rank >> 32);
  if (order == 0) return std::numeric_limits<float>::quiet_NaN();
  return std::bit_cast<float>(order & 0x80000000u ? order & 0x7fffffffu : ~order);
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

// Four logits at a time, by GCC's and Clang's vectors: one by one, the mask of a grammar over 151,936 logits took 0.2
// ms and their 40 largest 0.15 ms.
using Four = float __attribute__((vector_size(16)));
using FourBits = uint32_t __attribute__((vector_size(16)));

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

void forbid_in_word(uint32_t allowed, float *logits) {
  constexpr Four kForbiddenFour = {kForbidden, kForbidden, kForbidden, kForbidden};
  constexpr FourBits kPlaces = {1, 2, 4, 8};
  for (uint32_t i = 0; i < 32; i += 4) {
    Four four;
    std::memcpy(&four, logits + i, sizeof four);
    four = ((allowed >> i) & kPlaces) != 0 ? four : kForbiddenFour;
    std::memcpy(logits + i, &four, sizeof four);
  }
}

// -infinity where a bit of the mask is 0.
void forbid(const uint32_t *mask, std::span<float> logits, uint32_t first_id) {
  size_t i = 0;
  const auto forbid_one_by_one = [&](size_t end) {
    for (; i < end; ++i) {
      const size_t id = first_id + i;
      if (!(mask[id / 32] >> id % 32 & 1)) logits[i] = kForbidden;
    }
  };
  forbid_one_by_one(std::min<size_t>((32 - first_id % 32) % 32, logits.size()));
  for (; i + 32 <= logits.size(); i += 32) {
    const uint32_t allowed = mask[(first_id + i) / 32];
    if (allowed != ~0u) forbid_in_word(allowed, logits.data() + i);
  }
  forbid_one_by_one(logits.size());
}

// Logits up to this come behind one of `value` that has been kept; an equal one does where its id is higher. NaN if no
// logit has to, as `logit <= NaN` is false.
float bound_of(float value, bool is_behind) {
  if (is_behind) return value;
  const float below = std::nextafter(value, -std::numeric_limits<float>::infinity());
  return below < value ? below : std::numeric_limits<float>::quiet_NaN();
}

std::optional<float> unless_nan(float value) { return std::isnan(value) ? std::nullopt : std::optional(value); }

constexpr size_t kRun = 16;  // logits that TopLogits looks at together

// Whether all of a run are at most `least`; NaN on either side is not.
bool all_at_most(const float *logits, float least) {
  Four four[kRun / 4];
  std::memcpy(four, logits, sizeof four);
  const auto are = (four[0] <= least) & (four[1] <= least) & (four[2] <= least) & (four[3] <= least);
  return (are[0] & are[1] & are[2] & are[3]) != 0;
}

}  // namespace

bool adjusted_ids_rise(const bonsai_output &output) {
  return std::is_sorted(output.adjust_ids, output.adjust_ids + output.n_adjustments);
}

void adjust_logits(const bonsai_output &output, bool ids_rise, std::span<float> logits, uint32_t first_id) {
  const int32_t *const ids = output.adjust_ids, *const ids_end = ids + output.n_adjustments;
  uint32_t begin = 0, end = output.n_adjustments;
  if (ids_rise) {
    begin = static_cast<uint32_t>(std::lower_bound(ids, ids_end, static_cast<int32_t>(first_id)) - ids);
    const int64_t last_id = int64_t{first_id} + static_cast<int64_t>(logits.size());
    end = static_cast<uint32_t>(std::lower_bound(ids + begin, ids_end, last_id) - ids);
  }
  for (uint32_t i = begin; i < end; ++i) {
    const uint32_t place = static_cast<uint32_t>(output.adjust_ids[i]) - first_id;  // wraps around below first_id
    if (place >= logits.size()) continue;
    float &logit = logits[place];
    const float repeat = output.adjust_repeat[i];
    logit = (logit > 0 ? logit / repeat : logit * repeat) + output.adjust_add[i];
  }
  if (output.mask) forbid(output.mask, logits, first_id);
  if (output.temperature != 0 && output.temperature != 1) {
    for (float &logit : logits) logit /= output.temperature;
  }
}

void LargestLogit::add(const KernelTable &kernels, std::span<const float> logits, uint32_t first_id) {
  const float largest = kernels.max_value(logits.data(), logits.size());
  if (largest < value_) return;
  const auto found = std::find(logits.begin(), logits.end(), largest);
  if (found == logits.end()) return;
  add(*found, static_cast<int32_t>(first_id + static_cast<uint32_t>(found - logits.begin())));
}

std::optional<float> LargestLogit::least(uint32_t first_id) const {
  if (id_ < 0) return std::nullopt;
  return unless_nan(bound_of(value_, static_cast<uint32_t>(id_) < first_id));
}

void LargestLogit::add(float value, int32_t id) {
  if (id < 0 || (id_ >= 0 && (value < value_ || (value == value_ && id > id_)))) return;
  value_ = value;
  id_ = id;
}

// Until k are kept, they are a heap all the same: the least of them in front.
void TopLogits::add_rank(uint64_t rank, std::span<uint64_t> ranks) {
  const auto begin = ranks.begin();
  if (kept_ == ranks.size()) {
    if (rank < ranks[0]) return;
    std::pop_heap(begin, begin + kept_, std::greater<>{});
    --kept_;
  }
  ranks[kept_++] = rank;
  std::push_heap(begin, begin + kept_, std::greater<>{});
}

void TopLogits::add(std::span<const float> logits, uint32_t first_id, std::span<uint64_t> ranks) {
  size_t i = 0;
  for (; i < logits.size() && kept_ < ranks.size(); ++i) {
    add_rank(rank_of(logits[i], first_id + static_cast<uint32_t>(i)), ranks);
  }
  const bool rises = first_id >= next_id_;
  next_id_ = std::max(next_id_, first_id + static_cast<uint32_t>(logits.size()));
  if (i == logits.size()) return;
  float bound = bound_of(value_of(ranks[0]), rises);
  for (; i < logits.size(); ++i) {
    // What most ids meet.
    while (i + kRun <= logits.size() && all_at_most(logits.data() + i, bound)) i += kRun;
    if (i == logits.size()) break;
    if (logits[i] <= bound) continue;
    add_rank(rank_of(logits[i], first_id + static_cast<uint32_t>(i)), ranks);
    bound = bound_of(value_of(ranks[0]), rises);
  }
}

void TopLogits::add(const TopLogits &other, std::span<const uint64_t> other_ranks, std::span<uint64_t> ranks) {
  for (const uint64_t rank : other_ranks.first(other.kept_)) add_rank(rank, ranks);
}

std::optional<float> TopLogits::least(uint32_t first_id, std::span<const uint64_t> ranks) const {
  if (kept_ < ranks.size()) return std::nullopt;
  return unless_nan(bound_of(value_of(ranks[0]), first_id >= next_id_));
}

void TopLogits::list(std::span<uint64_t> ranks, std::span<int32_t> ids, float *logits) const {
  std::sort_heap(ranks.begin(), ranks.begin() + kept_, std::greater<>{});
  std::transform(ranks.begin(), ranks.begin() + kept_, ids.begin(), id_of);
  std::transform(ranks.begin(), ranks.begin() + kept_, logits, value_of);
}

ExpSum exp_sum(const KernelTable &kernels, std::span<const float> logits) {
  const float largest = kernels.max_value(logits.data(), logits.size());
  if (!std::isinf(largest)) return {largest, kernels.sum_exp(logits.data(), logits.size(), largest)};
  const bool has_nan = std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  return {largest, has_nan ? std::numeric_limits<double>::quiet_NaN() : 0.0};
}

float log_sum_exp(const KernelTable &kernels, std::span<const ExpSum> pieces) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const ExpSum &piece : pieces) largest = std::max(largest, piece.largest);
  if (std::isinf(largest)) return largest;
  double sum = 0;
  for (const ExpSum &piece : pieces) sum += piece.sum * kernels.sum_exp(&piece.largest, 1, largest);
  if (std::isnan(sum)) return std::numeric_limits<float>::quiet_NaN();
  return static_cast<float>(static_cast<double>(largest) + natural_log(sum));
}

}  // namespace bonsai::cpu
