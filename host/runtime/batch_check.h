// What every executor asks of a batch before it runs one.
#pragma once

#include <span>

#include "core/model/config.h"
#include "host/runtime/executor.h"

namespace bonsai::host {

// INVALID_ARGUMENT, with the index and the limit: an empty batch, more tokens, sequences, blocks or outputs than the
// executor was made for, spans of different lengths, a token id outside the vocabulary, a position beyond the context
// or the sequence's blocks, a block outside the pool, an output that names no token. `follows`: a pass is in flight
// that the batch may take a token from.
BackendResult<void> check_batch(const ExecutorConfig &config, const model::Config &model, const Batch &batch,
                                std::span<const Output> outputs, bool follows = false);

// INVALID_ARGUMENT for a selection beyond the limits or the vocabulary, and where its parts are not as many as they
// should be.
BackendResult<void> check_selections(const SelectionLimits &limits, const model::Config &model,
                                     std::span<const Output> outputs);

// INVALID_ARGUMENT unless there are as many sources as destinations, all inside the pool.
BackendResult<void> check_copy(const ExecutorConfig &config, std::span<const uint32_t> sources,
                               std::span<const uint32_t> destinations);

// INVALID_ARGUMENT unless the blocks are in the pool and hold n_tokens, for which `bytes` must be `expected`.
BackendResult<void> check_transfer(const ExecutorConfig &config, std::span<const uint32_t> blocks, uint32_t n_tokens,
                                   uint64_t bytes, uint64_t expected);

// "f16", "q8_0", "f32"; the number for another value.
std::string kv_dtype_name(bonsai_kv_dtype dtype);

}  // namespace bonsai::host
