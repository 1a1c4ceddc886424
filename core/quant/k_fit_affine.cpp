// Q2_K (sub-blocks of 16), Q4_K and Q5_K (of 32): value = d scale code - dmin min, with min >= 0.
#include "core/quant/k_fit.h"
#include "core/quant/k_fit_math.h"

namespace bonsai::quant {
namespace {

constexpr int kSteps = 10;  // spreads tried on either side of the natural one
constexpr int kRefits = 2;  // of a sub-block's line and codes to one another
constexpr int kRefinements = 3;
// The factor by which a gain must be larger for it not to be rounding's.
constexpr float kBeyondRounding = 1 + 1e-6f;

// value = scale code - min.
struct Line {
  float scale = 0, min = 0;
};

// Of a sub-block's weights x and codes q.
struct Sums {
  float x, q, xq, qq;
};

// A line, and by how much it lowers the squared error below sum(x x).
struct LineGain {
  Line line;
  float gain = 0;
};

// A super-block in the search; the codes follow from it. The error is squared, in normalised weights.
template <uint32_t kSubBlocks>
struct Candidate {
  Line d = {kInfinity, kInfinity};  // d and dmin as halves hold them; infinite if none can
  Line lines[kSubBlocks];           // integers
  float error = kInfinity;
};

// Least squares over n weights, with min >= 0.
LineGain best_line(const Sums &sums, float n) {
  const float determinant = n * sums.qq - sums.q * sums.q;
  if (determinant > 0) {
    const Line line = {(n * sums.xq - sums.x * sums.q) / determinant,
                       (sums.q * sums.xq - sums.qq * sums.x) / determinant};
    if (line.min >= 0) return {line, line.scale * sums.xq - line.min * sums.x};
  }
  // Codes all alike, or a line that would need a negative minimum.
  if (sums.qq == 0) return {};
  const float scale = sums.xq / sums.qq;
  return {{scale, 0}, scale * sums.xq};
}

template <class Packing>
class Search {
 public:
  static constexpr uint32_t kSub = Packing::kSubWeights;
  static constexpr uint32_t kSubBlocks = kSuperBlock / kSub;
  using Best = Candidate<kSubBlocks>;

  explicit Search(const Normalised &weights) : x_(weights.x), unit_(weights.unit) {}

  Best run() {
    Line largest;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      real_lines_[sub] = best_real_line(x_ + sub * kSubLanes);
      largest.scale = std::max(largest.scale, real_lines_[sub].scale);
      largest.min = std::max(largest.min, real_lines_[sub].min);
    }
    try_d({largest.scale / kMostScale, largest.min / kMostScale});
    try_d({common_step(&Line::scale, largest.scale), common_step(&Line::min, largest.min)});
    for (int i = 0; i < kRefinements && !std::isinf(best_.error); ++i) {
      if (!try_d(best_d())) break;
    }
    return best_;
  }

  // Of four weights at one line, in normalised weights.
  static Lanes codes(Lanes x, Line line) {
    const float inverse = line.scale != 0 ? 1 / line.scale : 0;
    return codes_of((x + line.min) * inverse, 0, kMostCode);
  }

 private:
  static constexpr uint32_t kSubLanes = kSub / kLanes;
  static constexpr float kMostCode = Packing::kMostCode, kMostScale = Packing::kMostScale;

  static Sums sums(const Lanes *x, Line line) {
    Lanes xs = {}, qs = {}, xq = {}, qq = {};
    for (uint32_t i = 0; i < kSubLanes; ++i) {
      const Lanes code = codes(x[i], line);
      xs += x[i];
      qs += code;
      xq += x[i] * code;
      qq += code * code;
    }
    return {sum_of(xs), sum_of(qs), sum_of(xq), sum_of(qq)};
  }

  static float error(const Lanes *x, Line line) {
    Lanes squares = {};
    for (uint32_t i = 0; i < kSubLanes; ++i) {
      const Lanes rest = x[i] - (line.scale * codes(x[i], line) - line.min);
      squares += rest * rest;
    }
    return sum_of(squares);
  }

  // The natural spread puts the smallest weight, or 0 if that is smaller, at code 0 and the largest at the last code;
  // other spreads trade the error of these two for the rest's. Where weights have few values, many spreads serve
  // equally: the first is kept, not one that rounding picks, since lines that are alike from sub-block to sub-block
  // have integers in common.
  static Line best_real_line(const Lanes *x) {
    float low = 0, high = x[0][0];
    for (uint32_t i = 0; i < kSub; ++i) {
      low = std::min(low, x[i / kLanes][i % kLanes]);
      high = std::max(high, x[i / kLanes][i % kLanes]);
    }
    if (high <= low) return {0, -low};
    LineGain best;
    const auto improve = [&](Line line) {
      const LineGain found = best_line(sums(x, line), kSub);
      if (found.line.scale > 0 && found.gain > kBeyondRounding * best.gain) best = found;
    };
    for (int step = -kSteps; step <= kSteps; ++step) {
      improve({(high - low) / (kMostCode + 0.1f * static_cast<float>(step)), -low});
    }
    for (int i = 0; i < kRefits; ++i) improve(best.line);
    return best.line;
  }

  // A d, or dmin: the largest real scale, or minimum, divided by the integer of the upper half with which all
  // sub-blocks' are nearest to multiples of the quotient as a half. Of weights with few values nothing else is lost.
  float common_step(float Line::*part, float largest) const {
    Lanes reals[kSubBlocks / kLanes];
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) reals[sub / kLanes][sub % kLanes] = real_lines_[sub].*part;
    float best = largest / kMostScale, least = kInfinity;
    for (float integer = kMostScale; integer > kMostScale / 2; --integer) {
      const float step = largest / integer;
      const float held = held_by_halves(step, unit_)[0] / unit_;
      const float inverse = 1 / held;
      Lanes squares = {};
      for (const Lanes &real : reals) {
        const Lanes rest = real - held * codes_of(real * inverse, 0, kMostScale);
        squares += rest * rest;
      }
      const float found = sum_of(squares);
      if (!(found < least)) continue;  // nor for a NaN, where a half is 0 or infinite
      least = found;
      best = step;
    }
    return best;
  }

  // Whether d and dmin, as halves hold them, gave a better block than the best so far.
  bool try_d(Line d) {
    bool is_better = false;
    for (const float scale : held_by_halves(d.scale, unit_)) {
      for (const float min : held_by_halves(d.min, unit_)) {
        const Best candidate = with_d({scale, min});
        if (!(candidate.error < best_.error)) continue;
        best_ = candidate;
        is_better = true;
      }
    }
    return is_better;
  }

  Best with_d(Line held) const {
    Best candidate;
    const Line d = {held.scale / unit_, held.min / unit_};
    if (!std::isfinite(d.scale) || !std::isfinite(d.min)) return candidate;
    candidate.d = held;
    candidate.error = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) candidate.error += fit_integers(sub, d, candidate.lines[sub]);
    return candidate;
  }

  // The integers near the sub-block's real line that serve it best, and the error that they leave.
  float fit_integers(uint32_t sub, Line d, Line &line) const {
    const Line real = real_lines_[sub];
    const float near_scale = d.scale != 0 ? code_of(real.scale / d.scale, 0, kMostScale) : 0;
    const float near_min = d.min != 0 ? code_of(real.min / d.min, 0, kMostScale) : 0;
    float least = kInfinity;
    for (float scale = std::max(near_scale - 1, 0.0f); scale <= std::min(near_scale + 1, kMostScale); ++scale) {
      for (float min = std::max(near_min - 1, 0.0f); min <= std::min(near_min + 1, kMostScale); ++min) {
        const float found = error(x_ + sub * kSubLanes, {d.scale * scale, d.min * min});
        if (!(found < least)) continue;
        least = found;
        line = {scale, min};
      }
    }
    return least;
  }

  // The best d and dmin for the best block's codes, scales and minima: x = d a - dmin b with a = scale code, b = min.
  Line best_d() const {
    float aa = 0, ab = 0, bb = 0, xa = 0, xb = 0;
    for (uint32_t sub = 0; sub < kSubBlocks; ++sub) {
      const auto [scale, min] = best_.lines[sub];
      const Sums found = sums(x_ + sub * kSubLanes, {best_.d.scale / unit_ * scale, best_.d.min / unit_ * min});
      aa += scale * scale * found.qq;
      ab += scale * min * found.q;
      bb += min * min * static_cast<float>(kSub);
      xa += scale * found.xq;
      xb += min * found.x;
    }
    const float determinant = aa * bb - ab * ab;
    if (determinant > 0) {
      const Line line = {(xa * bb - xb * ab) / determinant, (xa * ab - xb * aa) / determinant};
      if (line.scale >= 0 && line.min >= 0) return line;
    }
    return {aa > 0 ? std::max(xa / aa, 0.0f) : 0, 0};
  }

  const Lanes *x_;
  float unit_;
  Line real_lines_[kSubBlocks];
  Best best_;
};

}  // namespace

template <class Packing>
typename Packing::Block fit(const float *weights) {
  using Finder = Search<Packing>;
  AffineBlock block;
  const Normalised normalised(weights);
  if (normalised.unit == 0) return block;
  const auto best = std::isinf(normalised.unit) ? typename Finder::Best() : Finder(normalised).run();
  block.d = best.d.scale;
  block.dmin = best.d.min;
  if (std::isinf(block.d)) return block;
  for (uint32_t sub = 0; sub < Finder::kSubBlocks; ++sub) {
    block.scales[sub] = static_cast<uint8_t>(best.lines[sub].scale);
    block.mins[sub] = static_cast<uint8_t>(best.lines[sub].min);
  }
  for (uint32_t i = 0; i < kSuperBlock; ++i) {
    const Line integers = best.lines[i / Finder::kSub];
    const Line line = {best.d.scale / normalised.unit * integers.scale, best.d.min / normalised.unit * integers.min};
    block.codes[i] = static_cast<uint8_t>(Finder::codes(normalised.x[i / kLanes], line)[i % kLanes]);
  }
  return block;
}

template AffineBlock fit<KPacking<2>>(const float *);
template AffineBlock fit<KPacking<4>>(const float *);
template AffineBlock fit<KPacking<5>>(const float *);

}  // namespace bonsai::quant
