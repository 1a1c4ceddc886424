// How much of a prompt was there already.
#pragma once

#include <bonsai/engine.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace bonsai::host {

// Tokens of a prompt of `n_prompt` that did not have to be computed for a text. What a batch computed again after a
// preemption was not reused; nor was what a text that was cancelled before its first token never came to.
inline uint32_t reused_tokens(const Generation &generation, size_t n_prompt) {
  if (generation.finish == FinishReason::kCancelled && generation.tokens.empty()) return 0;
  return static_cast<uint32_t>(n_prompt - std::min<size_t>(n_prompt, generation.stats.prompt_tokens));
}

}  // namespace bonsai::host
