#include "plugins/cuda/way_trial.h"

#include <algorithm>

namespace bonsai::cuda {

Way WayTrial::next() {
  if (winner_) {
    measures_ = false;
    return *winner_;
  }
  const uint32_t turn = tokens_ / kTurnTokens;
  measures_ = tokens_++ % kTurnTokens >= kUncounted;
  return turn % 2 == 0 ? Way::kApart : Way::kAtOnce;
}

void WayTrial::note(Way way, double seconds) {
  if (winner_) return;
  seconds_of(way).push_back(seconds);
  if (seconds_[0].size() < kWanted || seconds_[1].size() < kWanted) return;
  winner_ = median_seconds(Way::kAtOnce) < median_seconds(Way::kApart) ? Way::kAtOnce : Way::kApart;
}

double WayTrial::median_seconds(Way way) const {
  std::vector<double> seconds = seconds_[static_cast<size_t>(way)];
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<ptrdiff_t>(seconds.size() / 2);
  std::ranges::nth_element(seconds, middle);
  return *middle;
}

}  // namespace bonsai::cuda
