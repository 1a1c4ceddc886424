// Q3_K and Q6_K: sixteen sub-blocks of 16, value = d scale code.
#include "core/quant/k_fit.h"
#include "core/quant/k_fit_math.h"

namespace bonsai::quant {
namespace {

constexpr uint32_t kSub = 16;
constexpr uint32_t kSubBlocks = kSuperBlock / kSub;
constexpr uint32_t kSubLanes = kSub / kLanes;
constexpr int kSteps = 10;  // spreads tried on either side of the natural one
constexpr int kRefinements = 3;

// A super-block in the search; the codes follow from it. The error is squared, in normalised weights.
struct Candidate {
  float d = kInfinity;  // as a half holds it; infinite if none can
  float scales[kSubBlocks] = {};
  float error = kInfinity;
};

// sum(x q) and sum(q q) of a sub-block: with codes q the best scale is xq / qq, which takes xq^2 / qq off the error.
struct Sums {
  float xq, qq;
};

template <class Packing>
class Search {
 public:
  explicit Search(const Normalised &weights) : x_(weights.x), unit_(weights.unit) {}

  Candidate run() {
    float largest = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      real_scales_[sub] = best_real_scale(x_ + sub * kSubLanes);
      if (std::fabs(real_scales_[sub]) > std::fabs(largest)) largest = real_scales_[sub];
    }
    try_d(largest / kLeastScale);
    try_d(largest / kMostScale);
    for (int i = 0; i < kRefinements && !std::isinf(best_.error); ++i) {
      if (!try_d(best_d())) break;
    }
    return best_;
  }

  // Of four weights at one scale, in normalised weights.
  static Lanes codes(Lanes x, float scale) {
    const float inverse = scale != 0 ? 1 / scale : 0;
    return codes_of(x * inverse, kLeastCode, kMostCode);
  }

 private:
  static constexpr float kLeastCode = -Packing::kCodes, kMostCode = Packing::kCodes - 1;
  static constexpr float kLeastScale = -Packing::kScales, kMostScale = Packing::kScales - 1;

  static Sums sums(const Lanes *x, float inverse) {
    Lanes xq = {}, qq = {};
    for (uint32_t i = 0; i < kSubLanes; ++i) {
      const Lanes code = codes_of(x[i] * inverse, kLeastCode, kMostCode);
      xq += x[i] * code;
      qq += code * code;
    }
    return {sum_of(xq), sum_of(qq)};
  }

  static float error(const Lanes *x, float scale) {
    Lanes squares = {};
    for (uint32_t i = 0; i < kSubLanes; ++i) {
      const Lanes rest = x[i] - scale * codes(x[i], scale);
      squares += rest * rest;
    }
    return sum_of(squares);
  }

  // The weight of largest magnitude is the natural one to get the code that reaches farthest; other spreads trade its
  // error for the rest's.
  static float best_real_scale(const Lanes *x) {
    float extreme = 0;
    for (uint32_t i = 0; i < kSub; ++i) {
      const float weight = x[i / kLanes][i % kLanes];
      if (std::fabs(weight) > std::fabs(extreme)) extreme = weight;
    }
    if (extreme == 0) return 0;
    float best_scale = 0, best_gain = 0;
    for (int step = -kSteps; step <= kSteps; ++step) {
      const auto [xq, qq] = sums(x, (kLeastCode + 0.1f * static_cast<float>(step)) / extreme);
      if (!(xq * xq > best_gain * qq)) continue;  // nor for a NaN, from weights too small to have an inverse
      best_gain = xq * xq / qq;
      best_scale = xq / qq;
    }
    return best_scale;
  }

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
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      const float near = d != 0 ? code_of(real_scales_[sub] / d, kLeastScale, kMostScale) : 0;
      float least = kInfinity;
      for (float scale = std::max(near - 1, kLeastScale); scale <= std::min(near + 1, kMostScale); ++scale) {
        const float found = error(x_ + sub * kSubLanes, d * scale);
        if (!(found < least)) continue;
        least = found;
        candidate.scales[sub] = scale;
      }
      candidate.error += least;
    }
    return candidate;
  }

  // The best d for the best block's codes and scales.
  float best_d() const {
    const float d = best_.d / unit_;
    float xq = 0, qq = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      const float scale = best_.scales[sub];
      if (d * scale == 0) continue;
      const Sums found = sums(x_ + sub * kSubLanes, 1 / (d * scale));
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

}  // namespace

template <class Packing>
typename Packing::Block fit(const float *weights) {
  SymmetricBlock block;
  const Normalised normalised(weights);
  if (normalised.unit == 0) return block;
  const Candidate best = std::isinf(normalised.unit) ? Candidate() : Search<Packing>(normalised).run();
  block.d = best.d;
  if (std::isinf(best.d)) return block;
  for (uint32_t sub = 0; sub < kSubBlocks; ++sub) block.scales[sub] = static_cast<int8_t>(best.scales[sub]);
  for (uint32_t i = 0; i < kSuperBlock; ++i) {
    const float scale = best.d / normalised.unit * best.scales[i / kSub];
    block.codes[i] = static_cast<int8_t>(Search<Packing>::codes(normalised.x[i / kLanes], scale)[i % kLanes]);
  }
  return block;
}

template SymmetricBlock fit<KPacking<3>>(const float *);
template SymmetricBlock fit<KPacking<6>>(const float *);

}  // namespace bonsai::quant
