// Whether what a model computed is numbers.
#pragma once

#include <span>

namespace bonsai::cli {

// Throws Failure where there is a NaN or +infinity among a row of logits, or nothing but -infinity: no distribution
// follows from that. In the words in which `run` refuses to choose a token then.
void check_logits(std::span<const float> logits);

}  // namespace bonsai::cli
