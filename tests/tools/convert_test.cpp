// Promises of bonsai-convert: what the checkpoint says arrives in the file, or nothing does and one line says why.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/model/weights.h"
#include "core/text/tokenizer.h"
#include "tests/tools/tiny_checkpoint.h"
#include "tests/tools/tool.h"
#include "tools/convert/convert.h"
#include "tools/convert/safetensors.h"

namespace bonsai::convert {
namespace {

namespace fs = std::filesystem;
using test::Outcome;
using test::TemporaryDirectory;
using test::TinyCheckpoint;

Outcome run_program(const std::string &arguments) { return test::run_shell("bonsai-convert " + arguments); }

class Convert : public testing::Test {
 protected:
  // Writes the checkpoint and converts it.
  Outcome convert(const TinyCheckpoint &checkpoint, const std::string &type = "Q1_0_G128") {
    checkpoint.write(input());
    return convert_input(type);
  }

  Outcome convert_input(const std::string &type = "Q1_0_G128") {
    return run_program(input() + " " + output() + " --type " + type);
  }

  // The message of a conversion that must fail, less "bonsai-convert: " and the input's path. Nothing may be left.
  std::string refusal(const TinyCheckpoint &checkpoint, const std::string &type = "Q1_0_G128") {
    checkpoint.write(input());
    return refusal_of_input(type);
  }

  std::string refusal_of_input(const std::string &type = "Q1_0_G128") {
    const Outcome outcome = convert_input(type);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
    const std::string prefix = "bonsai-convert: " + input();
    EXPECT_TRUE(outcome.err.starts_with(prefix)) << outcome.err;
    return outcome.err.substr(prefix.size());
  }

  std::vector<std::string> left_behind() const { return test::files_in(directory_); }

  model::Model load() const {
    auto model = model::load_model(output());
    if (!model) throw std::runtime_error(model.error().message);
    return std::move(*model);
  }

  std::string input() const { return directory_.file("in"); }
  std::string output() const { return directory_.file("out.gguf"); }

  TemporaryDirectory directory_;
};

std::vector<float> decode(quant::Format format, std::span<const std::byte> bytes, size_t count) {
  std::vector<float> values(count);
  quant::traits(format).decode(bytes.data(), values.data(), count);
  return values;
}

void expect_same_bits(const std::vector<float> &a, const std::vector<float> &b, std::string_view name) {
  ASSERT_EQ(a.size(), b.size()) << name;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(a[i]), std::bit_cast<uint32_t>(b[i])) << name << ' ' << i;
  }
}

// The name that a GGUF tensor has in a Hugging Face checkpoint.
std::string source_name(std::string_view name) {
  const std::vector<std::pair<std::string, std::string>> parts = {{"token_embd", "model.embed_tokens"},
                                                                  {"output_norm", "model.norm"},
                                                                  {"blk.", "model.layers."},
                                                                  {"attn_norm", "input_layernorm"},
                                                                  {"ffn_norm", "post_attention_layernorm"},
                                                                  {"attn_q_norm", "self_attn.q_norm"},
                                                                  {"attn_k_norm", "self_attn.k_norm"},
                                                                  {"attn_q", "self_attn.q_proj"},
                                                                  {"attn_k", "self_attn.k_proj"},
                                                                  {"attn_v", "self_attn.v_proj"},
                                                                  {"attn_output", "self_attn.o_proj"},
                                                                  {"ffn_gate", "mlp.gate_proj"},
                                                                  {"ffn_up", "mlp.up_proj"},
                                                                  {"ffn_down", "mlp.down_proj"}};
  std::string result(name);
  for (const auto &[from, to] : parts) {
    if (size_t at = result.find(from); at != std::string::npos) result.replace(at, from.size(), to);
  }
  return result;
}

TEST_F(Convert, TheSeedlingIsLossless) {
  const std::string checkpoint = BONSAI_SHARED_DATA "/../seedling/out";
  if (!fs::exists(checkpoint)) GTEST_SKIP() << "needs " << checkpoint;
  auto source = SafetensorsFile::open(checkpoint + "/model.safetensors");
  ASSERT_TRUE(source) << source.error().message;
  auto seedling = gguf::File::open(BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf");
  ASSERT_TRUE(seedling) << seedling.error().message;
  ASSERT_EQ(seedling->tensors().size(), source->tensors().size());
  for (const gguf::Tensor &tensor : seedling->tensors()) {
    const std::string name = source_name(tensor.name);
    auto found = std::find_if(source->tensors().begin(), source->tensors().end(),
                              [&](const SourceTensor &candidate) { return candidate.name == name; });
    ASSERT_NE(found, source->tensors().end()) << name;
    const size_t count = tensor.rows() * tensor.columns();
    const bool is_matrix = found->shape.size() == 2;
    EXPECT_EQ(tensor.format, is_matrix ? quant::Format::kQ1_0_G128 : quant::Format::kF32) << name;
    expect_same_bits(decode(tensor.format, tensor.data, count), decode(*found->format, found->bytes, count), name);
  }
}

TEST_F(Convert, TheShippedSeedlingIsWhatTheProgramMakes) {
  const std::string checkpoint = BONSAI_SHARED_DATA "/../seedling/out";
  if (!fs::exists(checkpoint)) GTEST_SKIP() << "needs " << checkpoint;
  const Outcome outcome = run_program(checkpoint + " " + output() + " --type q1_0 --name 'Bonsai Seedling'");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "") << "no progress bar where there is no terminal";
  EXPECT_TRUE(test::read_file(output()) == test::read_file(BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf"));
}

TEST_F(Convert, EveryDtypeArrivesUnchanged) {
  for (const char *dtype : {"F32", "F16", "BF16"}) {
    TinyCheckpoint checkpoint(dtype, false);
    const Outcome outcome = convert(checkpoint, "F32");
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const model::Model model = load();
    EXPECT_TRUE(model.warnings.empty()) << model.warnings[0];
    EXPECT_FALSE(model.tied);
    const quant::Format format = quant::find_format(dtype)->format;
    const auto original = [&](std::string_view name, size_t count) {
      return decode(format, std::as_bytes(std::span(checkpoint.tensor(name).bytes)), count);
    };
    expect_same_bits(decode(quant::Format::kF32, model.layers[0].ffn_down->data, 256 * 128),
                     original("model.layers.0.mlp.down_proj.weight", 256 * 128), dtype);
    expect_same_bits(decode(quant::Format::kF32, model.head->data, 264 * 128), original("lm_head.weight", 264 * 128),
                     dtype);
    expect_same_bits(model.layers[0].k_norm, original("model.layers.0.self_attn.k_norm.weight", 64), dtype);
    expect_same_bits(model.output_norm, original("model.norm.weight", 128), dtype);
  }
}

TEST_F(Convert, EveryTypeOfTheTableLoads) {
  for (const quant::FormatTraits &format : quant::formats()) {
    const Outcome outcome = convert(TinyCheckpoint(), std::string(format.name));
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    const model::Model model = load();
    const bool fits = 128 % format.block_weights == 0;
    EXPECT_EQ(model.layers[0].attn_q->format, fits ? format.format : quant::Format::kF16) << format.name;
    EXPECT_EQ(model.file->find_tensor("output_norm.weight")->format, quant::Format::kF32);
    EXPECT_TRUE(model.tied);
  }
}

TEST_F(Convert, TheConfigurationArrives) {
  const Outcome outcome = convert(TinyCheckpoint());
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const model::Model model = load();
  EXPECT_EQ(model.config.name, "in") << "the directory's name";
  EXPECT_EQ(model.config.layers, 1u);
  EXPECT_EQ(model.config.hidden, 128u);
  EXPECT_EQ(model.config.ffn, 256u);
  EXPECT_EQ(model.config.heads, 2u);
  EXPECT_EQ(model.config.kv_heads, 1u);
  EXPECT_EQ(model.config.head_dim, 64u);
  EXPECT_EQ(model.config.vocab, 264u);
  EXPECT_EQ(model.config.context, 512u);
  EXPECT_EQ(model.config.rms_eps, 1e-6f);
  EXPECT_EQ(model.config.rope_base, 1e6);
  EXPECT_EQ(model.config.rope_scaling.kind, model::RopeScaling::Kind::kNone);
  const gguf::Value *version = model.file->find("general.quantization_version");
  ASSERT_NE(version, nullptr);
  EXPECT_EQ(version->type, gguf::ValueType::kUint32);
  EXPECT_EQ(version->as_uint(), 2u);
}

TEST_F(Convert, YarnArrivesUnderEitherName) {
  TinyCheckpoint checkpoint;
  checkpoint.config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}, {"beta_fast", 16}};
  ASSERT_EQ(convert(checkpoint).exit_code, 0);
  model::RopeScaling scaling = load().config.rope_scaling;
  EXPECT_EQ(scaling.kind, model::RopeScaling::Kind::kYarn);
  EXPECT_EQ(scaling.factor, 4);
  EXPECT_EQ(scaling.original_context, 128u);
  EXPECT_EQ(scaling.beta_fast, 16);
  EXPECT_EQ(scaling.beta_slow, 1);
  EXPECT_NEAR(scaling.attention_factor, 1 + 0.1 * std::log(4.0), 1e-12);

  checkpoint.config.erase("rope_scaling");
  checkpoint.config.erase("rope_theta");
  checkpoint.config["rope_parameters"] = {
      {"rope_type", "yarn"}, {"factor", 2.0}, {"rope_theta", 5000.0}, {"attention_factor", 1.5}};
  ASSERT_EQ(convert(checkpoint).exit_code, 0);
  const model::Model model = load();
  EXPECT_EQ(model.config.rope_base, 5000);
  EXPECT_EQ(model.config.rope_scaling.factor, 2);
  EXPECT_EQ(model.config.rope_scaling.original_context, 512u);
  EXPECT_NEAR(model.config.rope_scaling.attention_factor, 1.5, 1e-6) << "it replaces the usual factor";
}

// As DeepSeek-R1-0528-Qwen3-8B's checkpoint has it, and others that were written by hand.
TEST_F(Convert, WhatChangesNothingOfARopeScalingPasses) {
  TinyCheckpoint checkpoint;
  checkpoint.config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4.0}, {"attn_factor", 0.878}};
  Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "bonsai-convert: " + input() +
                             "/config.json: rope_scaling.attn_factor: ignored, as by Hugging Face's transformers\n");
  EXPECT_NEAR(load().config.rope_scaling.attention_factor, 1 + 0.1 * std::log(4.0), 1e-12);
  checkpoint.config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"truncate", true}, {"extrapolation_factor", 1}};
  outcome = convert(checkpoint);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  checkpoint.config.erase("rope_scaling");
  checkpoint.config["rope_parameters"] = {
      {"rope_type", "default"}, {"rope_theta", 5000.0}, {"partial_rotary_factor", 1.0}};
  outcome = convert(checkpoint);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Convert, TheTokenizerArrivesPaddedToTheEmbedding) {
  ASSERT_EQ(convert(TinyCheckpoint()).exit_code, 0);
  const model::Model model = load();
  auto data = text::read_tokenizer(*model.file);
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->tokens.size(), 264u);
  EXPECT_EQ(data->eos, 258);
  EXPECT_EQ(data->chat_template, "from tokenizer_config");
  auto tokenizer = text::Tokenizer::create(std::move(*data));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  auto ids = tokenizer->encode("the<|im_end|>", text::SpecialTokens::kParse);
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ(*ids, (std::vector<int32_t>{257, 260}));
}

TEST_F(Convert, AChatTemplateInAFileOfItsOwnRules) {
  TinyCheckpoint checkpoint;
  checkpoint.write(input());
  test::write_file(input() + "/chat_template.jinja", "{{ messages }}");
  ASSERT_EQ(convert_input().exit_code, 0);
  EXPECT_EQ(text::read_tokenizer(*load().file)->chat_template, "{{ messages }}");
}

// As Qwen3-Embedding's checkpoints have it.
TEST_F(Convert, WhatIsPutAroundATextArrives) {
  const auto processed = [&](nlohmann::json single) {
    TinyCheckpoint checkpoint;
    checkpoint.tokenizer["post_processor"] = {
        {"type", "Sequence"},
        {"processors", {{{"type", "ByteLevel"}}, {{"type", "TemplateProcessing"}, {"single", std::move(single)}}}}};
    checkpoint.tokenizer_config["eos_token"] = "<|im_end|>";
    return checkpoint;
  };
  const auto special = [](const char *token) { return nlohmann::json{{"SpecialToken", {{"id", token}}}}; };
  const nlohmann::json text = {{"Sequence", {{"id", "A"}}}};
  const Outcome outcome = convert(processed({text, special("<|im_end|>")}));
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(text::read_tokenizer(*load().file)->add_eos);
  ASSERT_EQ(convert(processed(nlohmann::json::array({text}))).exit_code, 0);
  EXPECT_FALSE(text::read_tokenizer(*load().file)->add_eos);

  ASSERT_EQ(convert(processed({text, special("<|im_start|>")})).exit_code, 0);
  const model::Model other = load();
  EXPECT_TRUE(text::read_tokenizer(*other.file)->add_eos);
  EXPECT_EQ(text::read_tokenizer(*other.file)->eos, 259) << "what stands behind a text is its end";
  ASSERT_NE(other.file->find("tokenizer.ggml.eot_token_id"), nullptr);
  EXPECT_EQ(other.file->find("tokenizer.ggml.eot_token_id")->as_uint(), 260u) << "and eos_token a turn's";

  fs::remove(output());
  const std::string expected =
      "; expected at most bos_token in front of a text and one token of the vocabulary behind it\n";
  EXPECT_EQ(refusal(processed({special("<|im_start|>"), text})),
            "/tokenizer.json: post_processor adds '<|im_start|>'" + expected);
  EXPECT_EQ(refusal(processed({text, special("<eos>")})), "/tokenizer.json: post_processor adds '<eos>'" + expected);
}

// Of a Qwen3Model that was saved alone, names lack "model." and there is no head.
TEST_F(Convert, AModelWithoutAHeadArrives) {
  TinyCheckpoint checkpoint;
  ASSERT_EQ(convert(checkpoint).exit_code, 0);
  const std::string tied = test::read_file(output());
  checkpoint.config["architectures"] = {"Qwen3Model"};
  checkpoint.config["tie_word_embeddings"] = false;
  for (auto &tensor : checkpoint.tensors) tensor.name = tensor.name.substr(std::string("model.").size());
  const Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_TRUE(test::read_file(output()) == tied);
  fs::remove(output());
  checkpoint.tensors.push_back({"layers.1.mlp.up_proj.weight", "F32", {1}, "abcd"});
  EXPECT_EQ(refusal(checkpoint), ": layers.1.mlp.up_proj.weight: not part of a Qwen3 of 1 layers\n");
}

class ConvertPooling : public Convert {
 protected:
  // Converts a checkpoint whose pooling is configured so.
  Outcome convert_with(const nlohmann::json &pooling, nlohmann::json modules = kModules) {
    TinyCheckpoint().write(input());
    fs::create_directory(input() + "/1_Pooling");
    test::write_file(input() + "/modules.json", modules.dump());
    test::write_file(input() + "/1_Pooling/config.json", pooling.dump());
    return convert_input();
  }

  // qwen3.pooling_type of the result; 0 where there is none.
  uint64_t written_type() const {
    const model::Model model = load();
    const gguf::Value *type = model.file->find("qwen3.pooling_type");
    return type != nullptr ? type->as_uint().value() : 0;
  }

  inline static const nlohmann::json kModules = {
      {{"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
      {{"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}},
      {{"path", "2_Normalize"}, {"type", "sentence_transformers.models.Normalize"}}};
};

TEST_F(ConvertPooling, OfAnEmbeddingModelArrives) {
  Outcome outcome = convert_with({{"pooling_mode_cls_token", false}, {"pooling_mode_lasttoken", true}});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(written_type(), 3u);
  EXPECT_TRUE(load().config.pools_last);
  ASSERT_EQ(convert_with({{"pooling_mode_mean_tokens", true}}).exit_code, 0);
  EXPECT_EQ(written_type(), 1u);
  ASSERT_EQ(convert_with({{"pooling_mode", "lasttoken"}}).exit_code, 0);
  EXPECT_EQ(written_type(), 3u) << "as newer files say it";
  ASSERT_EQ(convert_with({}, nlohmann::json::array({kModules[0]})).exit_code, 0);
  EXPECT_EQ(written_type(), 0u);
}

TEST_F(ConvertPooling, ThatIsNotComputedIsSaid) {
  const std::string said = "bonsai-convert: " + input() +
                           "/1_Pooling/config.json: expected the pooling to be the mean or the last token's; "
                           "embeddings of the result are the mean\n";
  Outcome outcome = convert_with({{"pooling_mode_cls_token", true}});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, said);
  EXPECT_EQ(written_type(), 2u);
  for (const nlohmann::json &pooling :
       {nlohmann::json{{"pooling_mode_max_tokens", true}},
        nlohmann::json{{"pooling_mode_mean_tokens", true}, {"pooling_mode_lasttoken", true}},
        nlohmann::json::object()}) {
    outcome = convert_with(pooling);
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, said);
    EXPECT_EQ(written_type(), 0u);
  }
  nlohmann::json modules = kModules;
  modules.push_back({{"path", "3_Dense"}, {"type", "sentence_transformers.models.Dense"}});
  outcome = convert_with({{"pooling_mode_mean_tokens", true}}, modules);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err, "bonsai-convert: " + input() +
                             "/modules.json: \"sentence_transformers.models.Dense\": not computed; embeddings of the "
                             "result are what goes into it\n");
}

TEST_F(ConvertPooling, OfABrokenFileIsRefused) {
  const auto refusal_with = [&](const nlohmann::json &modules) {
    convert_with({{"pooling_mode_mean_tokens", true}}, modules);
    return refusal_of_input();
  };
  EXPECT_EQ(refusal_with(nlohmann::json::object()), "/modules.json: expected a JSON array, found object\n");
  nlohmann::json modules = kModules;
  for (const char *path : {"", "..", "/etc", "../1_Pooling"}) {
    modules[1]["path"] = path;
    EXPECT_EQ(refusal_with(modules),
              std::string("/modules.json: path of the pooling: expected a directory's name, found \"") + path + "\"\n");
  }
  modules[1]["path"] = "elsewhere";
  EXPECT_TRUE(refusal_with(modules).starts_with("/elsewhere/config.json: "));
}

TEST_F(Convert, OtherChatTemplatesAreLeftOutAndSaid) {
  TinyCheckpoint checkpoint;
  checkpoint.tokenizer_config["chat_template"] = nlohmann::json::array({{{"name", "tool_use"}, {"template", "tools"}}});
  const Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "bonsai-convert: " + input() +
                             "/tokenizer_config.json: chat_template: only the one named 'default' is used; left out: "
                             "'tool_use'\n");
  EXPECT_EQ(text::read_tokenizer(*load().file)->chat_template, "");
}

TEST_F(Convert, AChatTemplateThatCannotBeUsedIsSaid) {
  TinyCheckpoint checkpoint;
  checkpoint.write(input());
  test::write_file(input() + "/chat_template.jinja", "{% for %}");
  const Outcome outcome = convert_input();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("nobody can chat with the model: chat template, line 1: "), std::string::npos)
      << outcome.err;
}

TEST_F(Convert, ShardsGiveTheSameBytesAsASingleFile) {
  TinyCheckpoint checkpoint("BF16", false);
  ASSERT_EQ(convert(checkpoint).exit_code, 0);
  const std::string single = test::read_file(output());
  fs::remove(input() + "/model.safetensors");

  nlohmann::json index;
  std::vector<test::CheckpointTensor> shards[2];
  for (size_t i = 0; i < checkpoint.tensors.size(); ++i) {
    const size_t shard = i % 2;
    shards[shard].push_back(checkpoint.tensors[i]);
    index["weight_map"][checkpoint.tensors[i].name] = "model-" + std::to_string(shard) + ".safetensors";
  }
  test::write_file(input() + "/model.safetensors.index.json", index.dump());
  for (size_t shard : {0, 1}) {
    test::write_file(input() + "/model-" + std::to_string(shard) + ".safetensors", test::safetensors(shards[shard]));
  }
  const Outcome outcome = convert_input();
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_TRUE(test::read_file(output()) == single);
}

TEST_F(Convert, RowsThatDoNotDivideFallBackToF16AndSaySo) {
  TinyCheckpoint checkpoint;
  checkpoint.config["intermediate_size"] = 200;
  for (const char *part : {"gate_proj", "up_proj", "down_proj"}) {
    auto &tensor = checkpoint.tensor(std::string("model.layers.0.mlp.") + part + ".weight");
    tensor.shape = part == std::string("down_proj") ? std::vector<uint64_t>{128, 200} : std::vector<uint64_t>{200, 128};
    tensor.bytes.resize(200 * 128 * 2);
  }
  const Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "bonsai-convert: blk.0.ffn_down.weight: 200 columns do not divide into Q1_0_G128's blocks of 128; written "
            "as F16\n");
  const model::Model model = load();
  EXPECT_EQ(model.layers[0].ffn_down->format, quant::Format::kF16);
  EXPECT_EQ(model.layers[0].ffn_up->format, quant::Format::kQ1_0_G128);
}

TEST_F(Convert, NamesTheMissingFile) {
  fs::create_directory(input());
  EXPECT_TRUE(refusal_of_input().starts_with("/config.json: "));
  TinyCheckpoint().write_texts(input());
  EXPECT_EQ(refusal_of_input(), ": expected model.safetensors or model.safetensors.index.json, found neither\n");
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
            "/config.json: quantization_config: expected unquantised weights\n");
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
  EXPECT_EQ(refusal_with("head_dim", nullptr),
            "/config.json: head_dim: expected a whole number from 1 to 1024, found nothing\n");
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

TEST_F(Convert, TensorsThatNobodyNeedsAreLeftOutWhateverTheirType) {
  TinyCheckpoint checkpoint;
  ASSERT_EQ(convert(checkpoint).exit_code, 0);
  const std::string plain = test::read_file(output());
  checkpoint.tensors.push_back({"model.position_ids", "I64", {2}, std::string(16, '\0')});
  checkpoint.tensors.push_back({"model.rotary_emb.inv_freq", "F32", {1}, "abcd"});
  const Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "bonsai-convert: model.position_ids: not part of Qwen3 and left out\n"
            "bonsai-convert: model.rotary_emb.inv_freq: not part of Qwen3 and left out\n");
  EXPECT_TRUE(test::read_file(output()) == plain);
}

TEST_F(Convert, AHeadThatIsMissingIsTheEmbedding) {
  TinyCheckpoint checkpoint;
  checkpoint.config["tie_word_embeddings"] = false;
  const Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err,
            "bonsai-convert: lm_head.weight: missing, although tie_word_embeddings is false; the head is the "
            "embedding\n");
  EXPECT_TRUE(load().tied);
}

TEST_F(Convert, NamesAWeightThatIsNotFinite) {
  TinyCheckpoint checkpoint("F32");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  checkpoint.tensor("model.layers.0.mlp.up_proj.weight")
      .bytes.replace((3 * 128 + 5) * sizeof(float), sizeof(float), reinterpret_cast<const char *>(&nan), sizeof nan);
  checkpoint.write(input());
  const Outcome outcome = convert_input();
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(
      outcome.err,
      "bonsai-convert: model.layers.0.mlp.up_proj.weight: row 3, column 5: expected a finite number, found nan\n");
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
    EXPECT_EQ(outcome.err, std::string("bonsai-convert: model.layers.0.mlp.up_proj.weight: -10000000 is beyond what ") +
                               type + " holds\n");
    EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
  }
}

TEST_F(Convert, TheCheckpointsFilesAreNoOutput) {
  TinyCheckpoint("F32").write(input());
  for (const char *name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    const std::string path = input() + "/" + name;
    const Outcome outcome = test::run_shell("bonsai-convert " + input() + " " + path + " --type F16");
    EXPECT_EQ(outcome.exit_code, 1) << name;
    EXPECT_EQ(outcome.err, "bonsai-convert: " + path + ": is one of the checkpoint's files, expected another\n");
  }
  EXPECT_EQ(convert_input().exit_code, 0);
}

TEST_F(Convert, AnInterruptLeavesNothingBehind) {
  TinyCheckpoint().write(input());
  uint64_t calls = 0;
  const Request request{input(), output(), "", quant::find_format("F16")};
  auto result = bonsai::convert::convert(request, [&](uint64_t, uint64_t) { return ++calls < 5; });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "interrupted, nothing was written");
  EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
}

TEST_F(Convert, AnOutputThatCannotBeWrittenIsNamed) {
  TinyCheckpoint().write(input());
  const std::string path = directory_.file("missing/out.gguf");
  const Outcome outcome = run_program(input() + " " + path + " --type F16");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.err.starts_with("bonsai-convert: " + path)) << outcome.err;
}

TEST_F(Convert, UsageErrorsExitWithTwo) {
  TinyCheckpoint().write(input());
  Outcome outcome = convert_input("Q9_9");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.err.starts_with("bonsai-convert: --type: expected one of F32, F16, BF16, ")) << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with("; found 'Q9_9'\n")) << outcome.err;
  const std::vector<std::string> wrong = {"", input(), input() + " " + output(), "a b c --type F16",
                                          "a b --type F16 --colour blue"};
  for (const std::string &arguments : wrong) {
    outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_TRUE(outcome.err.ends_with("; see bonsai-convert --help\n")) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(run_program(input() + " --type F16").err,
            "bonsai-convert: expected the checkpoint's directory and the file to write; see bonsai-convert --help\n");
  EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
}

TEST_F(Convert, HelpGoesToStdout) {
  const Outcome outcome = run_program("--help");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_TRUE(outcome.out.starts_with("Usage: bonsai-convert DIR OUT.gguf --type TYPE")) << outcome.out;
  EXPECT_NE(outcome.out.find("TQ2_0_G128"), std::string::npos) << "lists the types";
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace bonsai::convert
