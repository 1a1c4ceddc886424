#include "tools/plugin-check/layer_checks.h"

#include <algorithm>
#include <cmath>

#include "tools/plugin-check/stage.h"

namespace bonsai::check {
namespace {

constexpr uint32_t kTokens = 20;

std::vector<float> random_vector(size_t size, uint64_t seed) {
  Random random(seed);
  std::vector<float> values(size);
  for (float &value : values) value = static_cast<float>(random.normal());
  return values;
}

// A layer whose queries and keys are its biases alone, which makes its attention a formula of a few lines:
//   q = rope(q_bias, p), k = rope(k_bias, p), v = Wv h + v_bias;  out = x + Wo (softmax(scale q K^T) V) + o_bias
class BiasedLayer {
 public:
  BiasedLayer(Context &context, uint32_t rope_dim_divisor)
      : random_(shape(context)),
        uploaded_(context.device(), random_.model(), {.embedding = false}),
        rope_dim_(random_.config().head_dim / rope_dim_divisor) {
    const model::Config &config = random_.config();
    q_bias_ = random_vector(size_t{config.heads} * config.head_dim, 1);
    k_bias_ = random_vector(size_t{config.kv_heads} * config.head_dim, 2);
    v_bias_ = random_vector(size_t{config.kv_heads} * config.head_dim, 3);
    o_bias_ = random_vector(config.hidden, 4);
    for (uint32_t position = 0; position < kTokens; ++position) {
      for (uint32_t pair = 0; pair < rope_dim_ / 2; ++pair) {
        cos_.push_back(static_cast<float>(std::cos(angle(position, pair))));
        sin_.push_back(static_cast<float>(std::sin(angle(position, pair))));
      }
    }
    bonsai_layer_spec &layer = uploaded_.layers[0];
    layer.q_norm = layer.k_norm = nullptr;
    layer.q_bias = q_bias_.data();
    layer.k_bias = k_bias_.data();
    layer.v_bias = v_bias_.data();
    layer.o_bias = o_bias_.data();
    uploaded_.spec.rope_dim = rope_dim_;
    uploaded_.spec.rope_positions = kTokens;
    uploaded_.spec.rope_cos = cos_.data();
    uploaded_.spec.rope_sin = sin_.data();
  }

  UploadedModel &uploaded() { return uploaded_; }
  const model::Config &config() const { return random_.config(); }

  // x (kTokens, hidden) after the layer.
  Logits expected(const std::vector<float> &x) const {
    const model::LayerWeights &layer = random_.model().layers[0];
    const reference::Matrix value_matrix(*layer.attn_v, false), output_matrix(*layer.attn_output, false);
    const size_t head_dim = config().head_dim, group = config().heads / config().kv_heads;
    Logits values, rows;
    for (uint32_t p = 0; p < kTokens; ++p) {
      values.push_back(value_matrix.multiply(normed(&x[p * config().hidden])));
      for (size_t i = 0; i < v_bias_.size(); ++i) values[p][i] += v_bias_[i];
      std::vector<double> mixed;
      for (size_t head = 0; head < config().heads; ++head) {
        const std::vector<double> weights = attention(head, p);
        for (size_t i = 0; i < head_dim; ++i) {
          double sum = 0;
          for (uint32_t at = 0; at <= p; ++at) sum += weights[at] * values[at][head / group * head_dim + i];
          mixed.push_back(sum);
        }
      }
      rows.push_back(output_matrix.multiply(mixed));
      for (size_t i = 0; i < config().hidden; ++i) rows[p][i] += x[p * config().hidden + i] + o_bias_[i];
    }
    return rows;
  }

 private:
  static ModelShape shape(Context &context) {
    ModelShape shape = narrow_shape(context.plainest_format());
    shape.layers = 1;
    shape.edit = [](const std::string &part, std::span<float> weights) {
      if (part == "attn_q" || part == "attn_k" || part == "ffn_down") std::fill(weights.begin(), weights.end(), 0.0f);
    };
    return shape;
  }

  double angle(uint32_t position, uint32_t pair) const { return position * std::pow(10000.0, -2.0 * pair / rope_dim_); }

  std::vector<double> normed(const float *x) const {
    double squares = 0;
    const size_t hidden = config().hidden;
    for (size_t i = 0; i < hidden; ++i) squares += static_cast<double>(x[i]) * x[i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(hidden) + config().rms_eps);
    std::vector<double> h(hidden);
    for (size_t i = 0; i < hidden; ++i) h[i] = random_.model().layers[0].attn_norm[i] * x[i] * scale;
    return h;
  }

  std::vector<double> rotated(const float *head, uint32_t position) const {
    std::vector<double> result(head, head + config().head_dim);
    const uint32_t half = rope_dim_ / 2;
    for (uint32_t i = 0; i < half; ++i) {
      const double cos = std::cos(angle(position, i)), sin = std::sin(angle(position, i));
      result[i] = head[i] * cos - head[i + half] * sin;
      result[i + half] = head[i + half] * cos + head[i] * sin;
    }
    return result;
  }

  // softmax over positions 0 to `position`
  std::vector<double> attention(size_t head, uint32_t position) const {
    const size_t head_dim = config().head_dim, kv_head = head / (config().heads / config().kv_heads);
    const std::vector<double> query = rotated(&q_bias_[head * head_dim], position);
    std::vector<double> weights;
    double sum = 0;
    for (uint32_t at = 0; at <= position; ++at) {
      const std::vector<double> key = rotated(&k_bias_[kv_head * head_dim], at);
      double dot = 0;
      for (size_t i = 0; i < head_dim; ++i) dot += query[i] * key[i];
      weights.push_back(std::exp(dot / std::sqrt(static_cast<double>(head_dim))));
      sum += weights.back();
    }
    for (double &weight : weights) weight /= sum;
    return weights;
  }

  RandomModel random_;
  UploadedModel uploaded_;
  uint32_t rope_dim_;
  std::vector<float> q_bias_, k_bias_, v_bias_, o_bias_, cos_, sin_;
};

void check_biases(Context &context, uint32_t rope_dim_divisor) {
  context.need_sessions();
  BiasedLayer layer(context, rope_dim_divisor);
  const bonsai_session_config config = usual_config(context, context.plainest_kv());
  Session session(layer.uploaded(), config, Path::kLayers);
  const std::vector<float> x = random_vector(size_t{kTokens} * layer.config().hidden, 5);
  std::vector<float> out(x.size());
  Batch batch;
  batch.block_table.resize(1);
  for (uint32_t block = kTokens / config.block_size + 1; block-- > 0;) batch.block_table[0].push_back(block);
  for (uint32_t i = 0; i < kTokens; ++i) batch.add(0, i);
  const bonsai_batch view = batch.view();
  bonsai_error error = empty_error();
  expect_ok("layer_encode", context.api().layer_encode(session.handle, 0, &view, x.data(), out.data(), &error), error);
  const Logits expected = layer.expected(x);
  Comparison comparison(std::max(error_bound(context.plainest_format()),
                                 config.kv_dtype == BONSAI_KV_F32 ? kFloatBound : kQuantizedBound));
  for (uint32_t i = 0; i < kTokens; ++i) {
    comparison.add(fmt::format("position {}", i), std::span(out).subspan(i * layer.config().hidden, expected[i].size()),
                   expected[i]);
  }
  comparison.finish("a layer with biases and no head norms");
}

}  // namespace

void add_layer_checks(std::vector<Check> &checks) {
  checks.push_back({"layer.biases", "Q, K, V and O biases are added, and head norms may be missing",
                    [](Context &context) { check_biases(context, 1); }});
  checks.push_back({"layer.partial-rope", "only the leading rope_dim elements of a head are rotated",
                    [](Context &context) { check_biases(context, 2); }});
}

}  // namespace bonsai::check
