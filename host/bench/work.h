// What a forward pass has to do, from the model's shape alone: the bytes that it must read, and its arithmetic.
#pragma once

#include <bonsai/engine.h>

#include <cstdint>

#include "core/model/weights.h"
#include "core/quant/format.h"
#include "host/bench/peak.h"

namespace bonsai::bench {

struct Work {
  uint64_t operations = 0;  // of matrix products and attention; a multiplication with its addition counts as two
  uint64_t bytes = 0;       // of weights as the file holds them, and of keys and values as the cache does
};

// File bytes of the tensors that the pass over one token touches: every layer, the output norm, the head, and one row
// of the embedding, which a tied head has among its own.
uint64_t weight_bytes_per_token(const model::Model &model);

// Bytes of keys and values of one position, all layers.
uint64_t kv_bytes_per_position(const model::Config &shape, KvType kv);

// `n_tokens` tokens, one after the other, behind `depth` others: the first reads depth + 1 positions of the cache.
Work decode_work(const model::Model &model, KvType kv, uint32_t depth, uint32_t n_tokens);

// A prompt of `n_tokens` on an empty cache, with logits for the last only. Bytes are the least that suffice, however
// many batches it takes: weights and positions once.
Work prefill_work(const model::Model &model, KvType kv, uint32_t n_tokens);

// How weights of a format are multiplied: integer codes with 8-bit activations, floats with floats.
Arithmetic arithmetic_of(quant::Format format);

// Operations of matrix products alone, by the arithmetic of each matrix's format.
struct MatrixWork {
  uint64_t int8 = 0;
  uint64_t fma = 0;

  uint64_t operations() const { return int8 + fma; }
};

// Operations per second where each takes the time that its own peak allows. Precondition: some work, peaks above 0.
double peak_of(const MatrixWork &work, double int8_per_second, double fma_per_second);

// Those of the same prompt: every layer's matrices for each token, the head for the last.
MatrixWork prefill_matrix_work(const model::Model &model, uint32_t n_tokens);

}  // namespace bonsai::bench
