// One decoder layer over a batch, in the order in which data flows.
#include <algorithm>

#include "plugins/cpu/session.h"

namespace bonsai::cpu {

void Session::run_layer(uint32_t index, const bonsai_batch &batch) {
  const Layer &layer = model_.layer(index);
  attention_half(layer, index, batch);
  ffn_half(layer, index, batch.n_tokens);
}

// x += Wo attention(rope(norm(Wq h)), rope(norm(Wk h)), Wv h), h = rms_norm(x, attn_norm)
void Session::attention_half(const Layer &layer, uint32_t index, const bonsai_batch &batch) {
  const ModelShape &model = shape_.model;
  Activations &a = activations_;
  norm_rows(layer.attn_norm, batch.n_tokens);
  const Product qkv = {.rows = layer.qkv,
                       .columns = model.hidden,
                       .n = batch.n_tokens,
                       .x = a.h.data(),
                       .x_stride = model.hidden,
                       .y = a.qkv.data(),
                       .y_stride = model.qkv_rows(),
                       .activations = a.scratch(),
                       .sectors = model_.qkv_sectors(),
                       .next = layer.o};
  // A profile has attention by itself.
  const bool attends =
      has_sectors(qkv) && attention_.has_heads_for(device_.threads().count()) && !device_.profile().is_on();
  const auto prepare = [&](const Section &heads, int worker) {
    prepare_heads(layer, index, batch, heads);
    if (attends)
      attention_.run_heads(device_.kernels(), attention_inputs(index, batch.n_tokens), heads.first, heads.last, worker);
  };
  project(Phase::kQkv, qkv, {Phase::kRope, (model.group() + 2) * model.head_dim, prepare});
  if (!attends) attend(index, batch);
  const Activations::Rows attended = a.attended(batch.n_tokens);
  project(Phase::kO, {.rows = layer.o,
                      .columns = model.q_rows(),
                      .n = batch.n_tokens,
                      .x = attended.data,
                      .x_stride = attended.stride,
                      .y = a.h.data(),
                      .y_stride = model.hidden,
                      .activations = a.scratch(),
                      .next = layer.gate_up,
                      .next_sectors = model_.ffn_sectors()});
  add_to_residual(layer.o_bias, batch.n_tokens);
}

// x += Wdown (silu(Wgate h) * (Wup h)), h = rms_norm(x, ffn_norm)
void Session::ffn_half(const Layer &layer, uint32_t index, uint32_t n_tokens) {
  const uint64_t hidden = shape_.model.hidden, ffn = shape_.model.ffn;
  Activations &a = activations_;
  norm_rows(layer.ffn_norm, n_tokens);
  const Activations::Rows activated = a.ffn(n_tokens);
  const auto step = [&](const Section &columns, int) { swiglu(columns, activated); };
  project(Phase::kGateUp,
          {.rows = layer.gate_up,
           .columns = hidden,
           .n = n_tokens,
           .x = a.h.data(),
           .x_stride = hidden,
           .y = a.gate_up.data(),
           .y_stride = 2 * ffn,
           .activations = a.scratch(),
           .sectors = model_.ffn_sectors(),
           .next = layer.down},
          {Phase::kSwiglu, Model::kFfnSector, step});
  project(Phase::kDown, {.rows = layer.down,
                         .columns = ffn,
                         .n = n_tokens,
                         .x = activated.data,
                         .x_stride = activated.stride,
                         .y = a.h.data(),
                         .y_stride = hidden,
                         .activations = a.scratch(),
                         .next = model_.after(index),
                         .next_sectors = model_.qkv_sectors()});
  add_to_residual(nullptr, n_tokens);
}

void Session::project(Phase phase, const Product &product) {
  Profile &profile = device_.profile();
  const Profile::Span span(profile, phase);
  multiply(device_.threads(), device_.kernels(), product);
  if (profile.is_on()) profile.add_bytes(phase, bytes_of_rows(product.rows));
}

// With a step on the results: by the worker that has them, or afterwards. A profile has the two apart.
void Session::project(Phase phase, Product product, const Step &step) {
  if (device_.profile().is_on() || !has_sectors(product)) {
    project(phase, product);
    return run_step(product, step);
  }
  const auto run = [&](uint64_t first, uint64_t last, int worker) { step.run({0, product.n, first, last}, worker); };
  const SectorStep then = run;
  product.then = &then;
  project(phase, product);
}

// A step on all tokens and sectors, which count as one row after the other.
void Session::run_step(const Product &product, const Step &step) {
  const Profile::Span span(device_.profile(), step.phase);
  const uint64_t sectors = product.sectors.n;
  const size_t grain = rows_worth_a_thread(step.sector_width);
  device_.threads().each_range(product.n * sectors, grain, [&](size_t begin, size_t end, int worker) {
    for (size_t row_end; begin < end; begin = row_end) {
      const auto token = static_cast<uint32_t>(begin / sectors);
      row_end = std::min(end, (token + 1) * sectors);
      step.run({token, token + 1, begin - token * sectors, row_end - token * sectors}, worker);
    }
  });
}

void Session::attend(uint32_t index, const bonsai_batch &batch) {
  Profile &profile = device_.profile();
  const Profile::Span span(profile, Phase::kAttention);
  attention_.run(device_.threads(), device_.kernels(), attention_inputs(index, batch.n_tokens));
  if (profile.is_on()) profile.add_bytes(Phase::kAttention, attended_bytes(batch));
}

SelfAttention::Inputs Session::attention_inputs(uint32_t layer, uint32_t n_tokens) const {
  const Activations::Rows y = activations_.attended(n_tokens);
  return {.cache = &cache_,
          .layer = layer,
          .softmax_scale = model_.softmax_scale(),
          .queries = activations_.queries.data(),
          .y = y.data,
          .y_stride = y.stride};
}

// Keys and values of one layer that the batch's sequences attend to, each position once for a run of tokens.
uint64_t Session::attended_bytes(const bonsai_batch &batch) const {
  uint64_t positions = 0;
  for (uint32_t i = 0; i < batch.n_tokens;) {
    const uint32_t sequence = batch.sequences[i];
    uint64_t longest = 0;
    for (; i < batch.n_tokens && batch.sequences[i] == sequence; ++i) {
      longest = std::max<uint64_t>(longest, batch.positions[i] + uint64_t{1});
    }
    positions += longest;
  }
  return positions * 2 * shape_.model.kv_heads * KvCache::head_bytes(shape_.kv);
}

// h = rms_norm(x, weight)
void Session::norm_rows(const float *weight, uint32_t n_tokens) {
  const Profile::Span span(device_.profile(), Phase::kNorm);
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

// y = silu(gate) * up
void Session::swiglu(const Section &columns, Activations::Rows y) {
  const uint64_t ffn = shape_.model.ffn, begin = columns.first * Model::kFfnSector;
  const uint64_t end = std::min(ffn, columns.last * Model::kFfnSector);
  for (uint64_t token = columns.first_token; token < columns.last_token; ++token) {
    const float *gate = activations_.gate_up.data() + token * 2 * ffn + begin;
    device_.kernels().swiglu(
        {.gate = gate, .up = gate + ffn, .n = end - begin, .y = y.data + token * y.stride + begin});
  }
}

// Biases, norms and RoPE of some kv heads and their queries; K and V go to the cache, queries to where attention reads
// them.
void Session::prepare_heads(const Layer &layer, uint32_t index, const bonsai_batch &batch, const Section &heads) {
  const uint32_t group = shape_.model.group();
  for (uint32_t token = heads.first_token; token < heads.last_token; ++token) {
    for (auto head = static_cast<uint32_t>(heads.first); head < heads.last; ++head) {
      for (uint32_t i = 0; i < group; ++i) prepare_query(layer, batch, token, head * group + i);
      prepare_key_and_value(layer, index, batch, {token, head});
    }
  }
}

void Session::add_qkv_bias(const Layer &layer, float *head, uint64_t first_row) const {
  if (layer.qkv_bias) {
    device_.kernels().add_rows({.x = layer.qkv_bias + first_row, .n = shape_.model.head_dim, .y = head});
  }
}

void Session::prepare_query(const Layer &layer, const bonsai_batch &batch, uint32_t token, uint32_t head) {
  const ModelShape &model = shape_.model;
  const uint64_t row = uint64_t{head} * model.head_dim, padded = 16 * model.vectors();
  float *q = activations_.qkv.data() + token * model.qkv_rows() + row;
  add_qkv_bias(layer, q, row);
  normalize_and_rotate(q, layer.q_norm, batch.positions[token]);
  float *query = activations_.queries.data() + token * shape_.query_floats() + head * padded;
  std::fill(std::copy_n(q, model.head_dim, query), query + padded, 0.0f);
}

void Session::prepare_key_and_value(const Layer &layer, uint32_t index, const bonsai_batch &batch, KvHead head) {
  const ModelShape &model = shape_.model;
  const uint32_t position = batch.positions[head.token], block_size = shape_.kv.block_size;
  const uint32_t *blocks = batch.block_table + uint64_t{batch.sequences[head.token]} * batch.blocks_per_sequence;
  const uint32_t block = blocks[position / block_size], slot = position % block_size;
  const uint64_t row = model.q_rows() + uint64_t{head.index} * model.head_dim;
  float *k = activations_.qkv.data() + head.token * model.qkv_rows() + row, *v = k + model.kv_rows();
  add_qkv_bias(layer, k, row);
  add_qkv_bias(layer, v, row + model.kv_rows());
  normalize_and_rotate(k, layer.k_norm, position);
  cache_.store(device_.kernels(), cache_.key(index, block, head.index, slot), k);
  cache_.store(device_.kernels(), cache_.value(index, block, head.index, slot), v);
}

void Session::normalize_and_rotate(float *head, const float *norm, uint32_t position) const {
  if (norm) {
    device_.kernels().rms_norm(
        {.x = head, .weight = norm, .n = shape_.model.head_dim, .eps = model_.rms_eps(), .y = head});
  }
  device_.kernels().rotate({.x = head,
                            .cos = model_.rope_cos(position),
                            .sin = model_.rope_sin(position),
                            .pairs = shape_.model.rope_dim / 2});
}

// x += h + bias
void Session::add_to_residual(const float *bias, uint32_t n_tokens) {
  const Profile::Span span(device_.profile(), Phase::kResidual);
  const uint64_t hidden = shape_.model.hidden;
  device_.threads().each_range(n_tokens, rows_worth_a_thread(hidden), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      float *x = activations_.x.data() + i * hidden;
      const float *h = activations_.h.data() + i * hidden;
      device_.kernels().add_rows({.x = h, .n = hidden, .y = x});
      if (bias) device_.kernels().add_rows({.x = bias, .n = hidden, .y = x});
    }
  });
}

}  // namespace bonsai::cpu
