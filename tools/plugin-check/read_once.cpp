#include "tools/plugin-check/read_once.h"

#include <algorithm>

namespace bonsai::check {

void ReadOnce::spoil() {
  for (std::vector<uint64_t> &array : arrays_) std::ranges::fill(array, ~uint64_t{0});
}

ModelReadOnce::ModelReadOnce(const bonsai_model_spec &given) {
  bonsai_model_spec *const spec = memory_.copy(&given, 1);
  const size_t n_rotations = size_t{given.rope_positions} * (given.rope_dim / 2);
  spec->rope_cos = memory_.copy(given.rope_cos, n_rotations);
  spec->rope_sin = memory_.copy(given.rope_sin, n_rotations);
  spec->output_norm = memory_.copy(given.output_norm, given.hidden);
  spec->embedding = memory_.copy(given.embedding, 1);
  spec->head = memory_.copy(given.head, 1);
  std::vector<const bonsai_layer_spec *> layers;
  for (uint32_t i = 0; i < given.n_layers; ++i) layers.push_back(copy(*given.layers[i], given));
  spec->layers = memory_.copy(layers.data(), layers.size());
  spec_ = spec;
}

const bonsai_layer_spec *ModelReadOnce::copy(const bonsai_layer_spec &given, const bonsai_model_spec &spec) {
  bonsai_layer_spec *const layer = memory_.copy(&given, 1);
  for (const bonsai_weight_slice **slice :
       {&layer->q, &layer->k, &layer->v, &layer->o, &layer->gate, &layer->up, &layer->down})
    *slice = memory_.copy(*slice, 1);
  const size_t q = size_t{spec.n_heads} * spec.head_dim, kv = size_t{spec.n_kv_heads} * spec.head_dim;
  layer->attn_norm = memory_.copy(given.attn_norm, spec.hidden);
  layer->ffn_norm = memory_.copy(given.ffn_norm, spec.hidden);
  layer->q_norm = memory_.copy(given.q_norm, spec.head_dim);
  layer->k_norm = memory_.copy(given.k_norm, spec.head_dim);
  layer->q_bias = memory_.copy(given.q_bias, q);
  layer->k_bias = memory_.copy(given.k_bias, kv);
  layer->v_bias = memory_.copy(given.v_bias, kv);
  layer->o_bias = memory_.copy(given.o_bias, spec.hidden);
  return layer;
}

BatchReadOnce::BatchReadOnce(const bonsai_batch &given, const bonsai_model_spec &spec,
                             const bonsai_output *const *outputs, uint32_t n_outputs) {
  bonsai_batch *const batch = memory_.copy(&given, 1);
  batch->tokens = memory_.copy(given.tokens, given.n_tokens);
  batch->hidden = memory_.copy(given.hidden, size_t{given.n_tokens} * spec.hidden);
  batch->positions = memory_.copy(given.positions, given.n_tokens);
  batch->sequences = memory_.copy(given.sequences, given.n_tokens);
  batch->block_table = memory_.copy(given.block_table, size_t{given.n_sequences} * given.blocks_per_sequence);
  batch_ = batch;
  std::vector<const bonsai_output *> wanted;
  for (uint32_t i = 0; i < n_outputs; ++i) {
    bonsai_output *const output = memory_.copy(outputs[i], 1);
    output->ids = memory_.copy(output->ids, output->n_ids);
    output->adjust_ids = memory_.copy(output->adjust_ids, output->n_adjustments);
    output->adjust_add = memory_.copy(output->adjust_add, output->n_adjustments);
    output->adjust_repeat = memory_.copy(output->adjust_repeat, output->n_adjustments);
    output->mask = memory_.copy(output->mask, (size_t{spec.vocab} + 31) / 32);
    wanted.push_back(output);
  }
  outputs_ = memory_.copy(wanted.data(), wanted.size());
}

}  // namespace bonsai::check
