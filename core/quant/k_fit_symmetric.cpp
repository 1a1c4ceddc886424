// Q3_K, Q6_K and IQ4_XS: sub-blocks with a scale each, value = d scale code, or what the code stands for. And IQ4_NL,
// which is one such sub-block with a scale of its own.
#include <array>
#include <span>

#include "core/quant/iq4_blocks.h"
#include "core/quant/k_fit.h"
#include "core/quant/k_fit_math.h"

namespace bonsai::quant {
namespace {

constexpr int kSteps = 10;  // spreads tried on either side of each natural one
constexpr int kRefinements = 3;

// What the search has to know of a format: how many weights share a scale, which integers scales are, to which numbers
// scaled weights are rounded, and which of these the weight of largest magnitude naturally gets: those that reach
// farthest. `kStep` is how far neighbouring spreads move it. Of the largest scale, kSmallerScales integers below the
// largest are tried, too.
template <class Packing>
struct EvenCodes {
  static constexpr uint32_t kSub = 16;
  static constexpr float kLeastScale = -Packing::kScales, kMostScale = Packing::kScales - 1;
  static constexpr std::array kFarthest = {static_cast<float>(-Packing::kCodes)};
  static constexpr float kStep = 0.1f;
  static constexpr int kSmallerScales = 0;
  static Lanes round(Lanes scaled) { return codes_of(scaled, -Packing::kCodes, Packing::kCodes - 1); }
};

// To the nearest of uneven numbers by a table over halves of integers, on which the middle of every two neighbours
// lies.
class NearestIQ4 {
 public:
  constexpr NearestIQ4() : codes_() {
    for (int i = 0, code = 0; i <= kMost - kLeast; ++i) {
      while (code < 15 && i + kLeast >= kIQ4Values[code] + kIQ4Values[code + 1]) ++code;
      codes_[i] = static_cast<uint8_t>(code);
    }
  }
  // `twice` the number. NaN, from weights too small to have an inverse, counts as the least.
  uint8_t code(float twice) const {
    return codes_[static_cast<int>(std::min(std::max(0.0f, twice - kLeast), float{kMost - kLeast}))];
  }

 private:
  static constexpr int kLeast = 2 * kIQ4Values[0], kMost = 2 * kIQ4Values[15];
  uint8_t codes_[kMost - kLeast + 1];
};
constexpr NearestIQ4 kNearestIQ4;

struct IQ4Codes {
  static constexpr uint32_t kSub = 32;
  static constexpr float kLeastScale = -32, kMostScale = 31;
  static constexpr std::array kFarthest = {float{kIQ4Values[0]}, float{kIQ4Values[15]}};
  static constexpr float kStep = 4.5f;
  static constexpr int kSmallerScales = 4;
  static Lanes round(Lanes scaled) {
    const Lanes twice = scaled + scaled;
    Lanes values;
    for (uint32_t i = 0; i < kLanes; ++i) values[i] = kIQ4Values[kNearestIQ4.code(twice[i])];
    return values;
  }
};

// sum(x q) and sum(q q) of a sub-block: with numbers q the best scale is xq / qq, which takes xq^2 / qq off the error.
struct Sums {
  float xq, qq;
};

// A sub-block's scale, and what it takes off the error.
struct Spread {
  float scale = 0, gain = 0;
};

// Some lanes of normalised weights with one scale.
template <class Codes>
class SubBlock {
 public:
  static constexpr uint32_t kSubLanes = Codes::kSub / kLanes;

  explicit SubBlock(const Lanes *x) : x_(x) {}

  Sums sums(float inverse) const {
    Lanes xq = {}, qq = {};
    for (uint32_t i = 0; i < kSubLanes; ++i) {
      const Lanes code = Codes::round(x_[i] * inverse);
      xq += x_[i] * code;
      qq += code * code;
    }
    return {sum_of(xq), sum_of(qq)};
  }

  // Squared.
  float error(float scale) const {
    Lanes squares = {};
    for (uint32_t i = 0; i < kSubLanes; ++i) {
      const Lanes rest = x_[i] - scale * rounded(x_[i], scale);
      squares += rest * rest;
    }
    return sum_of(squares);
  }

  // The numbers of some weights at a scale.
  static Lanes rounded(Lanes x, float scale) { return Codes::round(x * (scale != 0 ? 1 / scale : 0)); }

  // The weight of largest magnitude.
  float extreme() const {
    float extreme = 0;
    for (uint32_t i = 0; i < Codes::kSub; ++i) {
      const float weight = x_[i / kLanes][i % kLanes];
      if (std::fabs(weight) > std::fabs(extreme)) extreme = weight;
    }
    return extreme;
  }

  // The weight of largest magnitude gets a number that reaches farthest; other spreads trade its error for the rest's.
  Spread best_spread(float extreme, float farthest) const {
    Spread best;
    for (int step = -kSteps; extreme != 0 && step <= kSteps; ++step) {
      const auto [xq, qq] = sums((farthest + Codes::kStep * static_cast<float>(step)) / extreme);
      if (!(xq * xq > best.gain * qq)) continue;  // nor for a NaN, from weights too small to have an inverse
      best = {.scale = xq / qq, .gain = xq * xq / qq};
    }
    return best;
  }

  float best_scale() const {
    Spread best;
    const float largest = extreme();
    for (const float farthest : Codes::kFarthest) {
      const Spread spread = best_spread(largest, farthest);
      if (spread.gain > best.gain) best = spread;
    }
    return best.scale;
  }

 private:
  const Lanes *x_;
};

// A super-block in the search; the codes follow from it. The error is squared, in normalised weights.
template <class Codes>
struct Candidate {
  float d = kInfinity;  // as a half holds it; infinite if none can
  float scales[kSuperBlock / Codes::kSub] = {};
  float error = kInfinity;
};

template <class Codes>
class Search {
 public:
  using Candidate = quant::Candidate<Codes>;
  using Sub = SubBlock<Codes>;

  explicit Search(const Normalised &weights) : x_(weights.x), unit_(weights.unit) {}

  Candidate run() {
    float largest = 0;
    for (uint32_t i = 0; i < kSubBlocks; ++i) {
      real_scales_[i] = sub(i).best_scale();
      if (std::fabs(real_scales_[i]) > std::fabs(largest)) largest = real_scales_[i];
    }
    for (int i = 0; i <= Codes::kSmallerScales; ++i) {
      try_d(largest / (Codes::kLeastScale + static_cast<float>(i)));
      try_d(largest / (Codes::kMostScale - static_cast<float>(i)));
    }
    for (int i = 0; i < kRefinements && !std::isinf(best_.error); ++i) {
      if (!try_d(best_d())) break;
    }
    return best_;
  }

 private:
  static constexpr uint32_t kSubBlocks = kSuperBlock / Codes::kSub;

  Sub sub(uint32_t i) const { return Sub(x_ + i * Sub::kSubLanes); }

  // Whether d, as halves hold it, gave a better block than the best so far.
  bool try_d(float d) {
    bool is_better = false;
    for (const float held : held_by_halves(d, unit_)) {
      const Candidate candidate = with_d(held);
      if (!(candidate.error < best_.error)) continue;
      best_ = candidate;
      is_better = true;
    }
    return is_better;
  }

  // Each sub-block takes the integer near its real scale that serves it best.
  Candidate with_d(float held) const {
    Candidate candidate;
    const float d = held / unit_;
    if (!std::isfinite(d)) return candidate;
    candidate.d = held;
    candidate.error = 0;
    for (uint32_t i = 0; i < kSubBlocks; ++i) {
      const float near = d != 0 ? code_of(real_scales_[i] / d, Codes::kLeastScale, Codes::kMostScale) : 0;
      float least = kInfinity;
      for (float scale = std::max(near - 1, Codes::kLeastScale); scale <= std::min(near + 1, Codes::kMostScale);
           ++scale) {
        const float found = sub(i).error(d * scale);
        if (!(found < least)) continue;
        least = found;
        candidate.scales[i] = scale;
      }
      candidate.error += least;
    }
    return candidate;
  }

  // The best d for the best block's codes and scales.
  float best_d() const {
    const float d = best_.d / unit_;
    float xq = 0, qq = 0;
    for (uint32_t i = 0; i < kSubBlocks; ++i) {
      const float scale = best_.scales[i];
      if (d * scale == 0) continue;
      const Sums found = sub(i).sums(1 / (d * scale));
      xq += scale * found.xq;
      qq += scale * scale * found.qq;
    }
    return qq != 0 ? xq / qq : 0;
  }

  const Lanes *x_;
  float unit_;
  float real_scales_[kSubBlocks];
  Candidate best_;
};

// Calls put(i, number) for the weights of a super-block. Returns its d; where that is infinite, or 0, puts nothing.
template <class Codes, class Put>
float fit_super_block(const float *weights, std::span<int8_t, kSuperBlock / Codes::kSub> scales, const Put &put) {
  const Normalised normalised(weights);
  if (normalised.unit == 0) return 0;
  if (std::isinf(normalised.unit)) return kInfinity;
  const Candidate<Codes> best = Search<Codes>(normalised).run();
  if (std::isinf(best.d)) return best.d;
  for (uint32_t i = 0; i < scales.size(); ++i) scales[i] = static_cast<int8_t>(best.scales[i]);
  for (uint32_t i = 0; i < kSuperBlock; ++i) {
    const float scale = best.d / normalised.unit * best.scales[i / Codes::kSub];
    put(i, SubBlock<Codes>::rounded(normalised.x[i / kLanes], scale)[i % kLanes]);
  }
  return best.d;
}

}  // namespace

template <class Packing>
typename Packing::Block fit(const float *weights) {
  SymmetricBlock block;
  block.d = fit_super_block<EvenCodes<Packing>>(
      weights, block.scales, [&block](uint32_t i, float code) { block.codes[i] = static_cast<int8_t>(code); });
  return block;
}

template SymmetricBlock fit<KPacking<3>>(const float *);
template SymmetricBlock fit<KPacking<6>>(const float *);

template <>
IQ4Block fit<IQ4_XS>(const float *weights) {
  IQ4Block block;
  std::fill_n(block.codes, kSuperBlock, kNearestIQ4.code(0));
  block.d = fit_super_block<IQ4Codes>(
      weights, block.scales, [&block](uint32_t i, float value) { block.codes[i] = kNearestIQ4.code(2 * value); });
  return block;
}

float fit_iq4(const float *weights, uint8_t *codes) {
  constexpr uint32_t kWeights = IQ4Codes::kSub;
  using Sub = SubBlock<IQ4Codes>;
  const NormalisedWeights<kWeights> normalised(weights);
  std::fill_n(codes, kWeights, kNearestIQ4.code(0));
  if (normalised.unit == 0) return 0;
  if (std::isinf(normalised.unit)) return kInfinity;
  const Sub block(normalised.x);
  const float extreme = block.extreme();
  float best = kInfinity, least = kInfinity;
  const auto try_d = [&](float d) {
    bool is_better = false;
    for (const float held : held_by_halves(d, normalised.unit)) {
      if (!std::isfinite(held)) continue;
      const float error = block.error(held / normalised.unit);
      if (!(error < least)) continue;
      least = error;
      best = held;
      is_better = true;
    }
    return is_better;
  };
  for (const float farthest : IQ4Codes::kFarthest) {
    try_d(block.best_spread(extreme, farthest).scale);
    try_d(extreme / farthest);  // the least that keeps the largest weight: a half may hold no more
  }
  for (int i = 0; i < kRefinements && !std::isinf(best); ++i) {
    const Sums sums = block.sums(best != 0 ? normalised.unit / best : 0);
    if (!try_d(sums.qq != 0 ? sums.xq / sums.qq : 0)) break;
  }
  if (std::isinf(best)) return best;
  for (uint32_t i = 0; i < kWeights; ++i) {
    codes[i] = kNearestIQ4.code(2 * Sub::rounded(normalised.x[i / kLanes], best / normalised.unit)[i % kLanes]);
  }
  return best;
}

}  // namespace bonsai::quant
