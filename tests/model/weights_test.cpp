// Promises of load_model: every tensor is there in the right shape, or one line says which is not.
#include "core/model/weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/model/tiny_model.h"

namespace bonsai::model {
namespace {

using test::TinyModel;
using test::TinyModelFile;

std::string error_of(const TinyModel &options) {
  TinyModelFile file(options);
  auto model = load_model(file.path());
  if (model) return "loaded";
  const std::string prefix = file.path() + ": ";
  EXPECT_TRUE(model.error().message.starts_with(prefix)) << model.error().message;
  return model.error().message.substr(prefix.size());
}

TEST(Weights, BindsEveryTensor) {
  TinyModelFile file(TinyModel{});
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->layers.size(), 2u);
  for (const LayerWeights &layer : model->layers) {
    EXPECT_EQ(layer.attn_q->rows(), 128u);
    EXPECT_EQ(layer.attn_k->rows(), 64u);
    EXPECT_EQ(layer.attn_v->rows(), 64u);
    EXPECT_EQ(layer.attn_output->columns(), 128u);
    EXPECT_EQ(layer.ffn_gate->rows(), 256u);
    EXPECT_EQ(layer.ffn_up->rows(), 256u);
    EXPECT_EQ(layer.ffn_down->columns(), 256u);
    EXPECT_EQ(layer.attn_norm.size(), 128u);
    EXPECT_EQ(layer.ffn_norm.size(), 128u);
    EXPECT_EQ(layer.q_norm.size(), 32u);
    EXPECT_EQ(layer.k_norm.size(), 32u);
  }
  EXPECT_EQ(model->layers[1].attn_q->name, "blk.1.attn_q.weight");
  EXPECT_EQ(model->output_norm.size(), 128u);
  EXPECT_TRUE(model->tied);
  EXPECT_EQ(model->head, model->token_embd);
  EXPECT_TRUE(model->warnings.empty());
}

TEST(Weights, AnUntiedHeadMayHaveAFormatOfItsOwn) {
  TinyModel options;
  options.tied = false;
  options.formats["output"] = quant::Format::kQ8_0;
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_FALSE(model->tied);
  EXPECT_EQ(model->head->name, "output.weight");
  EXPECT_EQ(model->head->format, quant::Format::kQ8_0);
  EXPECT_EQ(model->token_embd->format, quant::Format::kQ1_0_G128);
}

TEST(Weights, NormsAreDecodedFromEveryFloatFormat) {
  TinyModelFile exact{TinyModel{}};
  auto expected = load_model(exact.path());
  ASSERT_TRUE(expected) << expected.error().message;
  for (quant::Format format : {quant::Format::kF16, quant::Format::kBF16}) {
    TinyModel options;
    options.formats["blk.0.attn_norm.weight"] = format;
    TinyModelFile file(options);
    auto model = load_model(file.path());
    ASSERT_TRUE(model) << model.error().message;
    for (size_t i = 0; i < 128; ++i) {
      EXPECT_NEAR(model->layers[0].attn_norm[i], expected->layers[0].attn_norm[i], 0.01) << i;
    }
  }
}

TEST(Weights, NamesAMissingTensor) {
  TinyModel options;
  options.without = {"blk.1.ffn_up.weight"};
  EXPECT_EQ(error_of(options), "blk.1.ffn_up.weight: missing, expected 256 x 128");
  options.without = {"output_norm.weight"};
  EXPECT_EQ(error_of(options), "output_norm.weight: missing, expected 128");
  options.without = {"token_embd.weight"};
  EXPECT_EQ(error_of(options), "token_embd.weight: missing, expected a row per token");
}

TEST(Weights, NamesAWrongShape) {
  TinyModel options;
  options.shapes["blk.1.attn_q.weight"] = {128, 64};
  EXPECT_EQ(error_of(options), "blk.1.attn_q.weight: expected 128 x 128, found 64 x 128");
  options.shapes = {{"blk.0.attn_v.weight", {128, 32, 2}}};
  EXPECT_EQ(error_of(options), "blk.0.attn_v.weight: expected 64 x 128, found 2 x 32 x 128");
  options.shapes = {{"blk.0.attn_k_norm.weight", {64}}};
  EXPECT_EQ(error_of(options), "blk.0.attn_k_norm.weight: expected 32, found 64");
  options.shapes = {{"token_embd.weight", {256, 272}}};
  EXPECT_EQ(error_of(options), "token_embd.weight: expected 272 x 128, found 272 x 256");
  options.shapes = {{"output.weight", {128, 271}}};
  EXPECT_EQ(error_of(options), "output.weight: expected 272 x 128, found 271 x 128");
}

TEST(Weights, MetadataThatDisagreesWithTheTensorsIsAWrongShape) {
  TinyModel options;
  options.metadata = [](gguf::Writer &writer) { writer.set_uint32("qwen3.attention.head_count", 8); };
  EXPECT_EQ(error_of(options), "blk.0.attn_q.weight: expected 256 x 128, found 128 x 128");
}

TEST(Weights, ANormMustBeAFloatFormat) {
  TinyModel options;
  options.formats["blk.0.ffn_norm.weight"] = quant::Format::kQ8_0;
  EXPECT_EQ(error_of(options), "blk.0.ffn_norm.weight: expected F32, F16 or BF16, found Q8_0");
}

TEST(Weights, RefusesTensorsThatWouldChangeTheResult) {
  for (const char *name : {"blk.0.attn_q.bias", "blk.1.ffn_down.scale", "rope_freqs.weight"}) {
    TinyModel options;
    options.shapes[name] = {16};
    EXPECT_EQ(error_of(options), std::string(name) + ": not part of Qwen3, and leaving it out would change the result");
  }
}

TEST(Weights, RefusesLayersThatTheMetadataDoesNotCount) {
  TinyModel options;
  options.metadata = [](gguf::Writer &writer) { writer.set_uint32("qwen3.block_count", 1); };
  EXPECT_EQ(error_of(options), "blk.1.attn_norm.weight: qwen3.block_count says 1 layers");
  options.metadata = [](gguf::Writer &writer) { writer.set_uint32("qwen3.block_count", 1000); };
  EXPECT_EQ(error_of(options), "blk.2.attn_norm.weight: missing, expected 128");
}

// Promise: a name from a file cannot break a message's line, or reach the terminal that shows it.
TEST(Weights, HostileNamesAreShownHarmlessly) {
  TinyModel options;
  options.shapes = {{"a\n\x1B[31m", {4}}};
  TinyModelFile file(options);
  const auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->warnings.at(0), file.path() + ": not part of Qwen3 and ignored: a\\x0a\\x1b[31m");
  options.shapes = {{"a\n.bias", {4}}};
  EXPECT_EQ(error_of(options), "a\\x0a.bias: not part of Qwen3, and leaving it out would change the result");
  options.shapes = {{"blk.7.\x1B[31m", {4}}};
  EXPECT_EQ(error_of(options), "blk.7.\\x1b[31m: qwen3.block_count says 2 layers");
}

TEST(Weights, OtherTensorsAreIgnoredWithAWarning) {
  TinyModel options;
  options.shapes = {{"extra.a", {4}}, {"extra.b", {4}}, {"extra.c", {4}}, {"extra.d", {4}}};
  TinyModelFile file(options);
  auto model = load_model(file.path());
  ASSERT_TRUE(model) << model.error().message;
  ASSERT_EQ(model->warnings.size(), 1u);
  EXPECT_EQ(model->warnings[0], file.path() + ": not part of Qwen3 and ignored: extra.a, extra.b, extra.c and 1 more");
}

TEST(Weights, AFileWithoutTensorsSaysWhatItIsGoodFor) {
  TinyModelFile file(TinyModel{});
  auto writer = gguf::Writer::create(file.path());
  ASSERT_TRUE(writer) << writer.error().message;
  writer->set_string("general.architecture", "qwen3");
  ASSERT_TRUE(writer->begin_data());
  ASSERT_TRUE(writer->finish());
  ASSERT_TRUE(gguf::File::open(file.path()));
  auto model = load_model(file.path());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            file.path() + ": the file holds no tensors: it can tokenize, but there is no model to run");
}

TEST(Weights, AMissingFileIsNamed) {
  auto model = load_model("/nonexistent/model.gguf");
  ASSERT_FALSE(model);
  EXPECT_TRUE(model.error().message.starts_with("/nonexistent/model.gguf: ")) << model.error().message;
}

}  // namespace
}  // namespace bonsai::model
