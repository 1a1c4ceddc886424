// What Engine::embed() makes of a text.
#pragma once

#include <cstdint>
#include <stop_token>

namespace bonsai {

// Which of the final hidden states, those behind the output norm, stand for a text: what a model was trained for, where
// it was trained for embeddings at all.
enum class Pooling : uint32_t {
  kMean = 0,   // the mean of all tokens'
  kLast = 1,   // the last token's, which has seen all the others
  kModel = 2,  // what the model's file says, else the mean
};

struct EmbeddingOptions {
  Pooling pooling = Pooling::kModel;
  // Most tokens in one pass of the model; a longer text takes several. More need more memory and, up to some hundreds,
  // less time; the result is the same (on a backend that declares BONSAI_FEATURE_DETERMINISTIC, and the CPU's does).
  uint32_t batch_tokens = 512;
  std::stop_token cancel = {};  // ends it between two passes: there is no vector then, but an empty one
};

}  // namespace bonsai
