#include "host/speculation/shared_lengths.h"

#include <algorithm>
#include <cmath>

namespace bonsai::host {
namespace {

constexpr double kLeastGain = 1.04;       // of a text alone; less would not be seen beside the noise of a clock
constexpr double kLeastSharedGain = 1.1;  // of texts on average, where each error of the estimate costs them all
constexpr double kLeastSpeed = 0.8;       // of any text, of what it is without guesses
constexpr uint32_t kPassSizes[] = {2, 4, 8, 16};
static_assert(kPassSizes[3] == PassCosts::kMostTokens);

// What is guessed so far. It only grows.
class Plan {
 public:
  explicit Plan(std::span<const TextChance> texts) : texts_(texts), lengths_(texts.size(), 0) {
    for (const TextChance &text : texts) expected_.push_back({.next = text.acceptance});
  }

  // One more guess where it adds most to the product of all tokens. False: nobody may guess any more.
  bool grow() {
    size_t best = texts_.size();
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (lengths_[i] == texts_[i].most || expected_[i].next == 0) continue;
      if (best == texts_.size() || growth(i) > growth(best)) best = i;
    }
    if (best == texts_.size()) return false;
    ++lengths_[best];
    expected_[best].tokens += expected_[best].next;
    expected_[best].next *= texts_[best].acceptance;
    return true;
  }

  // By what factor texts get on faster in a pass that takes `ratio` times as long: the geometric mean; 0 where one of
  // them would become too slow.
  double gain(double ratio) const {
    double sum = 0, least = expected_.front().tokens;
    for (const Expected &text : expected_) {
      sum += std::log(text.tokens);
      least = std::min(least, text.tokens);
    }
    if (least / ratio < kLeastSpeed) return 0;
    return std::exp(sum / static_cast<double>(expected_.size())) / ratio;
  }

  const std::vector<uint32_t> &lengths() const { return lengths_; }

 private:
  struct Expected {
    double tokens = 1, next = 0;  // of the pass; and what one more guess adds
  };
  double growth(size_t i) const { return expected_[i].next / expected_[i].tokens; }

  const std::span<const TextChance> texts_;
  std::vector<uint32_t> lengths_;
  std::vector<Expected> expected_;
};

}  // namespace

std::vector<uint32_t> choose_shared_lengths(std::span<const TextChance> texts, uint32_t most, const PassCosts &costs) {
  const auto n_texts = static_cast<uint32_t>(texts.size());
  std::vector<uint32_t> best(n_texts, 0);
  if (n_texts == 0 || n_texts >= PassCosts::kMostTokens || costs.single() == 0) return best;
  Plan plan(texts);
  double best_gain = n_texts == 1 ? kLeastGain : kLeastSharedGain;
  for (uint32_t n = n_texts; const uint32_t size : kPassSizes) {
    if (size <= n_texts) continue;
    if (size > n_texts + most) break;
    while (n < size && plan.grow()) ++n;
    if (n < size) break;
    const double gain = plan.gain(costs.ratio(size) / costs.ratio(n_texts));
    if (gain <= best_gain) continue;
    best_gain = gain;
    best = plan.lengths();
  }
  return best;
}

}  // namespace bonsai::host
