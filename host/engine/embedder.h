// Engine::embed(): one vector for a text.
#pragma once

#include <bonsai/embedding.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "host/engine/engine_state.h"

namespace bonsai::host {

// The ids of a text to embed: BOS in front if the model wants it, special tokens that are spelled out are plain text.
// Throws EngineError: an empty text, invalid UTF-8, a file without tokenizer.
std::vector<int32_t> tokens_to_embed(const EngineState &engine, std::string_view text);

// A vector (hidden) of length 1, computed in an executor of its own, just large enough for the tokens; an empty one
// once it is cancelled. Throws EngineError: no tokens, more than the context, an id outside the vocabulary, options out
// of range, a backend that fails where the CPU cannot or may not take over.
std::vector<float> embed(EngineState &engine, std::span<const int32_t> tokens, const EmbeddingOptions &options);

}  // namespace bonsai::host
