// Q2_K (sub-blocks of 16), Q4_K and Q5_K (of 32): value = d scale code - dmin min, with min >= 0.
#include <limits>

#include "core/quant/k_fit.h"
#include "core/quant/k_fit_math.h"

namespace bonsai::quant {
namespace {

constexpr int kSteps = 10;  // spreads tried on either side of the natural one
constexpr int kRefinements = 3;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// value = scale code - min.
struct Line {
  float scale = 0, min = 0;
};

// The codes of one sub-block for one line, and what they leave.
template <uint32_t kSub>
struct SubFit {
  float codes[kSub];
  float error = kInfinity;  // squared
};

// A super-block in the search. The error is in normalised weights.
template <uint32_t kSub>
struct Candidate {
  Line d = {kInfinity, kInfinity};  // d and dmin as halves hold them; infinite if none can
  Line lines[kSuperBlock / kSub];   // integers
  SubFit<kSub> subs[kSuperBlock / kSub];
  float error = kInfinity;
};

template <class Packing>
class Search {
 public:
  static constexpr uint32_t kSub = Packing::kSubWeights;
  static constexpr uint32_t kSubBlocks = kSuperBlock / kSub;

  explicit Search(const Normalised &weights) : x_(weights.x), unit_(weights.unit) {}

  Candidate<kSub> run() {
    Line largest;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      real_lines_[sub] = best_real_line(x_ + sub * kSub);
      largest.scale = std::max(largest.scale, real_lines_[sub].scale);
      largest.min = std::max(largest.min, real_lines_[sub].min);
    }
    try_d({largest.scale / kMostScale, largest.min / kMostScale});
    for (int i = 0; i < kRefinements; ++i) {
      if (!try_d(best_d())) break;
    }
    return best_;
  }

 private:
  static constexpr float kMostCode = Packing::kMostCode, kMostScale = Packing::kMostScale;

  static SubFit<kSub> fit_sub(const float *x, Line line) {
    SubFit<kSub> found;
    const float inverse = line.scale != 0 ? 1 / line.scale : 0;
    float squares[kSub];
    for (uint32_t i = 0; i < kSub; ++i) {
      found.codes[i] = code_of((x[i] + line.min) * inverse, 0, kMostCode);
      const float rest = x[i] - (line.scale * found.codes[i] - line.min);
      squares[i] = rest * rest;
    }
    found.error = sum_of(squares);
    return found;
  }

  // The line of least squared error for given codes.
  static Line best_line(const float *x, const float *codes) {
    float xs[kSub], qs[kSub], xq[kSub], qq[kSub];
    for (uint32_t i = 0; i < kSub; ++i) {
      xs[i] = x[i];
      qs[i] = codes[i];
      xq[i] = x[i] * codes[i];
      qq[i] = codes[i] * codes[i];
    }
    const float n = kSub, sum_x = sum_of(xs), sum_q = sum_of(qs), sum_xq = sum_of(xq), sum_qq = sum_of(qq);
    const float determinant = n * sum_qq - sum_q * sum_q;
    if (determinant > 0) {
      const Line line = {(n * sum_xq - sum_x * sum_q) / determinant, (sum_q * sum_xq - sum_qq * sum_x) / determinant};
      if (line.min >= 0) return line;
    }
    // Codes all alike, or a line that would need a negative minimum.
    return {sum_qq > 0 ? sum_xq / sum_qq : 0, 0};
  }

  // The natural spread puts the smallest weight, or 0 if that is smaller, at code 0 and the largest at the last code;
  // other spreads trade the error of these two for the rest's.
  static Line best_real_line(const float *x) {
    float low = 0, high = x[0];
    for (uint32_t i = 0; i < kSub; ++i) {
      low = std::min(low, x[i]);
      high = std::max(high, x[i]);
    }
    if (high <= low) return {0, -low};
    Line best = {(high - low) / kMostCode, -low};
    float least = fit_sub(x, best).error;
    for (int step = -kSteps; step <= kSteps; ++step) {
      const float codes = kMostCode + 0.1f * static_cast<float>(step);
      const Line line = best_line(x, fit_sub(x, {(high - low) / codes, -low}).codes);
      if (!(line.scale > 0)) continue;
      const float error = fit_sub(x, line).error;
      if (!(error < least)) continue;
      least = error;
      best = line;
    }
    return best;
  }

  // Whether d and dmin, as halves hold them, gave a better block than the best so far.
  bool try_d(Line d) {
    bool is_better = false;
    for (const float scale : held_by_halves(d.scale, unit_)) {
      for (const float min : held_by_halves(d.min, unit_)) {
        const Candidate<kSub> candidate = with_d({scale, min});
        if (!(candidate.error < best_.error)) continue;
        best_ = candidate;
        is_better = true;
      }
    }
    return is_better;
  }

  Candidate<kSub> with_d(Line held) const {
    Candidate<kSub> candidate;
    const Line d = {held.scale / unit_, held.min / unit_};
    if (!std::isfinite(d.scale) || !std::isfinite(d.min)) return candidate;
    candidate.d = held;
    candidate.error = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      fit_integers(sub, d, candidate);
      candidate.error += candidate.subs[sub].error;
    }
    return candidate;
  }

  // The integers near the sub-block's real line that serve it best.
  void fit_integers(uint32_t sub, Line d, Candidate<kSub> &candidate) const {
    const Line real = real_lines_[sub];
    const float near_scale = d.scale != 0 ? code_of(real.scale / d.scale, 0, kMostScale) : 0;
    const float near_min = d.min != 0 ? code_of(real.min / d.min, 0, kMostScale) : 0;
    for (float scale = std::max(near_scale - 1, 0.0f); scale <= std::min(near_scale + 1, kMostScale); ++scale) {
      for (float min = std::max(near_min - 1, 0.0f); min <= std::min(near_min + 1, kMostScale); ++min) {
        const SubFit<kSub> found = fit_sub(x_ + sub * kSub, {d.scale * scale, d.min * min});
        if (!(found.error < candidate.subs[sub].error)) continue;
        candidate.subs[sub] = found;
        candidate.lines[sub] = {scale, min};
      }
    }
  }

  // d and dmin of the best block with its codes, scales and minima held: x = d a - dmin b with a = scale code, b = min.
  Line best_d() const {
    float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      const float *codes = best_.subs[sub].codes;
      float xs[kSub], qs[kSub], xq[kSub], qq[kSub];
      for (uint32_t i = 0; i < kSub; ++i) {
        xs[i] = x_[sub * kSub + i];
        qs[i] = codes[i];
        xq[i] = xs[i] * qs[i];
        qq[i] = qs[i] * qs[i];
      }
      const auto [scale, min] = best_.lines[sub];
      aa += scale * scale * sum_of(qq);
      ab += scale * min * sum_of(qs);
      bb += min * min * static_cast<float>(kSub);
      xa += scale * sum_of(xq);
      xb += min * sum_of(xs);
    }
    const float determinant = aa * bb - ab * ab;
    if (determinant > 0) {
      const Line line = {(xa * bb - xb * ab) / determinant, (xa * ab - xb * aa) / determinant};
      if (line.scale >= 0 && line.min >= 0) return line;
    }
    return {aa > 0 ? std::max(xa / aa, 0.0f) : 0, 0};
  }

  const float *x_;
  float unit_;
  Line real_lines_[kSubBlocks];
  Candidate<kSub> best_;
};

}  // namespace

template <class Packing>
typename Packing::Block fit(const float *weights) {
  constexpr uint32_t kSub = Packing::kSubWeights;
  AffineBlock block;
  const Normalised normalised(weights);
  if (normalised.unit == 0) return block;
  const auto best = std::isinf(normalised.unit) ? Candidate<kSub>() : Search<Packing>(normalised).run();
  block.d = best.d.scale;
  block.dmin = best.d.min;
  if (std::isinf(block.d)) return block;
  for (uint32_t sub = 0; sub < kSuperBlock / kSub; ++sub) {
    block.scales[sub] = static_cast<uint8_t>(best.lines[sub].scale);
    block.mins[sub] = static_cast<uint8_t>(best.lines[sub].min);
  }
  for (uint32_t i = 0; i < kSuperBlock; ++i) block.codes[i] = static_cast<uint8_t>(best.subs[i / kSub].codes[i % kSub]);
  return block;
}

template AffineBlock fit<KPacking<2>>(const float *);
template AffineBlock fit<KPacking<4>>(const float *);
template AffineBlock fit<KPacking<5>>(const float *);

}  // namespace bonsai::quant
