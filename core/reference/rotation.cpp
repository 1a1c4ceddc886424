#include "core/reference/rotation.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace bonsai::reference {
namespace {

// c(b) of YaRN: the pair index whose wave turns `rotations` times within the original context.
long double turns_at(long double rotations, const model::Config &config) {
  const long double original = config.rope_scaling.original_context;
  return config.head_dim * std::log(original / (2 * std::numbers::pi_v<long double> * rotations)) /
         (2 * std::log(static_cast<long double>(config.rope_base)));
}

// 0 where a pair keeps its frequency, 1 where it is divided by YaRN's factor.
long double yarn_ramp(uint32_t pair, const model::Config &config) {
  const long double last = config.head_dim - 1;
  const long double low = std::clamp(std::floor(turns_at(config.rope_scaling.beta_fast, config)), 0.0L, last);
  const long double high = std::clamp(std::ceil(turns_at(config.rope_scaling.beta_slow, config)), 0.0L, last);
  return std::clamp((pair - low) / std::max(high - low, 0.001L), 0.0L, 1.0L);
}

}  // namespace

std::vector<long double> pair_frequencies(const model::Config &config) {
  using Kind = model::RopeScaling::Kind;
  const long double base = config.rope_base, factor = config.rope_scaling.factor;
  std::vector<long double> frequencies;
  for (uint32_t i = 0; i < config.head_dim / 2; ++i) {
    const long double plain = std::pow(base, -2.0L * i / config.head_dim);
    long double ramp = 0;
    if (config.rope_scaling.kind == Kind::kLinear) ramp = 1;
    if (config.rope_scaling.kind == Kind::kYarn) ramp = yarn_ramp(i, config);
    frequencies.push_back(plain * (1 - ramp) + plain / factor * ramp);
  }
  return frequencies;
}

}  // namespace bonsai::reference
