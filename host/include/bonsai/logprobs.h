// How likely the model found a token that was chosen, and what it found likelier.
#pragma once

#include <cstdint>
#include <vector>

namespace bonsai {

// A token and the natural logarithm of its probability; -infinity for one that cannot be.
struct LogProb {
  int32_t token = 0;
  double logprob = 0;
};

// One place of a text, in the model's own distribution: the softmax of its logits over the whole vocabulary, before
// grammar, logit bias, penalties and temperature change anything.
struct TokenLogProbs {
  LogProb chosen;
  std::vector<LogProb> top;  // the likeliest, in falling order (ties: lower id first); `chosen` need not be among them
};

}  // namespace bonsai
