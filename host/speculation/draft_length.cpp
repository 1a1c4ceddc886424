#include "host/speculation/draft_length.h"

#include <algorithm>

namespace bonsai::host {
namespace {

constexpr double kKept = 0.93;  // of the counts at each token: about the last 14 matter
constexpr double kMostCertain = 0.98;
constexpr double kLeastGain = 1.04;  // less would not be seen beside the noise of a clock

// What is believed before anything was seen: as if of two tokens. In order of Drafter::Evidence.
constexpr std::array<double, Drafter::kEvidences> kBelieved = {0.2, 0.3, 0.4, 0.5, 0.6, 0.7};
constexpr double kBelievedTokens = 2;

constexpr uint32_t kPassSizes[] = {2, 4, 8, 16};

}  // namespace

DraftLength::DraftLength() {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] = {kBelieved[i] * kBelievedTokens, kBelievedTokens};
}

double DraftLength::acceptance(Drafter::Evidence evidence) const {
  return std::min(kMostCertain, counts_[evidence].accepted / counts_[evidence].all);
}

uint32_t DraftLength::choose(Drafter::Evidence evidence, uint32_t most, const PassCosts &costs,
                             double draft_ratio) const {
  if (costs.single() == 0) return 0;  // nothing to compare with yet
  const double a = acceptance(evidence);
  double best_gain = kLeastGain, power = 1, tokens = 1;
  uint32_t best = 0, k = 0;
  for (const uint32_t size : kPassSizes) {
    if (size - 1 > most) break;
    for (; k < size - 1; ++k) tokens += power *= a;
    const double gain = tokens / (costs.ratio(size) + k * draft_ratio);
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = k;
  }
  return best;
}

void DraftLength::saw(Drafter::Evidence evidence, bool accepted) {
  Counts &counts = counts_[evidence];
  counts.accepted = counts.accepted * kKept + (accepted ? 1 : 0);
  counts.all = counts.all * kKept + 1;
}

}  // namespace bonsai::host
