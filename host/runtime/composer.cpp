#include "host/runtime/composer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/floating_point_environment.h"
#include "host/backend/plugin_text.h"
#include "host/backend/registry.h"
#include "host/runtime/batch_check.h"
#include "host/runtime/embedding.h"

namespace bonsai::host {
namespace {

// Rows that the head multiplies at once: logits are large, and so a whole batch of them is not held twice.
constexpr size_t kHeadRows = 8;

// Eight partial sums, so that the compiler may use vector registers without reordering.
float dot(const float *a, const float *b, size_t n) {
  float lanes[8] = {};
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  float sum = 0;
  for (; i < n; ++i) sum += a[i] * b[i];
  for (const float lane : lanes) sum += lane;
  return sum;
}

// out = weight * x / sqrt(mean(x^2) + eps); out may be x.
void rms_norm(const float *x, const std::vector<float> &weight, float eps, float *out) {
  const size_t n = weight.size();
  const float scale = 1.0f / std::sqrt(dot(x, x, n) / static_cast<float>(n) + eps);
  for (size_t i = 0; i < n; ++i) out[i] = weight[i] * (x[i] * scale);
}

// In place; subtracting the largest first keeps exp in range.
void softmax(std::span<float> x) {
  const float largest = *std::max_element(x.begin(), x.end());
  float sum = 0;
  for (float &value : x) sum += value = std::exp(value - largest);
  for (float &value : x) value /= sum;
}

float silu(float x) { return x / (1.0f + std::exp(-x)); }

void add(const float *from, float *to, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

size_t q_rows(const model::Config &shape) { return size_t{shape.heads} * shape.head_dim; }
size_t kv_rows(const model::Config &shape) { return size_t{shape.kv_heads} * shape.head_dim; }
size_t qkv_rows(const model::Config &shape) { return q_rows(shape) + 2 * kv_rows(shape); }

}  // namespace

Composer::Composer(const DeviceModel &model, const ExecutorConfig &config)
    : model_(model),
      shape_(model.model().config),
      config_(config),
      rope_(model::make_rope_table(shape_, config.context)),
      kv_(config, shape_),
      x_(size_t{config.max_tokens} * shape_.hidden),
      h_(std::max<size_t>(config.max_tokens, kHeadRows) * shape_.hidden),
      qkv_(config.max_tokens * qkv_rows(shape_)),
      attended_(config.max_tokens * q_rows(shape_)),
      gate_up_(size_t{config.max_tokens} * 2 * shape_.ffn),
      swiglu_(size_t{config.max_tokens} * shape_.ffn),
      logits_(std::min<size_t>(config.max_outputs, kHeadRows) * shape_.vocab),
      keys_(size_t{config.context} * shape_.head_dim),
      values_(size_t{config.context} * shape_.head_dim),
      scores_(config.context) {}

uint64_t Composer::memory_bytes() const {
  uint64_t floats = rope_.cos.size() + rope_.sin.size();
  for (const auto *scratch : {&x_, &h_, &qkv_, &attended_, &gate_up_, &swiglu_, &logits_, &keys_, &values_, &scores_}) {
    floats += scratch->size();
  }
  return kv_.bytes() + floats * sizeof(float);
}

BackendResult<void> Composer::forward(const Batch &batch, std::span<Output> outputs) {
  const DefaultFloatingPoint environment;  // plugins see to their own part, and the rest is computed here
  auto done = check_batch(config_, shape_, batch, outputs);
  if (done) done = check_selections(selection_limits(), shape_, outputs);
  if (!done) return done;
  decode_embeddings(model_.model(), batch.tokens, x_);
  for (uint32_t layer = 0; done && layer < shape_.layers; ++layer) done = run_layer(layer, batch);
  return done ? run_outputs(outputs) : done;
}

BackendResult<void> Composer::kv_copy(std::span<const uint32_t> sources, std::span<const uint32_t> destinations) {
  auto checked = check_copy(config_, sources, destinations);
  for (size_t i = 0; checked && i < sources.size(); ++i) kv_.copy_block(sources[i], destinations[i]);
  return checked;
}

BackendResult<void> Composer::kv_export(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                        std::span<std::byte> data) {
  auto checked = check_transfer(config_, blocks, n_tokens, data.size(), kv_.exported_bytes(n_tokens));
  if (checked) kv_.export_tokens(blocks, n_tokens, data.data());
  return checked;
}

BackendResult<void> Composer::kv_import(std::span<const uint32_t> blocks, uint32_t n_tokens,
                                        std::span<const std::byte> data) {
  auto checked = check_transfer(config_, blocks, n_tokens, data.size(), kv_.exported_bytes(n_tokens));
  if (checked) kv_.import_tokens(blocks, n_tokens, data.data());
  return checked;
}

// y (n, rows) = W x for n vectors.
BackendResult<void> Composer::multiply(const Weight &weight, uint64_t rows, size_t n, const std::vector<float> &x,
                                       std::vector<float> &y) {
  bonsai_gemv_args args{};
  args.struct_size = sizeof args;
  args.n = static_cast<uint32_t>(n);
  args.weight = weight.handle();
  args.rows = rows;
  args.x = x.data();
  args.y = y.data();
  // What a backend says it has computed and has not written must not pass for a result: NaN reaches the logits.
  for (size_t i = 0; i < n; ++i) y[i * rows] = std::numeric_limits<float>::quiet_NaN();
  const Device &device = model_.device();
  CallError error;
  const bonsai_status status = error.of([&] { return device.api().gemv(device.handle(), &args, error.out()); });
  if (status != BONSAI_OK) return tl::unexpected(error.failure(device.backend().name(), "gemv", status));
  return {};
}

BackendResult<void> Composer::run_layer(uint32_t layer, const Batch &batch) {
  const DeviceLayer &matrices = model_.layers()[layer];
  const model::LayerWeights &weights = model_.model().layers[layer];
  const size_t n = batch.tokens.size(), hidden = shape_.hidden, ffn = shape_.ffn;

  for (size_t i = 0; i < n; ++i) rms_norm(&x_[i * hidden], weights.attn_norm, shape_.rms_eps, &h_[i * hidden]);
  auto done = multiply(matrices.qkv, qkv_rows(shape_), n, h_, qkv_);
  if (!done) return done;
  rotate_and_store(layer, batch);
  attend(layer, batch);
  done = multiply(matrices.o, hidden, n, attended_, h_);
  if (!done) return done;
  add(h_.data(), x_.data(), n * hidden);

  for (size_t i = 0; i < n; ++i) rms_norm(&x_[i * hidden], weights.ffn_norm, shape_.rms_eps, &h_[i * hidden]);
  done = multiply(matrices.gate_up, 2 * ffn, n, h_, gate_up_);
  if (!done) return done;
  for (size_t i = 0; i < n; ++i) {
    const float *gate = &gate_up_[i * 2 * ffn], *up = gate + ffn;
    for (size_t j = 0; j < ffn; ++j) swiglu_[i * ffn + j] = silu(gate[j]) * up[j];
  }
  done = multiply(matrices.down, hidden, n, swiglu_, h_);
  if (done) add(h_.data(), x_.data(), n * hidden);
  return done;
}

// Pairs (i, i + head_dim / 2) turn by the table's angle for `position`.
void Composer::rope(float *head, uint32_t position) const {
  const float *cos = &rope_.cos[size_t{position} * rope_.pairs], *sin = &rope_.sin[size_t{position} * rope_.pairs];
  for (uint32_t i = 0; i < rope_.pairs; ++i) {
    const float a = head[i], b = head[i + rope_.pairs];
    head[i] = a * cos[i] - b * sin[i];
    head[i + rope_.pairs] = a * sin[i] + b * cos[i];
  }
}

// Norm and RoPE of every head of q and k; then all of the batch's K and V are stored, before any token attends.
void Composer::rotate_and_store(uint32_t layer, const Batch &batch) {
  const model::LayerWeights &weights = model_.model().layers[layer];
  for (size_t i = 0; i < batch.tokens.size(); ++i) {
    float *const q = &qkv_[i * qkv_rows(shape_)], *const k = q + q_rows(shape_), *const v = k + kv_rows(shape_);
    const uint32_t position = batch.positions[i];
    for (float *head = q; head != v; head += shape_.head_dim) {
      rms_norm(head, head < k ? weights.q_norm : weights.k_norm, shape_.rms_eps, head);
      rope(head, position);
    }
    const size_t column = size_t{batch.sequences[i]} * batch.blocks_per_sequence + position / config_.block_size;
    const uint32_t block = batch.block_table[column], slot = position % config_.block_size;
    kv_.store(layer, KvCache::Kind::kKeys, block, slot, k);
    kv_.store(layer, KvCache::Kind::kValues, block, slot, v);
  }
}

// Neighbours of one sequence attend together, so that its cache is decoded once for all of them.
void Composer::attend(uint32_t layer, const Batch &batch) {
  for (size_t begin = 0, end; begin < batch.tokens.size(); begin = end) {
    for (end = begin + 1; end < batch.tokens.size() && batch.sequences[end] == batch.sequences[begin];) ++end;
    for (uint32_t kv_head = 0; kv_head < shape_.kv_heads; ++kv_head) attend_run(layer, kv_head, batch, begin, end);
  }
}

// a = softmax(q K^T / sqrt(head_dim)) V of the batch's tokens [begin, end), for the heads that read `kv_head`.
void Composer::attend_run(uint32_t layer, uint32_t kv_head, const Batch &batch, size_t begin, size_t end) {
  const size_t dim = shape_.head_dim;
  const uint32_t group = shape_.heads / shape_.kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(dim));
  const auto positions = batch.positions.subspan(begin, end - begin);
  const uint32_t n_positions = *std::max_element(positions.begin(), positions.end()) + 1;
  const auto blocks = batch.block_table.subspan(size_t{batch.sequences[begin]} * batch.blocks_per_sequence);
  kv_.load(layer, KvCache::Kind::kKeys, kv_head, blocks, n_positions, keys_.data());
  kv_.load(layer, KvCache::Kind::kValues, kv_head, blocks, n_positions, values_.data());

  for (size_t i = begin; i < end; ++i) {
    const std::span<float> scores(scores_.data(), batch.positions[i] + 1);
    for (uint32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      const float *q = &qkv_[i * qkv_rows(shape_) + head * dim];
      for (size_t p = 0; p < scores.size(); ++p) scores[p] = scale * dot(q, &keys_[p * dim], dim);
      softmax(scores);
      float *a = &attended_[i * q_rows(shape_) + head * dim];
      std::fill_n(a, dim, 0.0f);
      for (size_t p = 0; p < scores.size(); ++p) {
        for (size_t j = 0; j < dim; ++j) a[j] += scores[p] * values_[p * dim + j];
      }
    }
  }
}

BackendResult<void> Composer::run_outputs(std::span<Output> outputs) {
  std::vector<Output *> with_logits;
  for (Output &output : outputs) {
    if (output.kind == OutputKind::kLogits) {
      with_logits.push_back(&output);
    } else {
      output.hidden.resize(shape_.hidden);
      output_norm(output, output.hidden.data());
    }
  }
  return run_head(with_logits);
}

void Composer::output_norm(const Output &output, float *h) const {
  rms_norm(&x_[size_t{output.token} * shape_.hidden], model_.model().output_norm, shape_.rms_eps, h);
}

BackendResult<void> Composer::run_head(std::span<Output *const> outputs) {
  const size_t hidden = shape_.hidden, vocab = shape_.vocab;
  for (size_t begin = 0; begin < outputs.size(); begin += kHeadRows) {
    const auto rows = outputs.subspan(begin, std::min(kHeadRows, outputs.size() - begin));
    for (size_t i = 0; i < rows.size(); ++i) output_norm(*rows[i], &h_[i * hidden]);
    auto done = multiply(model_.head(), vocab, rows.size(), h_, logits_);
    if (!done) return done;
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i]->logits.assign(&logits_[i * vocab], &logits_[i * vocab] + vocab);
    }
  }
  return {};
}

}  // namespace bonsai::host
