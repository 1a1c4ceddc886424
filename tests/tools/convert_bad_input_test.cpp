// Checkpoints that bonsai-convert refuses: one line names what is wrong and what was expected, and nothing is left.
#include <fmt/format.h>

#include <limits>

#include "tests/tools/convert_fixture.h"

namespace bonsai::convert {
namespace {

TEST_F(Convert, NamesTheMissingFile) {
  fs::create_directory(input());
  EXPECT_TRUE(refusal_of_input().starts_with("/config.json: "));
  TinyCheckpoint().write_texts(input());
  EXPECT_EQ(refusal_of_input(),
            ": expected model.safetensors, model.safetensors.index.json or model-00001-of-....safetensors, found "
            "none\n");
  TinyCheckpoint().write(input());
  fs::remove(input() + "/tokenizer.json");
  EXPECT_TRUE(refusal_of_input().starts_with("/tokenizer.json: "));
}

TEST_F(Convert, NamesABrokenIndex) {
  TinyCheckpoint().write_texts(input());
  const std::string path = input() + "/model.safetensors.index.json";
  test::write_file(path, "{}");
  EXPECT_EQ(refusal_of_input(), "/model.safetensors.index.json: weight_map: expected an object\n");
  test::write_file(path, R"({"weight_map": {"a": "../secret"}})");
  EXPECT_EQ(refusal_of_input(),
            "/model.safetensors.index.json: weight_map: a: expected a file name without a directory, found "
            "\"../secret\"\n");
  test::write_file(path, R"({"weight_map": {"a": "x.safetensors"}})");
  test::write_file(input() + "/x.safetensors", test::safetensors({{"b", "F32", {1}, "abcd"}}));
  EXPECT_EQ(refusal_of_input(), "/model.safetensors.index.json: a: not in x.safetensors, where the index says it is\n");
  test::write_file(path, R"({"weight_map": {"b": "x.safetensors", "c": "x.safetensors", "d": "y.safetensors"}})");
  test::write_file(input() + "/y.safetensors",
                   test::safetensors({{"c", "F32", {1}, "abcd"}, {"d", "F32", {1}, "abcd"}}));
  EXPECT_EQ(refusal_of_input(),
            "/model.safetensors.index.json: c: in y.safetensors, but the index says that it is in x.safetensors\n");
}

// Promise: a hostile file is refused by name, whichever way its JSON is hard on a parser.
TEST_F(Convert, NamesAFileWhoseJsonIsBeyondMeasure) {
  TinyCheckpoint().write(input());
  const std::string path = input() + "/config.json";
  test::write_file(path, R"({"num_hidden_layers": )" + std::string(1000000, '[') + std::string(1000000, ']') + "}");
  EXPECT_EQ(refusal_of_input(), "/config.json: nested more than 100 deep\n");
  test::write_file(path, R"({"num_hidden_layers": 1e999})");
  EXPECT_EQ(refusal_of_input(), "/config.json: holds a number that no double can hold\n");
}

TEST_F(Convert, ShowsHostileNamesHarmlessly) {
  TinyCheckpoint().write_texts(input());
  test::write_file(input() + "/model.safetensors", test::safetensors({{"b\n\x1B[31m", "F32", {1}, "a"}}));
  EXPECT_EQ(refusal_of_input(),
            "/model.safetensors: b\\x0a\\x1b[31m: data_offsets: the shape asks for 4 bytes, found 1\n");
}

TEST_F(Convert, NamesATruncatedFile) {
  TinyCheckpoint().write(input());
  const std::string path = input() + "/model.safetensors";
  fs::resize_file(path, fs::file_size(path) - 1);
  EXPECT_TRUE(refusal_of_input().starts_with("/model.safetensors: ")) << "which tensor depends on the order";
}

// Promise: what is beyond the runtime's bounds is refused here, before hours of work.
TEST_F(Convert, HasTheBoundsOfTheRuntime) {
  const std::pair<std::string, uint64_t> bounds[] = {
      {"num_hidden_layers", model::kMostLayers},  {"hidden_size", model::kMostHidden},
      {"intermediate_size", model::kMostFfn},     {"num_attention_heads", model::kMostHeads},
      {"num_key_value_heads", model::kMostHeads}, {"head_dim", model::kMostHeadDim},
      {"vocab_size", model::kMostVocab},          {"max_position_embeddings", model::kMostContext}};
  for (const auto &[key, most] : bounds) {
    TinyCheckpoint checkpoint;
    checkpoint.config[key] = most + 1;
    EXPECT_EQ(refusal(checkpoint),
              fmt::format("/config.json: {}: expected a whole number from 1 to {}, found {}\n", key, most, most + 1));
  }
}

TEST_F(Convert, RefusesWhatTheRuntimeDoesNotCompute) {
  const auto refusal_with = [&](const std::string &key, const nlohmann::json &value) {
    TinyCheckpoint checkpoint;
    checkpoint.config[key] = value;
    return refusal(checkpoint);
  };
  EXPECT_EQ(refusal_with("architectures", {"LlamaForCausalLM"}),
            "/config.json: architectures: expected [\"Qwen3ForCausalLM\"] or [\"Qwen3Model\"], found "
            "[\"LlamaForCausalLM\"]\n");
  EXPECT_EQ(refusal_with("hidden_act", "gelu"), "/config.json: hidden_act: expected \"silu\", found \"gelu\"\n");
  EXPECT_EQ(refusal_with("attention_bias", true), "/config.json: attention_bias: expected false, found true\n");
  EXPECT_EQ(refusal_with("use_sliding_window", true), "/config.json: use_sliding_window: expected false, found true\n");
  EXPECT_EQ(refusal_with("quantization_config", {{"bits", 4}}),
            "/config.json: quantization_config.quant_method: expected \"fp8\", or unquantised weights, found "
            "nothing\n");
  EXPECT_EQ(refusal_with("rope_scaling", {{"type", "longrope"}}),
            "/config.json: rope_scaling.type: expected \"default\", \"linear\" or \"yarn\", found \"longrope\"\n");
  EXPECT_EQ(refusal_with("rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"mscale", 0.7}}),
            "/config.json: rope_scaling.mscale: not a scaling that the runtime computes\n");
  EXPECT_EQ(refusal_with("rope_scaling", {{"type", "yarn"}, {"factor", 4}, {"truncate", false}}),
            "/config.json: rope_scaling.truncate: expected true, found false\n");
  EXPECT_EQ(refusal_with("rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}, {"mscale", 0.7}}),
            "/config.json: rope_parameters.mscale: not a scaling that the runtime computes\n");
  EXPECT_EQ(refusal_with("rope_parameters", {{"rope_type", "default"}, {"partial_rotary_factor", 0.5}}),
            "/config.json: rope_parameters.partial_rotary_factor: expected 1.0, found 0.5\n");
}

TEST_F(Convert, NamesAnAbsurdNumber) {
  const auto refusal_with = [&](const std::string &key, const nlohmann::json &value) {
    TinyCheckpoint checkpoint;
    checkpoint.config[key] = value;
    return refusal(checkpoint);
  };
  EXPECT_EQ(refusal_with("hidden_size", -128),
            "/config.json: hidden_size: expected a whole number from 1 to 131072, found -128\n");
  EXPECT_EQ(refusal_with("hidden_size", nullptr),
            "/config.json: hidden_size: expected a whole number from 1 to 131072, found nothing\n");
  EXPECT_EQ(refusal_with("head_dim", 63), "/config.json: head_dim: expected an even number, found 63\n");
  EXPECT_EQ(refusal_with("rms_norm_eps", 0), "/config.json: rms_norm_eps: expected a positive number, found 0\n");
  EXPECT_EQ(refusal_with("num_key_value_heads", 3),
            "/config.json: num_key_value_heads: expected a divisor of the 2 heads, found 3\n");
  EXPECT_EQ(refusal_with("vocab_size", 100), ": model.embed_tokens.weight: expected 100 x 128, found 264 x 128\n");
}

// What only the runtime asks for is asked before the weights are converted.
TEST_F(Convert, RefusesWhatTheRuntimeWouldRefuse) {
  const std::string words = ": makes a model that cannot be run: " + output() + ": ";
  TinyCheckpoint steep;
  steep.config["rms_norm_eps"] = 2;
  EXPECT_EQ(refusal(steep), words +
                                "qwen3.attention.layer_norm_rms_epsilon: expected a float32 above 0 and at most 1, "
                                "found 2\n");
  TinyCheckpoint yarn;
  yarn.config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4}, {"beta_fast", 1}, {"beta_slow", 32}};
  EXPECT_EQ(refusal(yarn),
            words + "qwen3.rope.scaling.yarn_beta_fast: expected at least yarn_beta_slow (32), found 1\n");
  EXPECT_EQ(refusal([] {
              TinyCheckpoint both;
              both.config["rope_parameters"] = {{"rope_theta", 1e6}, {"rope_type", "default"}};
              both.config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}};
              return both;
            }()),
            "/config.json: rope_scaling: expected nothing beside rope_parameters, or the same\n");
  TinyCheckpoint mute;
  mute.tokenizer["model"]["vocab"].erase("a");
  const std::string refused = refusal(mute);
  EXPECT_TRUE(refused.starts_with(words)) << refused;
}

TEST_F(Convert, NamesAWrongTensor) {
  TinyCheckpoint checkpoint;
  checkpoint.tensor("model.norm.weight").name = "model.nrom.weight";
  EXPECT_EQ(refusal(checkpoint), ": model.norm.weight: missing, expected 128\n");
  checkpoint = TinyCheckpoint();
  checkpoint.tensor("model.layers.0.self_attn.q_proj.weight").shape = {256, 64};
  EXPECT_EQ(refusal(checkpoint), ": model.layers.0.self_attn.q_proj.weight: expected 128 x 128, found 256 x 64\n");
  checkpoint = TinyCheckpoint();
  checkpoint.tensors.push_back({"model.layers.0.self_attn.q_proj.bias", "F32", {1}, "abcd"});
  EXPECT_EQ(refusal(checkpoint), ": model.layers.0.self_attn.q_proj.bias: Qwen3 has no biases\n");
  checkpoint = TinyCheckpoint();
  checkpoint.tensors.push_back({"model.layers.1.mlp.up_proj.weight", "F32", {1}, "abcd"});
  EXPECT_EQ(refusal(checkpoint), ": model.layers.1.mlp.up_proj.weight: not part of a Qwen3 of 1 layers\n");
  checkpoint = TinyCheckpoint();
  checkpoint.tensor("model.norm.weight").dtype = "I16";
  EXPECT_EQ(refusal(checkpoint), ": model.norm.weight: dtype: expected F32, F16 or BF16, found \"I16\"\n");
}

TEST_F(Convert, NamesAWeightThatIsNotFinite) {
  TinyCheckpoint checkpoint("F32");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  checkpoint.tensor("model.layers.0.mlp.up_proj.weight")
      .bytes.replace((3 * 128 + 5) * sizeof(float), sizeof(float), reinterpret_cast<const char *>(&nan), sizeof nan);
  checkpoint.write(input());
  const Outcome outcome = convert_input();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err,
            "bonsai-convert: " + input() +
                ": model.layers.0.mlp.up_proj.weight: row 3, column 5: expected a finite number, found nan\n");
  EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
}

TEST_F(Convert, NamesAWeightThatTheFormatCannotHold) {
  for (const char *type : {"F16", "Q4_0", "TQ2_0_G128"}) {
    TinyCheckpoint checkpoint("F32");
    const float large = -1e7f;
    checkpoint.tensor("model.layers.0.mlp.up_proj.weight")
        .bytes.replace((3 * 128 + 5) * sizeof(float), sizeof(float), reinterpret_cast<const char *>(&large),
                       sizeof large);
    checkpoint.write(input());
    const Outcome outcome = convert_input(type);
    EXPECT_EQ(outcome.exit_code, 1) << type;
    EXPECT_EQ(outcome.err, "bonsai-convert: " + input() +
                               ": model.layers.0.mlp.up_proj.weight: row 3, column 5: -10000000 is beyond what " +
                               type + " holds\n");
    EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
  }
}

}  // namespace
}  // namespace bonsai::convert
