#include "host/cli/logit_check.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/cli/command.h"

namespace bonsai::cli {

void check_logits(std::span<const float> logits) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (std::any_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); }))
    throw Failure("the model produced NaN logits");
  const float largest = *std::max_element(logits.begin(), logits.end());
  if (largest == kInfinity) throw Failure("the model produced infinite logits");
  if (largest == -kInfinity) throw Failure("no token is allowed: every logit is -infinity");
}

}  // namespace bonsai::cli
