#include "core/reference/reference.h"

#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <cmath>

#include "core/base/available_cores.h"
#include "core/base/runnable_threads.h"
#include "core/reference/rotation.h"

namespace bonsai::reference {
namespace {

constexpr size_t kQ8Group = 32;
constexpr uint64_t kMostDecodedBytes = 128 << 20;

// Tokens that go through a layer together: what decoding a weight takes is divided by as many.
constexpr size_t kMostTogether = 64;

// Copies of all weights of a seedling fit in memory and are worth it; those of an 8B model do not.
bool is_small(const model::Model &model) {
  uint64_t weights = model.head->rows() * model.head->columns();
  for (const model::LayerWeights &layer : model.layers) {
    for (const gguf::Tensor *tensor :
         {layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_output, layer.ffn_gate, layer.ffn_up, layer.ffn_down}) {
      weights += tensor->rows() * tensor->columns();
    }
  }
  return weights * sizeof(double) <= kMostDecodedBytes;
}

// Of rows as wide as `weight`: weight * x / sqrt(mean(x²) + eps).
void rms_norm_in_place(std::span<double> rows, std::span<const float> weight, double eps) {
  for (size_t begin = 0; begin < rows.size(); begin += weight.size()) {
    const std::span<double> x = rows.subspan(begin, weight.size());
    double squares = 0;
    for (double value : x) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
    for (size_t i = 0; i < x.size(); ++i) x[i] = weight[i] * (x[i] * scale);
  }
}

std::vector<double> rms_norm(std::vector<double> rows, std::span<const float> weight, double eps) {
  rms_norm_in_place(rows, weight, eps);
  return rows;
}

void add(std::vector<double> &x, const std::vector<double> &y) {
  for (size_t i = 0; i < x.size(); ++i) x[i] += y[i];
}

void softmax_in_place(std::span<double> scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double &score : scores) sum += score = std::exp(score - largest);
  for (double &score : scores) score /= sum;
}

double silu(double x) { return x / (1 + std::exp(-x)); }

// Rounds (kv_heads * head_dim) values as storing and loading them would.
void round_to(KvType type, std::span<double> values) {
  if (type == KvType::kF64) return;
  std::vector<float> stored(values.begin(), values.end());
  if (type == KvType::kF16) {
    for (float &value : stored) value = quant::half_to_float(quant::float_to_half(value));
  }
  if (type == KvType::kQ8_0) {
    const quant::FormatTraits &q8 = quant::traits(quant::Format::kQ8_0);
    std::vector<std::byte> blocks(quant::row_bytes(q8, stored.size()));
    q8.encode(stored.data(), blocks.data(), stored.size());
    q8.decode(blocks.data(), stored.data(), stored.size());
  }
  std::copy(stored.begin(), stored.end(), values.begin());
}

}  // namespace

struct Evaluator::Layer {
  Layer(const model::LayerWeights &weights, bool decode_now)
      : norms(&weights),
        attn_q(*weights.attn_q, decode_now),
        attn_k(*weights.attn_k, decode_now),
        attn_v(*weights.attn_v, decode_now),
        attn_output(*weights.attn_output, decode_now),
        ffn_gate(*weights.ffn_gate, decode_now),
        ffn_up(*weights.ffn_up, decode_now),
        ffn_down(*weights.ffn_down, decode_now) {}

  const model::LayerWeights *norms;
  Matrix attn_q, attn_k, attn_v, attn_output;
  Matrix ffn_gate, ffn_up, ffn_down;
  std::vector<double> keys, values;  // (length, kv_heads, head_dim), rounded
};

Evaluator::Evaluator(const model::Model &model, KvType kv)
    : model_(model),
      kv_(kv),
      threads_(runnable_threads(available_cores())),
      frequencies_(pair_frequencies(model.config)),
      embedding_(*model.token_embd, false),
      head_(*model.head, is_small(model)) {
  const bool decode_now = is_small(model);
  layers_.reserve(model.layers.size());
  for (const model::LayerWeights &weights : model.layers) layers_.emplace_back(weights, decode_now);
}

Evaluator::Evaluator(Evaluator &&) noexcept = default;
Evaluator::~Evaluator() = default;

Result<std::vector<double>> Evaluator::step(int32_t token) { return run({&token, 1}); }

Result<std::vector<double>> Evaluator::run(std::span<const int32_t> tokens) {
  if (auto checked = check(tokens); !checked) return tl::unexpected(checked.error());
  return tbb::task_arena(threads_).execute([&] { return logits_of_last(tokens); });
}

Result<std::vector<std::vector<double>>> Evaluator::steps(std::span<const int32_t> tokens) {
  if (auto checked = check(tokens); !checked) return tl::unexpected(checked.error());
  return tbb::task_arena(threads_).execute([&] { return logits_of_each(tokens); });
}

std::vector<double> Evaluator::logits_of_last(std::span<const int32_t> tokens) {
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(tokens.size(), kMostTogether))) {
    advance(tokens.first(std::min(tokens.size(), kMostTogether)));
  }
  const std::span<const double> last = std::span(x_).last(model_.config.hidden);
  hidden_ = rms_norm({last.begin(), last.end()}, model_.output_norm, model_.config.rms_eps);
  return head_.multiply(hidden_);
}

std::vector<std::vector<double>> Evaluator::logits_of_each(std::span<const int32_t> tokens) {
  std::vector<std::vector<double>> rows;
  for (; !tokens.empty(); tokens = tokens.subspan(std::min(tokens.size(), kMostTogether))) {
    const size_t n = std::min(tokens.size(), kMostTogether);
    advance(tokens.first(n));
    const std::vector<double> normed = rms_norm(x_, model_.output_norm, model_.config.rms_eps);
    hidden_.assign(normed.end() - model_.config.hidden, normed.end());
    const std::vector<double> logits = head_.multiply(normed, n);
    for (size_t i = 0; i < n; ++i) {
      const std::span<const double> row = std::span(logits).subspan(i * head_.rows(), head_.rows());
      rows.emplace_back(row.begin(), row.end());
    }
  }
  return rows;
}

void Evaluator::truncate(uint32_t length) {
  if (length >= length_) return;
  length_ = length;
  const size_t kept = size_t{length} * model_.config.kv_heads * model_.config.head_dim;
  for (Layer &layer : layers_) {
    layer.keys.resize(kept);
    layer.values.resize(kept);
  }
}

Result<void> Evaluator::check(std::span<const int32_t> tokens) const {
  const model::Config &config = model_.config;
  if (kv_ == KvType::kQ8_0 && config.head_dim % kQ8Group != 0) {
    return fail("KV type q8_0 needs a head dimension that is a multiple of {}, found {}", kQ8Group, config.head_dim);
  }
  if (tokens.empty()) return fail("empty batch: expected at least one token");
  for (int32_t token : tokens) {
    if (token < 0 || static_cast<uint32_t>(token) >= config.vocab) {
      return fail("token {} is outside the vocabulary, expected 0 to {}", token, config.vocab - 1);
    }
  }
  if (tokens.size() > config.context - length_) {
    return fail("context full: {} of {} positions are used, {} more do not fit", length_, config.context,
                tokens.size());
  }
  return {};
}

// Some tokens through all layers, written down as for one.
void Evaluator::advance(std::span<const int32_t> tokens) {
  const double eps = model_.config.rms_eps;
  const Positions at = {length_, tokens.size()};
  x_.clear();
  for (const int32_t token : tokens) {
    const std::vector<double> row = embedding_.row(static_cast<size_t>(token));
    x_.insert(x_.end(), row.begin(), row.end());
  }
  turn_to(at);
  for (Layer &layer : layers_) {
    add(x_, attention(layer, rms_norm(x_, layer.norms->attn_norm, eps), at));
    add(x_, feed_forward(layer, rms_norm(x_, layer.norms->ffn_norm, eps), at.n));
  }
  length_ += static_cast<uint32_t>(at.n);
}

// Wo softmax(q·K / sqrt(head_dim)) V of each position, over 0 up to itself. Appends the K and V of all first.
std::vector<double> Evaluator::attention(Layer &layer, std::span<const double> h, Positions at) const {
  const size_t width = model_.config.heads * model_.config.head_dim;
  std::vector<double> q = layer.attn_q.multiply(h, at.n);  // (n, heads, head_dim)
  std::vector<double> k = layer.attn_k.multiply(h, at.n);  // (n, kv_heads, head_dim)
  std::vector<double> v = layer.attn_v.multiply(h, at.n);  // (n, kv_heads, head_dim)
  norm_and_rotate(q, layer.norms->q_norm, at.n);
  norm_and_rotate(k, layer.norms->k_norm, at.n);
  round_to(kv_, k);
  round_to(kv_, v);
  layer.keys.insert(layer.keys.end(), k.begin(), k.end());
  layer.values.insert(layer.values.end(), v.begin(), v.end());

  std::vector<double> mixed(at.n * width);  // (n, heads, head_dim)
  tbb::parallel_for(size_t{0}, at.n, [&](size_t i) {
    const auto of_token = [&](std::vector<double> &all) { return std::span(all).subspan(i * width, width); };
    attend(layer, of_token(q), at.first + i, of_token(mixed));
  });
  return layer.attn_output.multiply(mixed, at.n);
}

// softmax(q·K / sqrt(head_dim)) V over positions 0 to `position`, of all heads.
void Evaluator::attend(const Layer &layer, std::span<const double> queries, size_t position,
                       std::span<double> mixed) const {
  const model::Config &config = model_.config;
  const size_t head_dim = config.head_dim;
  const size_t kv_width = config.kv_heads * head_dim;
  std::vector<double> scores(position + 1);
  for (size_t head = 0; head < config.heads; ++head) {
    const size_t kv_head = head / (config.heads / config.kv_heads);
    const double *query = &queries[head * head_dim];
    for (size_t p = 0; p < scores.size(); ++p) {
      const double *key = &layer.keys[p * kv_width + kv_head * head_dim];
      double dot = 0;
      for (size_t i = 0; i < head_dim; ++i) dot += query[i] * key[i];
      scores[p] = dot / std::sqrt(static_cast<double>(head_dim));
    }
    softmax_in_place(scores);
    double *out = &mixed[head * head_dim];
    for (size_t p = 0; p < scores.size(); ++p) {
      const double *value = &layer.values[p * kv_width + kv_head * head_dim];
      for (size_t i = 0; i < head_dim; ++i) out[i] += scores[p] * value[i];
    }
  }
}

// Wdown (silu(Wgate h) * (Wup h))
std::vector<double> Evaluator::feed_forward(const Layer &layer, std::span<const double> h, size_t n) const {
  std::vector<double> gate = layer.ffn_gate.multiply(h, n);
  const std::vector<double> up = layer.ffn_up.multiply(h, n);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = silu(gate[i]) * up[i];
  return layer.ffn_down.multiply(gate, n);
}

// cos and sin of every pair's angle at these positions.
void Evaluator::turn_to(Positions at) {
  const long double scale = model_.config.rope_scaling.attention_factor;
  cos_.clear();
  sin_.clear();
  for (size_t position = at.first; position < at.first + at.n; ++position) {
    for (const long double frequency : frequencies_) {
      cos_.push_back(static_cast<double>(std::cos(position * frequency) * scale));
      sin_.push_back(static_cast<double>(std::sin(position * frequency) * scale));
    }
  }
}

// Normalises each head of n tokens, and turns its pairs (i, i + head_dim / 2) by the angle of the token's position.
void Evaluator::norm_and_rotate(std::vector<double> &heads, std::span<const float> norm, size_t n) const {
  const size_t head_dim = model_.config.head_dim;
  const size_t half = head_dim / 2;
  const size_t heads_of_token = heads.size() / head_dim / n;
  rms_norm_in_place(heads, norm, model_.config.rms_eps);
  for (size_t begin = 0, index = 0; begin < heads.size(); begin += head_dim, ++index) {
    const std::span<double> head = std::span(heads).subspan(begin, head_dim);
    const size_t angles = index / heads_of_token * half;
    for (size_t i = 0; i < half; ++i) {
      const double low = head[i], high = head[i + half];
      head[i] = low * cos_[angles + i] - high * sin_[angles + i];
      head[i + half] = high * cos_[angles + i] + low * sin_[angles + i];
    }
  }
}

}  // namespace bonsai::reference
