// What prepare_heads makes of Q, K and V is what float64 computes, and what it stores is rounded as the ABI says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "plugins/cuda/kernels/attention_arguments.h"
#include "tests/plugins/cuda/emulator/emulator.h"
#include "tests/plugins/cuda/kv/pool.h"

namespace bonsai::cuda {
namespace {

using emulation::Order;

struct HeadsShape {
  uint32_t dtype, head_dim, rope_dim;
  bool has_bias, has_norms;
  uint32_t heads = 4, kv_heads = 2, block_size = 16;

  uint32_t all_heads() const { return heads + 2 * kv_heads; }
  uint32_t width() const { return all_heads() * head_dim; }
};

constexpr uint32_t kLayers = 3, kLayer = 2, kPositions = 70, kColumns = 5;
constexpr float kEps = 1e-5f;

// Tokens of two sequences, whose blocks lie anywhere.
const std::vector<uint32_t> kTokenPositions = {0, 15, 16, 69, 33};
const std::vector<uint32_t> kTokenSequences = {1, 0, 1, 0, 0};
const std::vector<uint32_t> kBlockTable = {7, 2, 9, 4, 0, 1, 8, 3, 5, 6};

std::vector<float> random_numbers(size_t n, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> numbers(n);
  for (float &number : numbers) number = normal(random);
  return numbers;
}

class Heads {
 public:
  explicit Heads(const HeadsShape &shape)
      : shape_(shape),
        pool_({.data = nullptr,
               .dtype = shape.dtype,
               .head_dim = shape.head_dim,
               .kv_heads = shape.kv_heads,
               .block_size = shape.block_size,
               .n_blocks = 10},
              kLayers),
        qkv(random_numbers(kTokenPositions.size() * shape.width(), 1)),
        bias_(random_numbers(shape.width(), 2)),
        q_norm_(random_numbers(shape.head_dim, 3)),
        k_norm_(random_numbers(shape.head_dim, 4)),
        cosines_(random_numbers(kPositions * shape.rope_dim / 2, 5)),
        sines_(random_numbers(kPositions * shape.rope_dim / 2, 6)) {}

  // qkv's rows become queries.
  void prepare(const Order &order = {}) {
    const PrepareHeadsArguments arguments = {.qkv = qkv.data(),
                                             .bias = shape_.has_bias ? bias_.data() : nullptr,
                                             .q_norm = shape_.has_norms ? q_norm_.data() : nullptr,
                                             .k_norm = shape_.has_norms ? k_norm_.data() : nullptr,
                                             .rope_cos = cosines_.data(),
                                             .rope_sin = sines_.data(),
                                             .positions = kTokenPositions.data(),
                                             .sequences = kTokenSequences.data(),
                                             .block_table = kBlockTable.data(),
                                             .pool = pool_.shape(),
                                             .blocks_per_sequence = kColumns,
                                             .layer = kLayer,
                                             .heads = shape_.heads,
                                             .rope_dim = shape_.rope_dim,
                                             .rms_eps = kEps};
    constexpr uint32_t kWarps = kPrepareThreads / 32;
    const auto tokens = static_cast<uint32_t>(kTokenPositions.size());
    emulation::launch({"rope.cu", "prepare_heads", order}, {tokens, (shape_.all_heads() + kWarps - 1) / kWarps},
                      kPrepareThreads, 0, &arguments);
  }

  std::span<float> head(uint32_t token, uint32_t index) {
    return std::span(qkv).subspan((token * shape_.all_heads() + index) * shape_.head_dim, shape_.head_dim);
  }

  // What becomes of a head of `before`, in float64.
  std::vector<double> expect(const std::vector<float> &before, uint32_t token, uint32_t index) const {
    const uint32_t head_dim = shape_.head_dim;
    std::vector<double> x(head_dim);
    for (uint32_t d = 0; d < head_dim; ++d) {
      x[d] = before[(token * shape_.all_heads() + index) * head_dim + d];
      if (shape_.has_bias) x[d] += bias_[index * head_dim + d];
    }
    if (index >= shape_.heads + shape_.kv_heads) return x;
    if (shape_.has_norms) {
      double sum = 0;
      for (double value : x) sum += value * value;
      const double scale = 1 / std::sqrt(sum / head_dim + kEps);
      const std::vector<float> &norm = index < shape_.heads ? q_norm_ : k_norm_;
      for (uint32_t d = 0; d < head_dim; ++d) x[d] *= scale * norm[d];
    }
    const uint32_t half = shape_.rope_dim / 2;
    for (uint32_t i = 0; i < half; ++i) {
      const double cosine = cosines_[kTokenPositions[token] * half + i];
      const double sine = sines_[kTokenPositions[token] * half + i];
      const double first = x[i], second = x[i + half];
      x[i] = first * cosine - second * sine;
      x[i + half] = second * cosine + first * sine;
    }
    return x;
  }

  std::vector<uint8_t> stored(uint32_t token, uint32_t kv_head, bool is_value) const {
    const uint32_t position = kTokenPositions[token];
    const uint32_t block = kBlockTable[kTokenSequences[token] * kColumns + position / shape_.block_size];
    return pool_.read({kLayer, block, kv_head, is_value}, position % shape_.block_size);
  }

  const Pool &pool() const { return pool_; }
  const std::vector<float> &bias() const { return bias_; }

 private:
  HeadsShape shape_;
  Pool pool_;

 public:
  std::vector<float> qkv;

 private:
  std::vector<float> bias_, q_norm_, k_norm_, cosines_, sines_;
};

std::string name_of(const HeadsShape &shape) {
  return fmt::format("{}_{}_rope{}{}{}", dtype_name(shape.dtype), shape.head_dim, shape.rope_dim,
                     shape.has_bias ? "_bias" : "", shape.has_norms ? "_norms" : "");
}

class EveryHead : public testing::TestWithParam<HeadsShape> {};

INSTANTIATE_TEST_SUITE_P(
    Kv, EveryHead,
    testing::Values(HeadsShape{kKvF16, 128, 128, false, true}, HeadsShape{kKvQ8_0, 128, 128, true, true},
                    HeadsShape{kKvF32, 128, 128, true, false}, HeadsShape{kKvF16, 64, 64, false, false},
                    HeadsShape{kKvQ8_0, 64, 20, true, true}, HeadsShape{kKvF32, 64, 0, true, true},
                    HeadsShape{kKvF16, 10, 10, true, true}, HeadsShape{kKvF32, 10, 6, false, true},
                    HeadsShape{kKvF16, 80, 32, true, true}, HeadsShape{kKvQ8_0, 160, 160, true, true},
                    HeadsShape{kKvF16, 256, 256, true, true}, HeadsShape{kKvQ8_0, 32, 32, true, true},
                    HeadsShape{kKvF32, 256, 64, true, true, 5, 1, 128}, HeadsShape{kKvQ8_0, 96, 96, true, true, 1, 1}),
    [](const auto &parameter) { return name_of(parameter.param); });

TEST_P(EveryHead, AgreesWithFloat64) {
  const HeadsShape &shape = GetParam();
  Heads heads(shape);
  const std::vector<float> before = heads.qkv;
  heads.prepare();
  for (uint32_t token = 0; token < kTokenPositions.size(); ++token) {
    for (uint32_t index = 0; index < shape.heads; ++index) {
      const std::vector<double> expected = heads.expect(before, token, index);
      for (uint32_t d = 0; d < shape.head_dim; ++d) {
        EXPECT_NEAR(heads.head(token, index)[d], expected[d], 2e-6) << token << ", " << index << ", " << d;
      }
    }
  }
}

// Half a step of the KV dtype, at a number near x in a group whose largest is `largest`; and what float32 adds.
double rounding(uint32_t dtype, double x, double largest) {
  const double halves = std::max(std::fabs(x), 0x1p-14) * 0x1p-11;
  return 2e-6 + (dtype == kKvF16 ? halves : dtype == kKvQ8_0 ? largest / 127 * 0.5 + std::fabs(x) * 0x1p-10 : 0);
}

TEST_P(EveryHead, StoresKeysAndValuesRounded) {
  const HeadsShape &shape = GetParam();
  Heads heads(shape);
  const std::vector<float> before = heads.qkv;
  heads.prepare();
  for (uint32_t token = 0; token < kTokenPositions.size(); ++token) {
    for (uint32_t i = 0; i < 2 * shape.kv_heads; ++i) {
      const bool is_value = i >= shape.kv_heads;
      const std::vector<double> expected = heads.expect(before, token, shape.heads + i);
      const std::vector<float> stored = decode_head(shape.dtype, heads.stored(token, i % shape.kv_heads, is_value));
      double largest = 0;
      for (double x : expected) largest = std::max(largest, std::fabs(x));
      for (uint32_t d = 0; d < shape.head_dim; ++d) {
        EXPECT_NEAR(stored[d], expected[d], rounding(shape.dtype, expected[d], largest)) << token << ", " << i;
      }
    }
  }
}

// Values are stored as they come, but for the bias: their bytes are known.
TEST_P(EveryHead, RoundsValuesAsTheFormatDoes) {
  const HeadsShape &shape = GetParam();
  Heads heads(shape);
  const uint32_t first = shape.heads + shape.kv_heads;
  std::vector<std::vector<uint8_t>> expected;
  for (uint32_t token = 0; token < kTokenPositions.size(); ++token) {
    std::vector<float> value(heads.head(token, first).begin(), heads.head(token, first).end());
    for (uint32_t d = 0; d < shape.head_dim && shape.has_bias; ++d) {
      value[d] = value[d] + heads.bias()[first * shape.head_dim + d];
    }
    expected.push_back(encode_head(shape.dtype, value));
  }
  heads.prepare();
  for (uint32_t token = 0; token < kTokenPositions.size(); ++token) {
    EXPECT_EQ(heads.stored(token, 0, true), expected[token]);
  }
}

TEST_P(EveryHead, WritesTheSameInEveryOrderAndNothingElse) {
  const HeadsShape &shape = GetParam();
  Heads expected(shape);
  expected.prepare();
  for (const Order &order : emulation::kOrders) {
    Heads heads(shape);
    const std::vector<float> before = heads.qkv;
    heads.prepare(order);
    EXPECT_EQ(heads.qkv, expected.qkv);
    for (uint32_t token = 0; token < kTokenPositions.size(); ++token) {
      for (uint32_t index = shape.heads; index < shape.all_heads(); ++index) {
        const std::span<const float> unchanged = heads.head(token, index);
        EXPECT_TRUE(std::equal(unchanged.begin(), unchanged.end(), &before[unchanged.data() - heads.qkv.data()]));
      }
    }
    for (uint32_t layer = 0; layer < kLayers; ++layer) {
      for (uint32_t block = 0; block < 10; ++block) {
        const std::span<const uint8_t> bytes = heads.pool().block(layer, block);
        const std::span<const uint8_t> same = expected.pool().block(layer, block);
        EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), same.begin()));
        if (layer == kLayer) continue;
        EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0xFF; }));
      }
    }
  }
}

// Of numbers that rounding treats specially, as values of the first token.
std::vector<uint8_t> stored_values(uint32_t dtype, const std::vector<float> &numbers) {
  Heads heads({.dtype = dtype, .head_dim = 32, .rope_dim = 0, .has_bias = false, .has_norms = false});
  const std::span<float> value = heads.head(0, 6);
  std::fill(value.begin(), value.end(), 0.0f);
  std::copy(numbers.begin(), numbers.end(), value.begin());
  heads.prepare();
  return heads.stored(0, 0, true);
}
std::vector<uint8_t> encoded_values(uint32_t dtype, std::vector<float> numbers) {
  numbers.resize(32);
  return encode_head(dtype, numbers);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

TEST(Rounding, OfSpecialNumbersIsTheFormats) {
  const std::vector<std::vector<float>> cases = {
      {},                                                          // zeros
      {127, 0.5f, -0.5f, 1.5f, -1.5f, 2.5f, -2.5f, 126.5f, -127},  // halfway between codes, away from zero
      {1e-30f, -1e-32f, 1e-40f},                                   // scales that vanish
      {6e-8f, 3e-8f, -2.9e-8f, 1e-7f, 0x1p-14f, 0x1.004p-14f},     // halves' smallest
      {65504, 65519.996f, 65520, -65536, 1e6f},                    // halves' largest
      {kInfinity, 1, -2},
      {0x1.002p0f, 0x1.006p0f, 0x1.0021p0f, -0.0f},  // halfway between halves, to even
  };
  for (uint32_t dtype : {kKvF16, kKvQ8_0, kKvF32}) {
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(stored_values(dtype, cases[i]), encoded_values(dtype, cases[i])) << dtype_name(dtype) << ", case " << i;
    }
  }
}

TEST(Rounding, OfNanIsNanInQ8AllOfItsGroup) {
  const std::vector<float> numbers = {1, kNan, -127};
  EXPECT_EQ(stored_values(kKvQ8_0, numbers), encoded_values(kKvQ8_0, numbers));
  for (const float x : decode_head(kKvQ8_0, stored_values(kKvQ8_0, numbers))) EXPECT_TRUE(std::isnan(x));
  EXPECT_TRUE(std::isnan(decode_head(kKvF16, stored_values(kKvF16, numbers))[1]));
  EXPECT_TRUE(std::isnan(decode_head(kKvF32, stored_values(kKvF32, numbers))[1]));
}

}  // namespace
}  // namespace bonsai::cuda
