// Promises of read_config: what cannot be computed as the file means it is refused, in one line that names the key.
#include <gtest/gtest.h>

#include <cfenv>
#include <optional>

#include "core/model/weights.h"
#include "tests/model/tiny_model.h"

namespace bonsai::model {
namespace {

using gguf::Writer;
using test::TinyModel;
using test::TinyModelFile;

// The message of load_model less the path, or "loaded".
std::string outcome(const TinyModel &options) {
  TinyModelFile file(options);
  auto model = load_model(file.path());
  if (model) return "loaded";
  const std::string prefix = file.path() + ": ";
  EXPECT_TRUE(model.error().message.starts_with(prefix)) << model.error().message;
  return model.error().message.substr(prefix.size());
}

std::string outcome_with(std::function<void(Writer &)> metadata) {
  TinyModel options;
  options.metadata = std::move(metadata);
  return outcome(options);
}

std::string outcome_with_uint(const std::string &key, uint32_t value) {
  return outcome_with([&](Writer &writer) { writer.set_uint32(key, value); });
}

std::string outcome_with_float(const std::string &key, float value) {
  return outcome_with([&](Writer &writer) { writer.set_float32(key, value); });
}

std::string outcome_with_string(const std::string &key, const std::string &value) {
  return outcome_with([&](Writer &writer) { writer.set_string(key, value); });
}

std::string outcome_without(const std::string &name) {
  TinyModel options;
  options.without = {name};
  return outcome(options);
}

TEST(Config, ReadsEveryField) {
  TinyModel options;
  options.layers = 3;
  options.kv_heads = 1;
  options.yarn_factor = 4;
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  const Config &config = model->config;
  EXPECT_EQ(config.name, "tiny");
  EXPECT_EQ(config.layers, 3u);
  EXPECT_EQ(config.hidden, 128u);
  EXPECT_EQ(config.ffn, 256u);
  EXPECT_EQ(config.heads, 4u);
  EXPECT_EQ(config.kv_heads, 1u);
  EXPECT_EQ(config.head_dim, 32u);
  EXPECT_EQ(config.vocab, test::kTinyTokens);
  EXPECT_EQ(config.context, 256u);
  EXPECT_EQ(config.rms_eps, 1e-6f);
  EXPECT_EQ(config.rope_base, 10000);
  EXPECT_EQ(config.rope_scaling.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(config.rope_scaling.factor, 4);
  EXPECT_EQ(config.rope_scaling.original_context, 64u);
  EXPECT_NEAR(config.rope_scaling.attention_factor, 1.1386294361119891, 1e-15);
  EXPECT_EQ(config.rope_scaling.beta_fast, 32);
  EXPECT_EQ(config.rope_scaling.beta_slow, 1);
  EXPECT_TRUE(model->warnings.empty()) << model->warnings[0];
}

TEST(Config, OptionalKeysDefaultAsInLlamaCpp) {
  TinyModel options;
  options.kv_heads = options.heads;
  options.without = {"qwen3.attention.head_count_kv", "qwen3.attention.key_length", "qwen3.attention.value_length",
                     "qwen3.rope.freq_base"};
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.kv_heads, 4u);
  EXPECT_EQ(model->config.head_dim, 32u);
  EXPECT_EQ(model->config.rope_base, 10000);
}

TEST(Config, RefusesOtherArchitectures) {
  EXPECT_EQ(outcome_with_string("general.architecture", "llama"),
            "general.architecture: expected \"qwen3\", found \"llama\"");
  EXPECT_EQ(outcome_with_uint("general.architecture", 3), "general.architecture: expected \"qwen3\", found 3");
  EXPECT_EQ(outcome_without("general.architecture"), "general.architecture: missing, expected \"qwen3\"");
}

TEST(Config, RefusesWhatIsNoModel) {
  EXPECT_EQ(outcome_with_string("general.type", "model"), "loaded");
  EXPECT_EQ(outcome_with_string("general.type", "adapter"), "general.type: expected \"model\", found \"adapter\"");
  TinyModel options;
  options.without = {"general.architecture"};
  options.metadata = [](Writer &writer) { writer.set_string("general.type", "imatrix"); };
  EXPECT_EQ(outcome(options), "general.type: expected \"model\", found \"imatrix\"");
}

TEST(Config, RefusesRotatedWeights) {
  EXPECT_EQ(outcome_with_uint("prism.hadamard.size", 128),
            "prism.hadamard.size: the weights are stored in a rotated (Hadamard) basis, which this runtime does not "
            "undo");
}

TEST(Config, NamesAMissingKey) {
  EXPECT_EQ(outcome_without("qwen3.block_count"), "qwen3.block_count: missing, expected a whole number from 1 to 1024");
  EXPECT_EQ(outcome_without("qwen3.attention.layer_norm_rms_epsilon"),
            "qwen3.attention.layer_norm_rms_epsilon: missing, expected a positive number");
  for (const char *key : {"context_length", "embedding_length", "feed_forward_length", "attention.head_count"}) {
    const std::string message = outcome_without(std::string("qwen3.") + key);
    EXPECT_TRUE(message.starts_with(std::string("qwen3.") + key + ": missing, expected ")) << message;
  }
}

TEST(Config, NamesAnAbsurdValue) {
  EXPECT_EQ(outcome_with_uint("qwen3.block_count", 0),
            "qwen3.block_count: expected a whole number from 1 to 1024, found 0");
  EXPECT_EQ(outcome_with_uint("qwen3.block_count", 0xFFFFFFFF),
            "qwen3.block_count: expected a whole number from 1 to 1024, found 4294967295");
  EXPECT_EQ(outcome_with_string("qwen3.embedding_length", "wide"),
            "qwen3.embedding_length: expected a whole number from 1 to 131072, found \"wide\"");
  EXPECT_EQ(outcome_with([](Writer &writer) { writer.set_int32("qwen3.feed_forward_length", -256); }),
            "qwen3.feed_forward_length: expected a whole number from 1 to 1048576, found -256");
  EXPECT_EQ(outcome_with_float("qwen3.attention.layer_norm_rms_epsilon", -1),
            "qwen3.attention.layer_norm_rms_epsilon: expected a positive number, found -1");
  EXPECT_EQ(outcome_with_float("qwen3.attention.layer_norm_rms_epsilon", 64),
            "qwen3.attention.layer_norm_rms_epsilon: expected a float32 above 0 and at most 1, found 64");
  EXPECT_EQ(outcome_with_float("qwen3.rope.freq_base", std::numeric_limits<float>::infinity()),
            "qwen3.rope.freq_base: expected a positive number, found inf");
  EXPECT_EQ(outcome_with_float("qwen3.rope.freq_base", 0.5), "qwen3.rope.freq_base: expected at least 1, found 0.5");
}

std::string outcome_with_int32s(const std::string &key, const std::vector<int32_t> &values) {
  return outcome_with([&](Writer &writer) { writer.set_int32s(key, values); });
}

TEST(Config, NumbersMayBeGivenForEachLayer) {
  EXPECT_EQ(outcome_with_int32s("qwen3.feed_forward_length", {256, 256}), "loaded");
  EXPECT_EQ(outcome_with_int32s("qwen3.attention.head_count", {4, 4}), "loaded");
  EXPECT_EQ(outcome_with_int32s("qwen3.attention.head_count_kv", {2, 2}), "loaded");
  EXPECT_EQ(outcome_with_int32s("qwen3.attention.head_count_kv", {8, 8}),
            "qwen3.attention.head_count_kv: expected whole numbers from 1 to 4, found 8");
  EXPECT_EQ(outcome_with_int32s("qwen3.feed_forward_length", {-1, -1}),
            "qwen3.feed_forward_length: expected whole numbers from 1 to 1048576, found -1");
  const std::string expected =
      "qwen3.attention.head_count: expected a whole number, or the same for each of 2 layers, ";
  EXPECT_EQ(outcome_with_int32s("qwen3.attention.head_count", {4, 2}), expected + "found an array of 2 elements");
  EXPECT_EQ(outcome_with_int32s("qwen3.attention.head_count", {4, 4, 4}), expected + "found an array of 3 elements");
  EXPECT_EQ(outcome_with_int32s("qwen3.attention.head_count", {}), expected + "found an array of 0 elements");
  EXPECT_EQ(outcome_with([](Writer &writer) {
              writer.set_strings("qwen3.attention.head_count", std::vector<std::string>{"4", "4"});
            }),
            expected + "found an array of 2 elements");
}

TEST(Config, HeadsMustShareEvenly) {
  EXPECT_EQ(outcome_with_uint("qwen3.attention.head_count_kv", 3),
            "qwen3.attention.head_count_kv: expected a divisor of the 4 heads, found 3");
  EXPECT_EQ(outcome_with_uint("qwen3.attention.head_count_kv", 8),
            "qwen3.attention.head_count_kv: expected a whole number from 1 to 4, found 8");
}

TEST(Config, HeadDimensionIsEvenAndOneForKeysAndValues) {
  EXPECT_EQ(outcome_with_uint("qwen3.attention.value_length", 64),
            "qwen3.attention.value_length: expected 32 as attention.key_length, found 64");
  EXPECT_EQ(outcome_with([](Writer &writer) {
              writer.set_uint32("qwen3.attention.key_length", 33);
              writer.set_uint32("qwen3.attention.value_length", 33);
            }),
            "qwen3.attention.key_length: expected an even number from 2 to 1024, found 33");
  EXPECT_EQ(outcome_with_uint("qwen3.rope.dimension_count", 16),
            "qwen3.rope.dimension_count: expected 32 as attention.key_length, found 16");
  EXPECT_EQ(outcome_with_uint("qwen3.rope.dimension_count", 32), "loaded");
}

TEST(Config, RefusesOtherAttention) {
  EXPECT_EQ(outcome_with([](Writer &writer) { writer.set_bool("qwen3.attention.causal", false); }),
            "qwen3.attention.causal: expected true (no other attention is computed), found false");
  EXPECT_EQ(outcome_with_uint("qwen3.attention.sliding_window", 4096),
            "qwen3.attention.sliding_window: expected 0 (attention sees the whole context), found 4096");
}

TEST(Config, RefusesScalingsThatItDoesNotCompute) {
  EXPECT_EQ(outcome_with_string("qwen3.rope.scaling.type", "longrope"),
            "qwen3.rope.scaling.type: expected \"none\", \"linear\" or \"yarn\", found \"longrope\"");
  EXPECT_EQ(outcome_with_string("qwen3.rope.scaling.type", "\x1B[31m\n"),
            "qwen3.rope.scaling.type: expected \"none\", \"linear\" or \"yarn\", found \"\\x1b[31m\\x0a\"");
  EXPECT_EQ(outcome_with_float("qwen3.rope.scaling.\x1B[31m", 1),
            "qwen3.rope.scaling.\\x1b[31m: not a scaling that this runtime computes");
  EXPECT_EQ(outcome_with_float("qwen3.rope.scaling.low_freq_factor", 1),
            "qwen3.rope.scaling.low_freq_factor: not a scaling that this runtime computes");
  EXPECT_EQ(outcome_with_float("qwen3.rope.scale_linear", 2),
            "qwen3.rope.scale_linear: expected 1 (rope.scaling.factor is the key for it), found 2");
  EXPECT_EQ(outcome_with_string("qwen3.rope.scaling.type", "none"), "loaded");
}

// One YaRN key at a time over an otherwise valid file.
std::string yarn_outcome(const std::string &key, float value) {
  TinyModel options;
  options.yarn_factor = 4;
  options.metadata = [&](Writer &writer) { writer.set_float32("qwen3.rope.scaling." + key, value); };
  return outcome(options);
}

TEST(Config, YarnVariantsPassOnlyAtTheValueThatChangesNothing) {
  EXPECT_EQ(yarn_outcome("yarn_ext_factor", 1), "loaded");
  EXPECT_EQ(yarn_outcome("yarn_ext_factor", 0.5), "qwen3.rope.scaling.yarn_ext_factor: expected 1, found 0.5");
  EXPECT_EQ(yarn_outcome("yarn_log_multiplier", 0), "loaded");
  EXPECT_EQ(yarn_outcome("yarn_log_multiplier", 0.5), "qwen3.rope.scaling.yarn_log_multiplier: expected 0, found 0.5");
  EXPECT_EQ(outcome_with_float("qwen3.rope.scaling.yarn_ext_factor", 1),
            "qwen3.rope.scaling.yarn_ext_factor: expected 0, found 1");
}

// As DeepSeek-R1-0528-Qwen3-8B's files have it.
TEST(Config, AFactorThatOthersIgnoreIsIgnored) {
  TinyModel options;
  options.yarn_factor = 4;
  options.metadata = [](Writer &writer) { writer.set_float32("qwen3.rope.scaling.yarn_attn_factor", 0.878f); };
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_NEAR(model->config.rope_scaling.attention_factor, 1.1386294361119891, 1e-15);
  EXPECT_EQ(model->warnings,
            std::vector{file.path() + ": qwen3.rope.scaling.yarn_attn_factor: ignored (attn_factor is the key that "
                                      "counts)"});
  options.metadata = [](Writer &writer) { writer.set_float32("qwen3.rope.scaling.yarn_attn_factor", 1); };
  TinyModelFile one(options);
  EXPECT_TRUE(load_model(one.path())->warnings.empty());
}

TEST(Config, RefusesAbsurdYarn) {
  EXPECT_EQ(yarn_outcome("factor", 0.5), "qwen3.rope.scaling.factor: expected at least 1, found 0.5");
  EXPECT_EQ(yarn_outcome("yarn_beta_fast", 0),
            "qwen3.rope.scaling.yarn_beta_fast: expected a positive number, found 0");
  EXPECT_EQ(yarn_outcome("yarn_beta_slow", 64),
            "qwen3.rope.scaling.yarn_beta_fast: expected at least yarn_beta_slow (64), found 32");
  EXPECT_EQ(outcome_with_string("qwen3.rope.scaling.type", "yarn"),
            "qwen3.rope.scaling.factor: missing, expected a positive number");
}

TEST(Config, HonoursYarnBetasAndAttentionFactor) {
  TinyModel options;
  options.yarn_factor = 4;
  options.without = {"qwen3.rope.scaling.original_context_length"};
  options.metadata = [](Writer &writer) {
    writer.set_float32("qwen3.rope.scaling.yarn_beta_fast", 16);
    writer.set_float32("qwen3.rope.scaling.yarn_beta_slow", 2);
    writer.set_float32("qwen3.rope.scaling.attn_factor", 0.5);
  };
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.rope_scaling.beta_fast, 16);
  EXPECT_EQ(model->config.rope_scaling.beta_slow, 2);
  EXPECT_EQ(model->config.rope_scaling.original_context, 256u);
  EXPECT_NEAR(model->config.rope_scaling.attention_factor, 0.5 * 1.1386294361119891, 1e-15);
}

TEST(Config, NumbersDoNotDependOnTheCallersRounding) {
  constexpr const char *kEpsilon = "qwen3.attention.layer_norm_rms_epsilon";
  TinyModel options;
  options.yarn_factor = 3;
  options.without = {kEpsilon};
  options.metadata = [](Writer &writer) {
    writer.set_value(kEpsilon, {gguf::ValueType::kFloat64, 1e-6 / 3});  // which is no float32
  };
  TinyModelFile file(options);
  const auto expected = load_model(file.path());
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(expected->config.rope_scaling.attention_factor, 0x1.1c1fdd9114d1bp+0);
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(rounding);
    const auto model = load_model(file.path());
    std::fesetround(FE_TONEAREST);
    ASSERT_TRUE(model) << model.error().message;
    EXPECT_EQ(model->config.rms_eps, expected->config.rms_eps);
    EXPECT_EQ(model->config.rope_scaling.attention_factor, expected->config.rope_scaling.attention_factor);
  }
}

TEST(Config, AFactorWithoutATypeIsLinear) {
  TinyModel options;
  options.metadata = [](Writer &writer) { writer.set_float32("qwen3.rope.scaling.factor", 2); };
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.rope_scaling.kind, RopeScaling::Kind::kLinear);
  EXPECT_EQ(model->config.rope_scaling.factor, 2);
}

TEST(Config, TheEmbeddingDecidesTheVocabulary) {
  TinyModel options;
  options.vocab = 288;
  options.metadata = [](Writer &writer) {
    writer.set_uint32("qwen3.vocab_size", 280);
    writer.set_strings("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  };
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->config.vocab, 288u);
  ASSERT_EQ(model->warnings.size(), 2u);
  EXPECT_EQ(model->warnings[0], file.path() +
                                    ": qwen3.vocab_size says 280 tokens, token_embd.weight has 288 rows; the "
                                    "tensor is right");
  EXPECT_EQ(model->warnings[1], file.path() +
                                    ": tokenizer.ggml.tokens says 2 tokens, token_embd.weight has 288 rows; "
                                    "the tensor is right");
}

}  // namespace
}  // namespace bonsai::model
