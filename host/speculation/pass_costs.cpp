#include "host/speculation/pass_costs.h"

#include <algorithm>

namespace bonsai::host {
namespace {

constexpr double kHopedForShare = 0.2;     // of a single pass, for each further token
constexpr double kNewShare = 0.25;         // of a measurement in what is believed
constexpr double kMostOfKnown = 1.5;       // that a measurement counts for
constexpr double kForgetting = 1.0 / 512;  // at each pass, of what is believed about the other sizes

}  // namespace

double PassCosts::hoped_for(uint32_t n_tokens) { return 1 + kHopedForShare * (n_tokens - 1); }

void PassCosts::add(uint32_t n_tokens, double seconds) {
  const std::lock_guard lock(mutex_);
  if (n_tokens > kMostTokens) return;
  if (single_ == 0) single_ = seconds / hoped_for(n_tokens);
  for (uint32_t n = 2; n <= kMostTokens; ++n)
    if (n != n_tokens && ratios_[n] != 0) ratios_[n] += kForgetting * (hoped_for(n) - ratios_[n]);
  if (n_tokens == 1) {
    // A pass that the machine interrupted counts for no more than twice the usual.
    single_ += kNewShare * (std::min(seconds, 2 * single_) - single_);
  } else {
    // More than one pass for each token makes no difference. Interrupted passes must count for little here: where this
    // size is compared with a larger one, what makes it look dear makes that look cheap, and it is not measured again.
    double &known = ratios_[n_tokens];
    const double ratio = std::min<double>(seconds / single_, n_tokens);
    known = known == 0 ? ratio : known + kNewShare * (std::min(ratio, kMostOfKnown * known) - known);
  }
}

double PassCosts::single() const {
  const std::lock_guard lock(mutex_);
  return single_;
}

double PassCosts::ratio(uint32_t n_tokens) const {
  const std::lock_guard lock(mutex_);
  if (n_tokens == 1) return 1;
  return ratios_[n_tokens] == 0 ? hoped_for(n_tokens) : ratios_[n_tokens];
}

}  // namespace bonsai::host
