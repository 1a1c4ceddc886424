// One decoder layer over a batch, in the order in which data flows.
#include <algorithm>

#include "plugins/cpu/session.h"

namespace bonsai::cpu {

void Session::run_layer(uint32_t index, const bonsai_batch &batch) {
  const Layer &layer = model_.layer(index);
  attention_half(layer, index, batch);
  ffn_half(layer, batch.n_tokens);
}

// x += Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h), h = rms_norm(x, attn_norm)
void Session::attention_half(const Layer &layer, uint32_t index, const bonsai_batch &batch) {
  Threads &threads = device_.threads();
  const KernelTable &kernels = device_.kernels();
  const ModelShape &model = shape_.model;
  Activations &a = activations_;
  norm_rows(layer.attn_norm, batch.n_tokens);
  multiply(threads, kernels,
           {.rows = layer.qkv,
            .columns = model.hidden,
            .n = batch.n_tokens,
            .x = a.h.data(),
            .y = a.qkv.data(),
            .y_stride = model.qkv_rows(),
            .activations = a.quantized.data()});
  threads.each_range(batch.n_tokens, rows_worth_a_thread(model.qkv_rows()), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) prepare_heads(layer, index, batch, static_cast<uint32_t>(i));
  });
  attention_.run(threads, kernels,
                 {.cache = &cache_,
                  .layer = index,
                  .softmax_scale = model_.softmax_scale(),
                  .queries = a.queries.data(),
                  .y = a.attended.data()});
  multiply(threads, kernels,
           {.rows = layer.o,
            .columns = model.q_rows(),
            .n = batch.n_tokens,
            .x = a.attended.data(),
            .y = a.h.data(),
            .y_stride = model.hidden,
            .activations = a.quantized.data()});
  add_to_residual(layer.o_bias, batch.n_tokens);
}

// x += Wdown (silu(Wgate h) * (Wup h)), h = rms_norm(x, ffn_norm)
void Session::ffn_half(const Layer &layer, uint32_t n_tokens) {
  Threads &threads = device_.threads();
  const KernelTable &kernels = device_.kernels();
  const uint64_t hidden = shape_.model.hidden, ffn = shape_.model.ffn;
  Activations &a = activations_;
  norm_rows(layer.ffn_norm, n_tokens);
  multiply(threads, kernels,
           {.rows = layer.gate_up,
            .columns = hidden,
            .n = n_tokens,
            .x = a.h.data(),
            .y = a.gate_up.data(),
            .y_stride = 2 * ffn,
            .activations = a.quantized.data()});
  threads.each_range(n_tokens, rows_worth_a_thread(ffn), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      const float *gate = a.gate_up.data() + i * 2 * ffn;
      kernels.swiglu({.gate = gate, .up = gate + ffn, .n = ffn, .y = a.ffn.data() + i * ffn});
    }
  });
  multiply(threads, kernels,
           {.rows = layer.down,
            .columns = ffn,
            .n = n_tokens,
            .x = a.ffn.data(),
            .y = a.h.data(),
            .y_stride = hidden,
            .activations = a.quantized.data()});
  add_to_residual(nullptr, n_tokens);
}

// h = rms_norm(x, weight)
void Session::norm_rows(const float *weight, uint32_t n_tokens) {
  const uint64_t hidden = shape_.model.hidden;
  device_.threads().each_range(n_tokens, rows_worth_a_thread(hidden), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      device_.kernels().rms_norm({.x = activations_.x.data() + i * hidden,
                                  .weight = weight,
                                  .n = hidden,
                                  .eps = model_.rms_eps(),
                                  .y = activations_.h.data() + i * hidden});
    }
  });
}

// One token's heads: biases, norms and RoPE; K and V go to the cache, queries to where attention reads them.
void Session::prepare_heads(const Layer &layer, uint32_t index, const bonsai_batch &batch, uint32_t token) {
  const ModelShape &model = shape_.model;
  const uint32_t head_dim = model.head_dim, padded = 16 * model.vectors(), position = batch.positions[token];
  const uint32_t *blocks = batch.block_table + uint64_t{batch.sequences[token]} * batch.blocks_per_sequence;
  const uint32_t block = blocks[position / shape_.kv.block_size], slot = position % shape_.kv.block_size;

  float *qkv = activations_.qkv.data() + token * model.qkv_rows();
  if (layer.qkv_bias) {
    for (uint64_t i = 0; i < model.qkv_rows(); ++i) qkv[i] += layer.qkv_bias[i];
  }
  float *query = activations_.queries.data() + token * shape_.query_floats();
  for (uint32_t head = 0; head < model.heads; ++head, query += padded) {
    float *q = qkv + uint64_t{head} * head_dim;
    normalize_and_rotate(q, layer.q_norm, position);
    std::fill(std::copy_n(q, head_dim, query), query + padded, 0.0f);
  }
  for (uint32_t head = 0; head < model.kv_heads; ++head) {
    float *k = qkv + model.q_rows() + uint64_t{head} * head_dim;
    normalize_and_rotate(k, layer.k_norm, position);
    cache_.store(device_.kernels(), cache_.key(index, block, head, slot), k);
    cache_.store(device_.kernels(), cache_.value(index, block, head, slot), k + model.kv_rows());
  }
}

void Session::normalize_and_rotate(float *head, const float *norm, uint32_t position) const {
  if (norm) {
    device_.kernels().rms_norm(
        {.x = head, .weight = norm, .n = shape_.model.head_dim, .eps = model_.rms_eps(), .y = head});
  }
  const uint32_t pairs = shape_.model.rope_dim / 2;
  const float *cos = model_.rope_cos(position), *sin = model_.rope_sin(position);
  for (uint32_t i = 0; i < pairs; ++i) {
    const float a = head[i], b = head[i + pairs];
    head[i] = a * cos[i] - b * sin[i];
    head[i + pairs] = b * cos[i] + a * sin[i];
  }
}

// x += h + bias
void Session::add_to_residual(const float *bias, uint32_t n_tokens) {
  const uint64_t hidden = shape_.model.hidden;
  device_.threads().each_range(n_tokens, rows_worth_a_thread(hidden), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      float *x = activations_.x.data() + i * hidden;
      const float *h = activations_.h.data() + i * hidden;
      for (uint64_t j = 0; j < hidden; ++j) x[j] += h[j];
      for (uint64_t j = 0; bias && j < hidden; ++j) x[j] += bias[j];
    }
  });
}

}  // namespace bonsai::cpu
