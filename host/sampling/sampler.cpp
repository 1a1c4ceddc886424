#include "host/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "core/base/floating_point_environment.h"

namespace bonsai::host {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();
constexpr const char *kNaN = "the model produced NaN logits";

// exp(x) for x <= 0, to within a few units in the last place: 2^k times the Taylor polynomial of degree 13 on
// [-ln2/2, ln2/2]. libm's differs from one machine to the next, and a last bit can turn a choice over.
double exp_nonpositive(double x) {
  constexpr double kLog2E = 1.4426950408889634;
  constexpr double kLn2High = 0x1.62e42feep-1;  // 32 bits: k times it is exact
  constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
  constexpr double kSmallest = -708;  // below, the result would not be a normal number
  if (!(x >= kSmallest)) return 0;
  const int64_t k = static_cast<int64_t>(x * kLog2E - 0.5);  // truncation rounds to nearest, as x <= 0
  const double r = (x - static_cast<double>(k) * kLn2High) - static_cast<double>(k) * kLn2Low;
  constexpr double kInverse[] = {1.0,     1.0 / 2, 1.0 / 3,  1.0 / 4,  1.0 / 5,  1.0 / 6, 1.0 / 7,
                                 1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};
  double sum = 1;
  for (int i = 12; i >= 0; --i) sum = 1 + sum * (r * kInverse[i]);
  return sum * std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52);
}

// Logits that are looked at together.
constexpr size_t kRun = 16;

// Whether any of a run is above the bar, or NaN. Four at a time, by GCC's and Clang's vectors: left to itself GCC 12
// takes one after the other, and a choice from 151,936 logits took over 1 % of a decode step.
bool any_passes(const float *logits, float bar) {
  using Four = float __attribute__((vector_size(16)));
  Four four[kRun / 4];
  std::memcpy(four, logits, sizeof four);
  const auto below = (four[0] <= bar) & (four[1] <= bar) & (four[2] <= bar) & (four[3] <= bar);
  return (below[0] & below[1] & below[2] & below[3]) == 0;
}

std::optional<Error> check_options(const SamplingOptions &options, uint32_t vocab) {
  const auto in_range = [](float value, float low, float high) { return value >= low && value <= high; };
  if (!in_range(options.temperature, 0, kMax))
    return Error{fmt::format("temperature: expected a number >= 0, found {}", options.temperature)};
  if (!in_range(options.top_p, 0, 1))
    return Error{fmt::format("top-p: expected a number from 0 to 1, found {}", options.top_p)};
  if (!in_range(options.min_p, 0, 1))
    return Error{fmt::format("min-p: expected a number from 0 to 1, found {}", options.min_p)};
  if (!(options.repetition_penalty > 0 && options.repetition_penalty <= kMax))
    return Error{fmt::format("repetition penalty: expected a number > 0, found {}", options.repetition_penalty)};
  if (!in_range(options.presence_penalty, -kMax, kMax))
    return Error{fmt::format("presence penalty: expected a finite number, found {}", options.presence_penalty)};
  if (!in_range(options.frequency_penalty, -kMax, kMax))
    return Error{fmt::format("frequency penalty: expected a finite number, found {}", options.frequency_penalty)};
  if (options.penalty_window < -1)
    return Error{fmt::format("penalty window: expected a number >= -1, found {}", options.penalty_window)};
  for (const LogitBias &bias : options.logit_bias) {
    if (bias.token < 0 || static_cast<uint32_t>(bias.token) >= vocab)
      return Error{fmt::format("logit bias: token {} is outside the vocabulary of {}", bias.token, vocab)};
    if (!(bias.add <= kMax))
      return Error{
          fmt::format("logit bias: expected a finite number or -inf for token {}, found {}", bias.token, bias.add)};
  }
  return std::nullopt;
}

}  // namespace

Sampler::Sampler(SamplingOptions options, uint32_t vocab, uint64_t seed)
    : options_(std::move(options)), vocab_(vocab), seed_(seed), random_(seed) {}

Result<Sampler> Sampler::create(SamplingOptions options, uint32_t vocab) {
  if (std::optional<Error> error = check_options(options, vocab)) return tl::unexpected(*std::move(error));
  if (options.top_k >= vocab) options.top_k = 0;
  if (options.temperature == 0) options.top_k = 1;  // what else is kept cannot change the winner
  const auto by_token = [](const LogitBias &a, const LogitBias &b) { return a.token < b.token; };
  std::stable_sort(options.logit_bias.begin(), options.logit_bias.end(), by_token);
  const uint64_t seed = options.seed ? *options.seed : random_seed();
  return Sampler(std::move(options), vocab, seed);
}

bool Sampler::has_penalties() const {
  return options_.penalty_window != 0 &&
         (options_.repetition_penalty != 1 || options_.presence_penalty != 0 || options_.frequency_penalty != 0);
}

void Sampler::remember(std::span<const int32_t> tokens) {
  if (!has_penalties()) return;
  for (const int32_t token : tokens) {
    window_.push_back(token);
    ++counts_[token];
    if (options_.penalty_window < 0 || window_.size() <= static_cast<size_t>(options_.penalty_window)) continue;
    const auto oldest = counts_.find(window_.front());
    if (--oldest->second == 0) counts_.erase(oldest);
    window_.pop_front();
  }
}

float Sampler::penalty_of(uint32_t count) const {
  return options_.presence_penalty + static_cast<float>(count) * options_.frequency_penalty;
}

// Every token's logit is changed on its own, so the map's order does not matter. Penalties may be too large for a
// float: that makes infinities, but never NaN, which would be the model's.
void Sampler::adjust(std::span<float> logits) const {
  for (const LogitBias &bias : options_.logit_bias) logits[static_cast<size_t>(bias.token)] += bias.add;
  for (const auto &[token, count] : counts_) {
    if (token < 0 || static_cast<size_t>(token) >= logits.size()) continue;
    float &logit = logits[static_cast<size_t>(token)];
    if (!std::isfinite(logit)) continue;
    const float repeated = logit > 0 ? logit / options_.repetition_penalty : logit * options_.repetition_penalty;
    logit = std::clamp(repeated, -kMax, kMax) - penalty_of(count);
  }
}

// All tokens that are allowed, by id. Returns false on NaN.
bool Sampler::collect(std::span<const float> logits) {
  candidates_.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > -kInfinity)
      candidates_.push_back({logits[i], static_cast<int32_t>(i)});
    else if (std::isnan(logits[i]))
      return false;
  }
  return true;
}

// The k largest in falling order. Candidates pile up to a few times k before they are cut back to k, which raises the
// bar for those that follow; in a large vocabulary hardly any passes it. Returns false on NaN.
bool Sampler::collect_top_k(std::span<const float> logits) {
  const size_t k = options_.top_k;
  const size_t most = std::max<size_t>(4 * k, 256);
  const auto kth = [&] { return candidates_.begin() + static_cast<std::ptrdiff_t>(k); };
  candidates_.clear();
  float bar = -kInfinity;
  for (size_t i = 0; i < logits.size(); ++i) {
    while (i + kRun <= logits.size() && !any_passes(logits.data() + i, bar)) i += kRun;
    if (i == logits.size()) break;
    if (logits[i] <= bar) continue;  // false for NaN
    if (std::isnan(logits[i])) return false;
    candidates_.push_back({logits[i], static_cast<int32_t>(i)});
    if (candidates_.size() < most) continue;
    std::nth_element(candidates_.begin(), kth() - 1, candidates_.end(), ranks_before);
    candidates_.resize(k);
    bar = candidates_.back().logit;  // a later token of the same logit has a higher id: it ranks behind
  }
  if (candidates_.size() > k) {
    std::nth_element(candidates_.begin(), kth(), candidates_.end(), ranks_before);
    candidates_.resize(k);
  }
  std::sort(candidates_.begin(), candidates_.end(), ranks_before);
  return true;
}

// Sorts only as far as the probability asked for reaches.
void Sampler::keep_top_p(float largest) {
  double total = 0;
  for (const Candidate &candidate : candidates_) total += exp_nonpositive(double{candidate.logit} - largest);
  const double enough = options_.top_p * total;
  size_t sorted = 0;
  double sum = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (i == sorted) {
      const auto from = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      sorted = std::min(candidates_.size(), std::max<size_t>(256, 4 * sorted));
      const auto to = candidates_.begin() + static_cast<std::ptrdiff_t>(sorted);
      std::partial_sort(from, to, candidates_.end(), ranks_before);
    }
    sum += exp_nonpositive(double{candidates_[i].logit} - largest);
    if (sum >= enough) return candidates_.resize(i + 1);
  }
}

void Sampler::keep_min_p(float largest) {
  std::erase_if(candidates_, [&](const Candidate &candidate) {
    return exp_nonpositive(double{candidate.logit} - largest) < options_.min_p;
  });
}

int32_t Sampler::draw(float largest) {
  weights_.resize(candidates_.size());
  double total = 0;
  for (size_t i = 0; i < candidates_.size(); ++i)
    total += weights_[i] = exp_nonpositive((double{candidates_[i].logit} - largest) / options_.temperature);
  double rest = random_.uniform(n_draws_++) * total;
  size_t last = 0;  // rounding may leave a rest behind the last candidate: then the last possible one is meant
  for (size_t i = 0; i < candidates_.size(); ++i) {
    if (weights_[i] == 0) continue;
    last = i;
    rest -= weights_[i];
    if (rest < 0) break;
  }
  return candidates_[last].id;
}

Result<int32_t> Sampler::sample(std::span<float> logits) {
  const DefaultFloatingPoint environment;
  adjust(logits);
  const bool numbers = options_.top_k > 0 ? collect_top_k(logits) : collect(logits);
  if (!numbers) return fail(kNaN);
  return choose();
}

// From the candidates; with top-k they are in falling order.
Result<int32_t> Sampler::choose() {
  if (candidates_.empty()) return fail("no token is allowed: every logit is -infinity");
  const float largest = std::min_element(candidates_.begin(), candidates_.end(), ranks_before)->logit;
  if (largest == kInfinity) return fail("the model produced infinite logits");
  if (options_.temperature == 0) return candidates_.front().id;
  if (options_.top_p < 1) keep_top_p(largest);
  if (options_.min_p > 0) keep_min_p(largest);
  return draw(largest);
}

// ---------------------------------------------------------------------------------------------------------------------
// Choosing from what a device selected

Selection Sampler::selection(const SelectionLimits &limits) const {
  const DefaultFloatingPoint environment;
  Selection selection{.k = options_.top_k, .is_lasting = !has_penalties()};
  const bool is_adjusted = !options_.logit_bias.empty() || !counts_.empty();
  const bool is_served = selection.k > 0 && selection.k <= limits.max_k && (limits.adjusts || !is_adjusted);
  if (!is_served || !add_biases(selection) || !add_penalties(selection)) return {};
  return selection;
}

// Of one token's biases the sampler adds each in turn, which rounds otherwise than their sum; to -infinity nothing
// makes a difference.
bool Sampler::add_biases(Selection &selection) const {
  for (const LogitBias &bias : options_.logit_bias) {
    if (selection.ids.empty() || selection.ids.back() != bias.token) {
      selection.ids.push_back(bias.token);
      selection.add.push_back(bias.add);
      selection.repeat.push_back(1);
    } else if (bias.add == -kInfinity || selection.add.back() == -kInfinity) {
      selection.add.back() = -kInfinity;
    } else {
      return false;
    }
  }
  return true;
}

// A device adds last, and one number: bias and penalties of one token do not go together but where it is forbidden.
// Nor does it keep what it multiplies finite. All ids rise, as those of the biases do.
bool Sampler::add_penalties(Selection &selection) const {
  constexpr float kMostRepetition = 1e20f;  // and its inverse: logits as large as that are no model's
  const float repetition = options_.repetition_penalty;
  if (!counts_.empty() && !(repetition >= 1 / kMostRepetition && repetition <= kMostRepetition)) return false;
  const Selection biases = std::exchange(selection, Selection{.k = selection.k, .is_lasting = selection.is_lasting});
  const auto adjust = [&](int32_t token, float add, float repeat) {
    selection.ids.push_back(token);
    selection.add.push_back(add);
    selection.repeat.push_back(repeat);
  };
  size_t bias = 0;
  const auto add_biases_below = [&](int64_t token) {
    for (; bias < biases.ids.size() && biases.ids[bias] < token; ++bias) adjust(biases.ids[bias], biases.add[bias], 1);
  };
  for (const auto &[token, count] : counts_) {
    if (token < 0 || static_cast<uint32_t>(token) >= vocab_) continue;
    const float penalty = penalty_of(count);
    if (!std::isfinite(penalty)) return false;
    add_biases_below(token);
    if (bias == biases.ids.size() || biases.ids[bias] != token) {
      adjust(token, -penalty, repetition);
    } else if (biases.add[bias] != -kInfinity) {
      return false;
    }
  }
  add_biases_below(int64_t{vocab_});
  return true;
}

Result<int32_t> Sampler::sample(const TopLogits &top) {
  const DefaultFloatingPoint environment;
  candidates_.clear();
  for (size_t i = 0; i < top.ids.size(); ++i) {
    if (std::isnan(top.logits[i])) return fail(kNaN);
    if (top.logits[i] > -kInfinity) candidates_.push_back({top.logits[i], top.ids[i]});
  }
  return choose();
}

}  // namespace bonsai::host
