// Promises of the judge beside its values: rollback, KV rounding, errors with a meaning of their own.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "core/reference/reference.h"
#include "tests/base/refuse_threads.h"
#include "tests/model/tiny_model.h"

namespace bonsai::reference {
namespace {

using test::TinyModel;
using test::TinyModelFile;
using Logits = std::vector<double>;

const std::vector<int32_t> kPrompt = {84, 104, 101, 32, 70, 256, 7};

model::Model load(const TinyModel &options) {
  TinyModelFile file(options);  // the mapping outlives the name
  auto model = model::load_model(file.path());
  if (!model) throw std::runtime_error(model.error().message);
  return std::move(*model);
}

Logits run(const model::Model &model, KvType kv) {
  Evaluator evaluator(model, kv);
  auto logits = evaluator.run(kPrompt);
  if (!logits) throw std::runtime_error(logits.error().message);
  return *logits;
}

double relative_distance(const Logits &a, const Logits &b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

TEST(Evaluator, RunIsStepInALoop) {
  const model::Model model = load({});
  Evaluator evaluator(model, KvType::kF16);
  Result<Logits> logits;
  for (int32_t token : kPrompt) logits = evaluator.step(token);
  ASSERT_TRUE(logits) << logits.error().message;
  EXPECT_EQ(*logits, run(model, KvType::kF16));
  EXPECT_EQ(evaluator.length(), kPrompt.size());
}

TEST(Evaluator, StepsAreStepInALoop) {
  TinyModel options;
  options.formats["blk.0.ffn_down.weight"] = quant::Format::kQ4_K;
  const model::Model model = load(options);
  std::vector<int32_t> tokens;  // more than go through a layer together
  for (int32_t i = 0; i < 150; ++i) tokens.push_back(i * 37 % 271);
  for (const KvType kv : {KvType::kF64, KvType::kF32, KvType::kF16, KvType::kQ8_0}) {
    Evaluator one(model, kv), many(model, kv);
    std::vector<Logits> expected;
    for (const int32_t token : tokens) expected.push_back(one.step(token).value());
    std::vector<Logits> logits = many.steps(std::span(tokens).first(70)).value();
    EXPECT_EQ(many.length(), 70u);
    const std::vector<Logits> rest = many.steps(std::span(tokens).subspan(70)).value();
    logits.insert(logits.end(), rest.begin(), rest.end());
    EXPECT_EQ(logits, expected);
    EXPECT_EQ(many.last_hidden(), one.last_hidden());
  }
}

TEST(Evaluator, TruncateForgetsWhatCameAfter) {
  const model::Model model = load({});
  Evaluator evaluator(model, KvType::kQ8_0);
  ASSERT_TRUE(evaluator.run(std::vector<int32_t>(kPrompt.begin(), kPrompt.begin() + 3)));
  ASSERT_TRUE(evaluator.run(std::vector<int32_t>{1, 2, 3, 4}));
  evaluator.truncate(3);
  EXPECT_EQ(evaluator.length(), 3u);
  auto logits = evaluator.run(std::vector<int32_t>(kPrompt.begin() + 3, kPrompt.end()));
  ASSERT_TRUE(logits) << logits.error().message;
  EXPECT_EQ(*logits, run(model, KvType::kQ8_0));
}

TEST(Evaluator, TheKvTypeDecidesTheRounding) {
  const model::Model model = load({});
  const Logits exact = run(model, KvType::kF64);
  const double f32 = relative_distance(run(model, KvType::kF32), exact);
  const double f16 = relative_distance(run(model, KvType::kF16), exact);
  const double q8 = relative_distance(run(model, KvType::kQ8_0), exact);
  EXPECT_GT(f32, 0);
  EXPECT_LT(f32, 1e-6);
  EXPECT_GT(f16, 1e-6);
  EXPECT_LT(f16, 1e-2);
  EXPECT_GT(q8, f16);
  EXPECT_LT(q8, 1e-1);
}

TEST(Evaluator, LogitsAreTheHeadOverTheLastHidden) {
  TinyModel options;
  options.tied = false;
  options.formats["output"] = quant::Format::kF32;
  const model::Model model = load(options);
  Evaluator evaluator(model, KvType::kF64);
  auto logits = evaluator.run(kPrompt);
  ASSERT_TRUE(logits) << logits.error().message;
  const std::vector<double> &hidden = evaluator.last_hidden();
  ASSERT_EQ(hidden.size(), 128u);
  std::vector<float> head(model.head->rows() * 128);
  quant::traits(quant::Format::kF32).decode(model.head->data.data(), head.data(), head.size());
  for (size_t row : {0u, 100u, 271u}) {
    double dot = 0;
    for (size_t i = 0; i < 128; ++i) dot += head[row * 128 + i] * hidden[i];
    EXPECT_NEAR((*logits)[row], dot, 1e-12);
  }
}

TEST(Evaluator, QueryHeadsShareTheirGroupsKeysAndValues) {
  // With one kv head for all, two kv heads that are copies of it must give the same logits as four of their own groups:
  // a model whose K and V rows repeat per head equals the model that stores them once.
  TinyModel options;
  options.format = quant::Format::kF32;
  options.layers = 1;
  options.kv_heads = 1;
  const model::Model shared = load(options);
  model::Model repeated = load(options);
  std::vector<std::byte> keys, values;
  for (int copy = 0; copy < 2; ++copy) {
    keys.insert(keys.end(), shared.layers[0].attn_k->data.begin(), shared.layers[0].attn_k->data.end());
    values.insert(values.end(), shared.layers[0].attn_v->data.begin(), shared.layers[0].attn_v->data.end());
  }
  gguf::Tensor two_keys = *shared.layers[0].attn_k, two_values = *shared.layers[0].attn_v;
  two_keys.shape[1] *= 2;
  two_values.shape[1] *= 2;
  two_keys.data = keys;
  two_values.data = values;
  repeated.layers[0].attn_k = &two_keys;
  repeated.layers[0].attn_v = &two_values;
  repeated.config.kv_heads = 2;
  EXPECT_EQ(run(repeated, KvType::kF64), run(shared, KvType::kF64));
}

TEST(Evaluator, YarnChangesTheRotation) {
  TinyModel options;
  options.format = quant::Format::kF32;
  const Logits plain = run(load(options), KvType::kF64);
  options.yarn_factor = 4;
  EXPECT_GT(relative_distance(run(load(options), KvType::kF64), plain), 1e-3);
}

TEST(Evaluator, NamesATokenOutsideTheVocabulary) {
  const model::Model model = load({});
  Evaluator evaluator(model, KvType::kF16);
  EXPECT_EQ(evaluator.step(272).error().message, "token 272 is outside the vocabulary, expected 0 to 271");
  EXPECT_EQ(evaluator.step(-1).error().message, "token -1 is outside the vocabulary, expected 0 to 271");
  EXPECT_EQ(evaluator.run(std::vector<int32_t>{1, 2, 272}).error().message,
            "token 272 is outside the vocabulary, expected 0 to 271");
  EXPECT_EQ(evaluator.length(), 0u) << "a refused batch leaves nothing behind";
}

TEST(Evaluator, SaysHowFullTheContextIs) {
  TinyModel options;
  options.context = 4;
  const model::Model model = load(options);
  Evaluator evaluator(model, KvType::kF16);
  ASSERT_TRUE(evaluator.run(std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(evaluator.run(std::vector<int32_t>{4, 5}).error().message,
            "context full: 3 of 4 positions are used, 2 more do not fit");
  EXPECT_TRUE(evaluator.step(4));
}

TEST(Evaluator, RefusesAnEmptyBatch) {
  const model::Model model = load({});
  Evaluator evaluator(model, KvType::kF16);
  EXPECT_EQ(evaluator.run({}).error().message, "empty batch: expected at least one token");
}

TEST(Evaluator, Q8NeedsHeadsOfWholeGroups) {
  TinyModel options;
  options.heads = 8;
  options.kv_heads = 8;
  options.head_dim = 16;
  const model::Model model = load(options);
  Evaluator evaluator(model, KvType::kQ8_0);
  EXPECT_EQ(evaluator.step(1).error().message,
            "KV type q8_0 needs a head dimension that is a multiple of 32, found 16");
}

TEST(Matrix, DecodingEverythingOnceGivesTheSameBits) {
  for (const quant::FormatTraits &format : quant::formats()) {
    TinyModel options;
    options.formats["blk.0.ffn_down.weight"] = format.format;
    options.shapes["blk.0.ffn_down.weight"] = {256, 131};  // rows that are no multiple of eight
    TinyModelFile path(options);
    auto file = gguf::File::open(path.path());
    ASSERT_TRUE(file) << file.error().message;
    const gguf::Tensor &tensor = *file->find_tensor("blk.0.ffn_down.weight");
    std::vector<double> x(256);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<double>(i));
    EXPECT_EQ(Matrix(tensor, true).multiply(x), Matrix(tensor, false).multiply(x)) << format.name;
  }
}

TEST(Evaluator, WorksWhereTheSystemRefusesThreads) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const model::Model model = load({});
  const auto evaluate = [&] {
    test::refuse_threads();
    Evaluator evaluator(model, KvType::kF16);
    std::_Exit(evaluator.steps(kPrompt) && evaluator.run(kPrompt) ? 0 : 1);
  };
  EXPECT_EXIT(evaluate(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bonsai::reference
