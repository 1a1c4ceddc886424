// Q3_K and Q6_K: sixteen sub-blocks of 16, value = d scale code.
#include <limits>

#include "core/quant/k_fit.h"
#include "core/quant/k_fit_math.h"

namespace bonsai::quant {
namespace {

constexpr uint32_t kSub = 16;
constexpr uint32_t kSubBlocks = kSuperBlock / kSub;
constexpr int kRefinements = 3;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The codes of one sub-block for one scale, and what they leave.
struct SubFit {
  float codes[kSub];
  float error = kInfinity;  // squared
};

// A super-block in the search. The error is in normalised weights.
struct Candidate {
  float d = kInfinity;  // as a half holds it; infinite if none can
  float scales[kSubBlocks] = {};
  SubFit subs[kSubBlocks];
  float error = kInfinity;
};

template <class Packing>
class Search {
 public:
  explicit Search(const Normalised &weights) : x_(weights.x), unit_(weights.unit) {}

  Candidate run() {
    float largest = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      real_scales_[sub] = best_real_scale(x_ + sub * kSub);
      if (std::fabs(real_scales_[sub]) > std::fabs(largest)) largest = real_scales_[sub];
    }
    try_d(largest / kLeastScale);
    try_d(largest / kMostScale);
    for (int i = 0; i < kRefinements; ++i) {
      if (!try_d(best_d())) break;
    }
    return best_;
  }

 private:
  static constexpr float kLeastCode = -Packing::kCodes, kMostCode = Packing::kCodes - 1;
  static constexpr float kLeastScale = -Packing::kScales, kMostScale = Packing::kScales - 1;

  // With codes q the best scale is sum(x q) / sum(q q), and takes sum(x q)^2 / sum(q q) off the squared error. The
  // weight of largest magnitude is the natural one to get the code that reaches farthest; other spreads trade its error
  // for the rest's.
  float best_real_scale(const float *x) {
    float extreme = 0;
    for (uint32_t i = 0; i < kSub; ++i) {
      if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
    }
    if (extreme == 0) return 0;
    float best_scale = 0, best_gain = 0;
    for (int step = -10; step <= 10; ++step) {
      const float inverse = (kLeastCode + 0.1f * static_cast<float>(step)) / extreme;
      float xq[kSub], qq[kSub];
      for (uint32_t i = 0; i < kSub; ++i) {
        const float code = code_of(x[i] * inverse, kLeastCode, kMostCode);
        xq[i] = x[i] * code;
        qq[i] = code * code;
      }
      const float dot = sum_of(xq), square = sum_of(qq);
      if (square == 0 || dot * dot <= best_gain * square) continue;
      best_gain = dot * dot / square;
      best_scale = dot / square;
    }
    return best_scale;
  }

  SubFit fit_sub(const float *x, float scale) const {
    SubFit found;
    const float inverse = scale != 0 ? 1 / scale : 0;
    float squares[kSub];
    for (uint32_t i = 0; i < kSub; ++i) {
      found.codes[i] = code_of(x[i] * inverse, kLeastCode, kMostCode);
      const float rest = x[i] - scale * found.codes[i];
      squares[i] = rest * rest;
    }
    found.error = sum_of(squares);
    return found;
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

  Candidate with_d(float held) const {
    Candidate candidate;
    const float d = held / unit_;
    if (!std::isfinite(d)) return candidate;
    candidate.d = held;
    candidate.error = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      const float near = d != 0 ? code_of(real_scales_[sub] / d, kLeastScale, kMostScale) : 0;
      for (float scale = near - 1; scale <= near + 1; ++scale) {
        if (scale < kLeastScale || scale > kMostScale) continue;
        const SubFit found = fit_sub(x_ + sub * kSub, d * scale);
        if (!(found.error < candidate.subs[sub].error)) continue;
        candidate.subs[sub] = found;
        candidate.scales[sub] = scale;
      }
      candidate.error += candidate.subs[sub].error;
    }
    return candidate;
  }

  // Of the best block with its codes and scales held.
  float best_d() const {
    float dot = 0, square = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      float xq[kSub], qq[kSub];
      for (uint32_t i = 0; i < kSub; ++i) {
        xq[i] = x_[sub * kSub + i] * best_.subs[sub].codes[i];
        qq[i] = best_.subs[sub].codes[i] * best_.subs[sub].codes[i];
      }
      const float scale = best_.scales[sub];
      dot += scale * sum_of(xq);
      square += scale * scale * sum_of(qq);
    }
    return square != 0 ? dot / square : 0;
  }

  const float *x_;
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
  for (uint32_t i = 0; i < kSuperBlock; ++i) block.codes[i] = static_cast<int8_t>(best.subs[i / kSub].codes[i % kSub]);
  return block;
}

template SymmetricBlock fit<KPacking<3>>(const float *);
template SymmetricBlock fit<KPacking<6>>(const float *);

}  // namespace bonsai::quant
