// Token embeddings, decoded on the host where a device does not look them up.
#pragma once

#include <cstdint>
#include <span>

#include "core/model/weights.h"

namespace bonsai::host {

// Decodes the embedding rows of `tokens`, ids inside the vocabulary, into the first rows of `hidden` (n, model hidden).
void decode_embeddings(const model::Model &model, std::span<const int32_t> tokens, std::span<float> hidden);

}  // namespace bonsai::host
