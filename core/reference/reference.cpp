#include "core/reference/reference.h"

#include <algorithm>
#include <cmath>

#include "core/reference/rotation.h"

namespace bonsai::reference {
namespace {

constexpr size_t kQ8Group = 32;
constexpr uint64_t kMostDecodedBytes = 64 << 20;

// Float32 copies of all weights of a seedling fit in memory and are worth it; those of an 8B model do not.
bool is_small(const model::Model &model) {
  uint64_t weights = model.head->rows() * model.head->columns();
  for (const model::LayerWeights &layer : model.layers) {
    for (const gguf::Tensor *tensor :
         {layer.attn_q, layer.attn_k, layer.attn_v, layer.attn_output, layer.ffn_gate, layer.ffn_up, layer.ffn_down}) {
      weights += tensor->rows() * tensor->columns();
    }
  }
  return weights * sizeof(float) <= kMostDecodedBytes;
}

// weight * x / sqrt(mean(x²) + eps)
std::vector<double> rms_norm(std::span<const double> x, std::span<const float> weight, double eps) {
  double squares = 0;
  for (double value : x) squares += value * value;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = weight[i] * (x[i] * scale);
  return y;
}

void rms_norm_in_place(std::span<double> x, std::span<const float> weight, double eps) {
  const std::vector<double> y = rms_norm(x, weight, eps);
  std::copy(y.begin(), y.end(), x.begin());
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
  for (int32_t token : tokens) advance(token);
  hidden_ = rms_norm(x_, model_.output_norm, model_.config.rms_eps);
  return head_.multiply(hidden_);
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

// One token through all layers, as DESIGN §6 writes it down.
void Evaluator::advance(int32_t token) {
  const double eps = model_.config.rms_eps;
  x_ = embedding_.row(static_cast<size_t>(token));
  turn_to(length_);
  for (Layer &layer : layers_) {
    add(x_, attention(layer, rms_norm(x_, layer.norms->attn_norm, eps)));
    add(x_, feed_forward(layer, rms_norm(x_, layer.norms->ffn_norm, eps)));
  }
  ++length_;
}

// Wo softmax(q·K / sqrt(head_dim)) V over positions 0 to length_, whose K and V it appends first.
std::vector<double> Evaluator::attention(Layer &layer, std::span<const double> h) const {
  const model::Config &config = model_.config;
  const size_t head_dim = config.head_dim;
  const size_t kv_width = config.kv_heads * head_dim;
  std::vector<double> q = layer.attn_q.multiply(h);  // (heads, head_dim)
  std::vector<double> k = layer.attn_k.multiply(h);  // (kv_heads, head_dim)
  std::vector<double> v = layer.attn_v.multiply(h);  // (kv_heads, head_dim)
  norm_and_rotate(q, layer.norms->q_norm);
  norm_and_rotate(k, layer.norms->k_norm);
  round_to(kv_, k);
  round_to(kv_, v);
  layer.keys.insert(layer.keys.end(), k.begin(), k.end());
  layer.values.insert(layer.values.end(), v.begin(), v.end());

  std::vector<double> mixed(config.heads * head_dim);  // (heads, head_dim)
  std::vector<double> scores(length_ + 1);
  for (size_t head = 0; head < config.heads; ++head) {
    const size_t kv_head = head / (config.heads / config.kv_heads);
    const double *query = &q[head * head_dim];
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
  return layer.attn_output.multiply(mixed);
}

// Wdown (silu(Wgate h) * (Wup h))
std::vector<double> Evaluator::feed_forward(const Layer &layer, std::span<const double> h) const {
  std::vector<double> gate = layer.ffn_gate.multiply(h);
  const std::vector<double> up = layer.ffn_up.multiply(h);
  for (size_t i = 0; i < gate.size(); ++i) gate[i] = silu(gate[i]) * up[i];
  return layer.ffn_down.multiply(gate);
}

// cos and sin of every pair's angle at a position.
void Evaluator::turn_to(uint32_t position) {
  const long double scale = model_.config.rope_scaling.attention_factor;
  cos_.clear();
  sin_.clear();
  for (const long double frequency : frequencies_) {
    cos_.push_back(static_cast<double>(std::cos(position * frequency) * scale));
    sin_.push_back(static_cast<double>(std::sin(position * frequency) * scale));
  }
}

// Normalises each head and turns its pairs (i, i + head_dim / 2) by the angle of the next position.
void Evaluator::norm_and_rotate(std::vector<double> &heads, std::span<const float> norm) const {
  const size_t head_dim = model_.config.head_dim;
  const size_t half = head_dim / 2;
  for (size_t begin = 0; begin < heads.size(); begin += head_dim) {
    std::span<double> head = std::span(heads).subspan(begin, head_dim);
    rms_norm_in_place(head, norm, model_.config.rms_eps);
    for (size_t i = 0; i < half; ++i) {
      const double low = head[i], high = head[i + half];
      head[i] = low * cos_[i] - high * sin_[i];
      head[i + half] = high * cos_[i] + low * sin_[i];
    }
  }
}

}  // namespace bonsai::reference
