#include <algorithm>

#include "core/base/elementary.h"
#include "core/base/floating_point_environment.h"
#include "core/model/config.h"

namespace bonsai::model {
namespace {

constexpr DoubleDouble kLogOfTwoPi{0x1.d67f1c864beb5p+0, -0x1.65b5a1b7ff5dfp-54};

// YaRN's ramp (arXiv:2309.00071, section 3.2): 0 for pairs that turn often within the original context and keep their
// frequency, 1 for those that turn less than once and are interpolated.
class YarnRamp {
 public:
  YarnRamp(const RopeScaling &scaling, double head_dim, DoubleDouble log_base) {
    // The pair index at which a wave turns `rotations` times within the original context.
    auto correction = [&](double rotations) {
      const DoubleDouble log_turns =
          elementary::log(scaling.original_context) - elementary::log(rotations) - kLogOfTwoPi;
      return log_turns * head_dim / (log_base * 2);
    };
    low_ = std::clamp(floor(correction(scaling.beta_fast)), 0.0, head_dim - 1);
    high_ = std::clamp(ceil(correction(scaling.beta_slow)), 0.0, head_dim - 1);
  }

  DoubleDouble operator()(double pair) const {
    if (pair <= low_) return 0;
    if (pair >= high_) return 1;
    return DoubleDouble(pair - low_) / (high_ - low_);
  }

 private:
  double low_, high_;
};

// The frequencies to some 2^-90. Doubles would not do: from position 65,536 on, their last bit decides one of some
// 30,000 floats of the table.
std::vector<DoubleDouble> exact_frequencies(const Config &config) {
  const double head_dim = config.head_dim;
  const RopeScaling &scaling = config.rope_scaling;
  const DoubleDouble log_base = elementary::log(config.rope_base);
  std::vector<DoubleDouble> frequencies;
  for (uint32_t i = 0; i < config.head_dim / 2; ++i) {
    frequencies.push_back(elementary::exp(log_base * (-2.0 * i) / head_dim));
  }
  if (scaling.kind == RopeScaling::Kind::kLinear) {
    for (DoubleDouble &frequency : frequencies) frequency = frequency / scaling.factor;
  }
  if (scaling.kind == RopeScaling::Kind::kYarn) {
    const YarnRamp ramp(scaling, head_dim, log_base);
    for (size_t i = 0; i < frequencies.size(); ++i) {
      const DoubleDouble interpolated = ramp(static_cast<double>(i));
      frequencies[i] = frequencies[i] * (1 - interpolated) + frequencies[i] / scaling.factor * interpolated;
    }
  }
  return frequencies;
}

// A position of 24 bits times 24 bits is exact, and times the 29 that are left over. The product with fma is no better,
// and takes ten times as long on a processor that has none.
DoubleDouble angle_at(double position, DoubleDouble frequency) {
  const double top = static_cast<float>(frequency.high), rest = frequency.high - top;
  const DoubleDouble angle = two_sum_ordered(position * top, position * rest);
  return two_sum_ordered(angle.high, angle.low + position * frequency.low);
}

}  // namespace

std::vector<double> rope_frequencies(const Config &config) {
  const DefaultFloatingPoint environment;
  std::vector<double> frequencies;
  for (const DoubleDouble frequency : exact_frequencies(config)) frequencies.push_back(static_cast<double>(frequency));
  return frequencies;
}

RopeTable make_rope_table(const Config &config, uint32_t positions) {
  const DefaultFloatingPoint environment;
  const std::vector<DoubleDouble> frequencies = exact_frequencies(config);
  const double scale = config.rope_scaling.attention_factor;
  RopeTable table;
  table.positions = positions;
  table.pairs = static_cast<uint32_t>(frequencies.size());
  table.cos.reserve(size_t{positions} * table.pairs);
  table.sin.reserve(size_t{positions} * table.pairs);
  for (uint32_t position = 0; position < positions; ++position) {
    for (const DoubleDouble frequency : frequencies) {
      const auto [sine, cosine] = elementary::sin_cos(angle_at(position, frequency));
      table.cos.push_back(static_cast<float>(cosine * scale));
      table.sin.push_back(static_cast<float>(sine * scale));
    }
  }
  return table;
}

}  // namespace bonsai::model
