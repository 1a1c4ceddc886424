// Promises of bonsai-convert: what the checkpoint says arrives in the file, or nothing does and one line says why.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/text/tokenizer.h"
#include "tests/tools/convert_fixture.h"
#include "tools/convert/convert.h"
#include "tools/convert/safetensors.h"

namespace bonsai::convert {
namespace {

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
  const Outcome outcome =
      run_program(in_quotes(checkpoint) + " " + in_quotes(output()) + " --type q1_0 --name 'Bonsai Seedling'");
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
    EXPECT_EQ(model.layers[0].attn_q->format, fits ? format.format : quant::Format::kQ8_0) << format.name;
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

// As Qwen3's instructions have it, max_position_embeddings stays what it was when YaRN is added, and the context is
// longer all the same.
TEST_F(Convert, YarnStretchesTheContext) {
  TinyCheckpoint checkpoint;  // of 512 positions
  const auto context_with = [&](nlohmann::json scaling) {
    scaling["rope_type"] = "yarn";
    checkpoint.config["rope_scaling"] = std::move(scaling);
    const Outcome outcome = convert(checkpoint);
    EXPECT_EQ(outcome.exit_code, 0);
    const uint32_t context = load().config.context;
    EXPECT_EQ(outcome.err, context == 512 ? ""
                                          : fmt::format("bonsai-convert: {}/config.json: rope_scaling.factor: "
                                                        "stretches the context from 512 to {}\n",
                                                        input(), context));
    return context;
  };
  EXPECT_EQ(context_with({{"factor", 4.0}, {"original_max_position_embeddings", 512}}), 2048u);
  EXPECT_EQ(context_with({{"factor", 4.0}, {"original_max_position_embeddings", 128}}), 512u) << "stretched already";
  EXPECT_EQ(context_with({{"factor", 2.0}, {"original_max_position_embeddings", 128}}), 512u) << "it was longer before";
  EXPECT_EQ(context_with({{"factor", 1.3}, {"original_max_position_embeddings", 511}}), 664u) << "whole positions";
  EXPECT_EQ(context_with({{"factor", 2.0}}), 1024u);
  EXPECT_EQ(context_with({{"factor", 1e30}}), model::kMostContext);
  EXPECT_EQ(load().config.rope_scaling.original_context, 512u);
}

// As DeepSeek-R1-0528-Qwen3-8B's checkpoint has it, and others that were written by hand.
TEST_F(Convert, WhatChangesNothingOfARopeScalingPasses) {
  TinyCheckpoint checkpoint;
  checkpoint.config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 128}, {"attn_factor", 0.878}};
  Outcome outcome = convert(checkpoint);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "bonsai-convert: " + input() +
                             "/config.json: rope_scaling.attn_factor: ignored, as by Hugging Face's transformers\n");
  EXPECT_NEAR(load().config.rope_scaling.attention_factor, 1 + 0.1 * std::log(4.0), 1e-12);
  checkpoint.config["rope_scaling"] = {{"rope_type", "yarn"},
                                       {"factor", 4.0},
                                       {"original_max_position_embeddings", 128},
                                       {"truncate", true},
                                       {"extrapolation_factor", 1}};
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

// A scale that is too small for a half becomes 0, and with it the weights.
TEST_F(Convert, AMatrixOfWhichOnlyZerosAreLeftIsNamed) {
  TinyCheckpoint checkpoint("F32");
  std::string &bytes = checkpoint.tensor("model.layers.0.mlp.up_proj.weight").bytes;
  constexpr float kTiny = 1e-20f;
  for (size_t i = 0; i < bytes.size(); i += sizeof kTiny) std::memcpy(&bytes[i], &kTiny, sizeof kTiny);
  const Outcome outcome = convert(checkpoint, "Q8_0");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.err,
            "bonsai-convert: blk.0.ffn_up.weight: all weights became 0, as Q8_0 holds none that are so small\n");
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

// Promise: it does not matter which of the two programs made a model's format.
TEST_F(Convert, IsTheSameAsQuantizingAfterwards) {
  TinyCheckpoint("BF16", false).write(input());
  const auto file_type = [](const gguf::File &file) {
    const gguf::Value *value = file.find("general.file_type");
    return value != nullptr ? value->as_uint() : std::nullopt;
  };
  const std::string whole = directory_.file("whole.gguf"), later = directory_.file("later.gguf");
  ASSERT_EQ(run_program(in_quotes(input()) + " " + in_quotes(whole) + " --type BF16").exit_code, 0);
  for (const std::string type : {"F32", "F16", "Q8_0", "Q1_0_G128", "TQ2_0_G128", "Q4_K", "F8_E4M3"}) {
    ASSERT_EQ(convert_input(type).exit_code, 0);
    ASSERT_EQ(
        test::run_shell("bonsai-quantize " + in_quotes(whole) + " " + in_quotes(later) + " --type " + type).exit_code,
        0);
    const auto made = gguf::File::open(output()), expected = gguf::File::open(later);
    ASSERT_TRUE(made && expected);
    EXPECT_EQ(file_type(*made), file_type(*expected)) << type;
    ASSERT_EQ(made->tensors().size(), expected->tensors().size());
    for (const gguf::Tensor &tensor : made->tensors()) {
      const gguf::Tensor *same = expected->find_tensor(tensor.name);
      ASSERT_NE(same, nullptr) << tensor.name;
      EXPECT_EQ(tensor.format, same->format) << tensor.name << ", " << type;
      EXPECT_TRUE(std::ranges::equal(tensor.data, same->data)) << tensor.name << ", " << type;
    }
  }
}

TEST_F(Convert, TheOutputDoesNotDependOnTheNumberOfThreads) {
  TinyCheckpoint("F32").write(input());
  ASSERT_EQ(convert_input("Q4_0").exit_code, 0);
  const std::string bytes = test::read_file(output());
  for (const char *threads : {"--threads 1", "--threads 2", "-t 5"}) {
    const Outcome outcome = convert_input(std::string("Q4_0 ") + threads);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_TRUE(test::read_file(output()) == bytes) << threads;
  }
}

TEST_F(Convert, RowsThatDoNotDivideFallBackAndSaySo) {
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
            "bonsai-convert: blk.0.ffn_down.weight: rows of 200 do not divide into Q1_0_G128's blocks of 128; written "
            "as F16\n");
  const model::Model model = load();
  EXPECT_EQ(model.layers[0].ffn_down->format, quant::Format::kF16);
  EXPECT_EQ(model.layers[0].ffn_up->format, quant::Format::kQ1_0_G128);
}

// One line for each kind of tensor, and the file's type is what most weights became.
TEST_F(Convert, WhatFallsBackInEveryLayerIsSaidOnce) {
  TinyCheckpoint checkpoint;
  checkpoint.config["num_hidden_layers"] = 2;
  for (const test::CheckpointTensor &tensor : std::vector(checkpoint.tensors)) {
    const std::string layer = "model.layers.0.";
    if (!tensor.name.starts_with(layer)) continue;
    checkpoint.tensors.push_back(tensor);
    checkpoint.tensors.back().name = "model.layers.1." + tensor.name.substr(layer.size());
  }
  const Outcome outcome = convert(checkpoint, "Q4_K");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("bonsai-convert: blk.*.attn_q.weight (2 tensors): rows of 128 do not divide into Q4_K's "
                             "blocks of 256; written as Q8_0\n"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.err.find("blk.1"), std::string::npos) << outcome.err;
  EXPECT_EQ(load().file->find("general.file_type")->as_uint(), 7u);
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

TEST_F(Convert, TheCheckpointsFilesAreNoOutput) {
  TinyCheckpoint("F32").write(input());
  for (const char *name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    const std::string path = input() + "/" + name;
    const Outcome outcome =
        test::run_shell("bonsai-convert " + in_quotes(input()) + " " + in_quotes(path) + " --type F16");
    EXPECT_EQ(outcome.exit_code, 1) << name;
    EXPECT_EQ(outcome.err, "bonsai-convert: " + path + ": is one of the checkpoint's files, expected another\n");
  }
  EXPECT_EQ(convert_input().exit_code, 0);
}

// Also not those that are not read, through a link from elsewhere or as links to elsewhere.
TEST_F(Convert, TheCheckpointsFilesAreNoOutputThroughALinkEither) {
  TinyCheckpoint("F32").write(input());
  const auto refuse = [&](const std::string &path) {
    const Outcome outcome = run_program(in_quotes(input()) + " " + in_quotes(path) + " --type F16");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err, "bonsai-convert: " + path + ": is one of the checkpoint's files, expected another\n");
  };
  test::write_file(input() + "/vocab.json", "{}");
  for (const char *name : {"vocab.json", "config.json"}) {
    const std::string before = test::read_file(input() + "/" + name);
    fs::create_symlink(std::string("in/") + name, output());
    refuse(output());
    EXPECT_EQ(test::read_file(input() + "/" + name), before);
    fs::remove(output());
  }
  test::write_file(directory_.file("blob"), "<s>");
  fs::create_symlink("../blob", input() + "/merges.txt");
  refuse(input() + "/merges.txt");
  EXPECT_EQ(test::read_file(directory_.file("blob")), "<s>");
  fs::create_symlink("in/earlier.gguf", output());
  test::write_file(input() + "/earlier.gguf", "");
  EXPECT_EQ(convert_input().exit_code, 0);
}

// Whatever the link is called, and wherever the checkpoint's own files are links to.
TEST_F(Convert, WhatIsReadIsNoOutputThroughALinkEither) {
  TinyCheckpoint("F32").write(input());
  test::write_file(input() + "/chat_template.jinja", "{{ messages }}");
  fs::rename(input() + "/model.safetensors", directory_.file("blob.gguf"));
  fs::create_symlink("../blob.gguf", input() + "/model.safetensors");
  const auto refuse = [&](const std::string &path, const std::string &file) {
    const std::string before = test::read_file(file);
    const Outcome outcome = run_program(in_quotes(input()) + " " + in_quotes(path) + " --type F16");
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err, "bonsai-convert: " + path + ": is the input " + file + ", expected another file\n");
    EXPECT_TRUE(test::read_file(file) == before) << file;
  };
  refuse(directory_.file("blob.gguf"), input() + "/model.safetensors");
  fs::create_symlink("in/model.safetensors", output());
  refuse(output(), input() + "/model.safetensors");
  fs::remove(output());
  for (const char *name : {"config.json", "tokenizer.json", "chat_template.jinja"}) {
    fs::create_hard_link(input() + "/" + name, output());
    refuse(output(), input() + "/" + name);
    fs::remove(output());
  }
}

TEST_F(Convert, AFullDiskIsNotTheCheckpointsFault) {
  TinyCheckpoint().write(input());
  const Outcome outcome = test::run_shell("ulimit -f 100; exec bonsai-convert " + in_quotes(input()) + " " +
                                          in_quotes(output()) + " --type F32");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_EQ(outcome.err, "bonsai-convert: " + output() + ": cannot write: File too large\n");
  EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
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
  const Outcome outcome = run_program(in_quotes(input()) + " " + in_quotes(path) + " --type F16");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_TRUE(outcome.err.starts_with("bonsai-convert: " + path)) << outcome.err;
}

TEST_F(Convert, UsageErrorsExitWithTwo) {
  TinyCheckpoint().write(input());
  Outcome outcome = convert_input("Q9_9");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_TRUE(outcome.err.starts_with("bonsai-convert: --type: expected one of F32, F16, BF16, ")) << outcome.err;
  EXPECT_TRUE(outcome.err.ends_with("; found 'Q9_9'\n")) << outcome.err;
  const std::vector<std::string> wrong = {"", in_quotes(input()), in_quotes(input()) + " " + in_quotes(output()),
                                          "a b c --type F16", "a b --type F16 --colour blue"};
  for (const std::string &arguments : wrong) {
    outcome = run_program(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << arguments;
    EXPECT_TRUE(outcome.err.ends_with("; see bonsai-convert --help\n")) << outcome.err;
    EXPECT_EQ(outcome.out, "");
  }
  EXPECT_EQ(convert_input("F16 --threads 0").err, "bonsai-convert: --threads: expected 1 to 1024, found 0\n");
  EXPECT_EQ(run_program(in_quotes(input()) + " --type F16").err,
            "bonsai-convert: expected the checkpoint's directory and the file to write; see bonsai-convert --help\n");
  EXPECT_EQ(left_behind(), std::vector<std::string>{"in"});
}

TEST_F(Convert, SaysItsVersion) {
  const Outcome outcome = run_program("--version");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(outcome.out, "bonsai-convert " BONSAI_VERSION "\n");
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
