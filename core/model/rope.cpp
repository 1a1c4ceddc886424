#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/model/config.h"

namespace bonsai::model {
namespace {

// YaRN's ramp (arXiv:2309.00071, section 3.2): 0 for pairs that turn often within the original context and keep their
// frequency, 1 for those that turn less than once and are interpolated.
class YarnRamp {
 public:
  YarnRamp(const RopeScaling &scaling, double head_dim, double base) {
    // The pair index at which a wave turns `rotations` times within the original context.
    auto correction = [&](double rotations) {
      double original = scaling.original_context;
      return head_dim * std::log(original / (2 * std::numbers::pi * rotations)) / (2 * std::log(base));
    };
    low_ = std::clamp(std::floor(correction(scaling.beta_fast)), 0.0, head_dim - 1);
    high_ = std::clamp(std::ceil(correction(scaling.beta_slow)), 0.0, head_dim - 1);
  }

  double operator()(double pair) const { return std::clamp((pair - low_) / std::max(high_ - low_, 0.001), 0.0, 1.0); }

 private:
  double low_, high_;
};

}  // namespace

std::vector<double> rope_frequencies(const Config &config) {
  const double head_dim = config.head_dim;
  const RopeScaling &scaling = config.rope_scaling;
  std::vector<double> frequencies(config.head_dim / 2);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(config.rope_base, -2.0 * static_cast<double>(i) / head_dim);
  }
  if (scaling.kind == RopeScaling::Kind::kLinear) {
    for (double &frequency : frequencies) frequency /= scaling.factor;
  }
  if (scaling.kind == RopeScaling::Kind::kYarn) {
    const YarnRamp ramp(scaling, head_dim, config.rope_base);
    for (size_t i = 0; i < frequencies.size(); ++i) {
      double interpolated = ramp(static_cast<double>(i));
      frequencies[i] = frequencies[i] * (1 - interpolated) + frequencies[i] / scaling.factor * interpolated;
    }
  }
  return frequencies;
}

RopeTable make_rope_table(const Config &config, uint32_t positions) {
  const std::vector<double> frequencies = rope_frequencies(config);
  const double scale = config.rope_scaling.attention_factor;
  RopeTable table;
  table.positions = positions;
  table.pairs = static_cast<uint32_t>(frequencies.size());
  table.cos.reserve(size_t{positions} * table.pairs);
  table.sin.reserve(size_t{positions} * table.pairs);
  for (uint32_t position = 0; position < positions; ++position) {
    for (double frequency : frequencies) {
      double angle = position * frequency;
      table.cos.push_back(static_cast<float>(std::cos(angle) * scale));
      table.sin.push_back(static_cast<float>(std::sin(angle) * scale));
    }
  }
  return table;
}

}  // namespace bonsai::model
