// The check of what a batch brings: ids, references to the previous submit's outputs, or hidden states.
#pragma once

#include <bonsai/backend.h>

#include <cstdint>

#include "plugins/common/failure.h"
#include "plugins/common/model_shape.h"

namespace bonsai::plugin {

// The output that a token refers to. Precondition: token < 0.
inline uint32_t referred_output(int32_t token) { return static_cast<uint32_t>(-1 - token); }

// Throws BONSAI_INVALID_ARGUMENT. `selects(j)` says whether output j of the previous submit selected a token; it is
// called for any j that a token refers to.
template <class Selects>
void check_tokens(const bonsai_batch &batch, const ModelShape &model, Selects &&selects) {
  if (!model.has_embedding) {
    if (batch.tokens) reject("batch->tokens is given, expected NULL: the session has no embedding");
    return require_pointer(batch.hidden, "batch->hidden");
  }
  if (batch.hidden) reject("batch->hidden is given, expected NULL: the session has an embedding");
  require_pointer(batch.tokens, "batch->tokens");
  for (uint32_t i = 0; i < batch.n_tokens; ++i) {
    const int32_t token = batch.tokens[i];
    if (token >= 0) {
      if (static_cast<uint32_t>(token) < model.vocab) continue;
      reject("batch->tokens[{}] is {}, expected 0 to {}", i, token, model.vocab - 1);
    }
    if (!selects(referred_output(token))) {
      reject("batch->tokens[{}] refers to output {}, which selected no token in the previous submit", i, -1 - token);
    }
  }
}

}  // namespace bonsai::plugin
