// Tokens that may not come next.
#pragma once

#include <cstdint>
#include <span>

namespace bonsai::host {

// Makes the logit of each token whose bit is not set -infinity: bit i % 32 of word i / 32 is token i's. Comes before
// bias, penalties and all else. Precondition: the mask has a bit for each logit.
void apply_mask(std::span<const uint32_t> mask, std::span<float> logits);

}  // namespace bonsai::host
