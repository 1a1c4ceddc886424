// How the next token is chosen from a row of logits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <bonsai/export.h>

namespace bonsai {

// Added to one token's logit before anything else; -infinity forbids the token.
struct LogitBias {
  int32_t token = 0;
  float add = 0;
};

// Applied in this order, which is llama.cpp's: logit bias, penalties, top-k, top-p, min-p, temperature. The defaults
// are the preset "balanced".
struct SamplingOptions {
  float temperature = 0.7f;  // logits are divided by it; 0: the largest logit wins and nothing is random
  uint32_t top_k = 40;       // keep the k largest logits; 0: all
  float top_p = 0.9f;        // then the fewest that together hold this share of the probability (arXiv:1904.09751)
  float min_p = 0.0f;        // then those at least this likely, relative to the likeliest (arXiv:2407.01082)

  // Penalties look at the last `penalty_window` tokens, the prompt's included; -1: at all of them, 0: at none.
  // A token found there has its logit divided by repetition_penalty if positive, else multiplied (arXiv:1909.05858),
  // then lowered by presence_penalty, and by frequency_penalty for each time that it occurred.
  float repetition_penalty = 1.0f;
  float presence_penalty = 0.0f;
  float frequency_penalty = 0.0f;
  int32_t penalty_window = 64;

  std::vector<LogitBias> logit_bias = {};
  std::optional<uint64_t> seed = {};  // equal seeds give equal choices on every machine; absent: drawn at random
};

// "greedy", "balanced", "creative" or "code"; nullopt for other names.
BONSAI_API std::optional<SamplingOptions> sampling_preset(std::string_view name);

}  // namespace bonsai
