// The backend agrees with the float64 judge, at every level, in every format.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>
#include <string_view>

#include "core/reference/reference.h"
#include "tests/plugins/cpu/backend_support.h"
#include "tests/quant/exact_dot.h"

namespace bonsai::test {
namespace {

using quant::Format;
using reference::KvType;

KvType reference_kv(bonsai_kv_dtype dtype) {
  if (dtype == BONSAI_KV_F32) return KvType::kF32;
  return dtype == BONSAI_KV_F16 ? KvType::kF16 : KvType::kQ8_0;
}

// The logits of the last of n tokens, by the judge and by one forward pass; their relative error.
double forward_error(const TinyModel &options, bonsai_kv_dtype kv_dtype = BONSAI_KV_F16, uint32_t n_tokens = 80) {
  const LoadedModel loaded(options);
  OpenDevice device(kPlugin);
  UploadedModel uploaded(device, loaded.model);
  bonsai_session_config config = small_config();
  config.kv_dtype = kv_dtype;
  OpenSession session(uploaded, config);
  const std::vector<int32_t> tokens = some_tokens(n_tokens, options.vocab);
  reference::Evaluator judge(loaded.model, reference_kv(kv_dtype));
  const auto expected = judge.run(tokens);
  return relative_error(session.logits(tokens, 0, shuffled_blocks(10)), *expected);
}

class FormatAccuracy : public testing::TestWithParam<Format> {};

TEST_P(FormatAccuracy, ForwardAgreesWithTheJudge) {
  const double bound = takes_floats(GetParam()) ? kFloatBound : kQuantizedBound;
  TinyModel options = tiny_model_of(GetParam());
  EXPECT_LE(forward_error(options), bound);
  options.tied = false;
  EXPECT_LE(forward_error(options), bound);
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, FormatAccuracy, testing::ValuesIn(matrix_formats(kPlugin)),
                         [](const auto &info) { return std::string(quant::traits(info.param).name); });

TEST(Accuracy, FormatsMixInOneModelAndOneStackedWeight) {
  const TinyModel options = {.format = Format::kQ1_0_G128,
                             .formats = {{"attn_k", Format::kQ8_0},
                                         {"attn_v", Format::kF16},
                                         {"ffn_up", Format::kQ4_0},
                                         {"token_embd", Format::kQ2_0_G64}}};
  EXPECT_LE(forward_error(options), kQuantizedBound);
}

TEST(Accuracy, SuperBlocksMixWithOtherFormatsInOneStackedWeight) {
  TinyModel options = tiny_model_of(Format::kQ4_K);
  options.formats = {{"attn_k", Format::kTQ1_0},         {"attn_v", Format::kQ6_K},    {"attn_output", Format::kQ5_1},
                     {"ffn_gate", Format::kIQ4_XS},      {"ffn_up", Format::kF8_E4M3}, {"ffn_down", Format::kQ3_K},
                     {"token_embd", Format::kTQ1_0_G128}};
  EXPECT_LE(forward_error(options), kQuantizedBound);
}

TEST(Accuracy, EveryKvTypeAgreesWithTheJudge) {
  const TinyModel options = {.format = Format::kF32};
  EXPECT_LE(forward_error(options, BONSAI_KV_F32), kFloatBound);
  EXPECT_LE(forward_error(options, BONSAI_KV_F16), kFloatBound);
  EXPECT_LE(forward_error(options, BONSAI_KV_Q8_0), kQuantizedBound);
}

TEST(Accuracy, EveryShapeOfHeadsAgreesWithTheJudge) {
  struct Shape {
    uint32_t heads, kv_heads, head_dim;
  };
  for (const Shape shape : {Shape{4, 4, 32}, {4, 1, 32}, {6, 2, 64}, {5, 1, 40}, {8, 1, 16}, {2, 1, 10}, {1, 1, 128}}) {
    const TinyModel options = {
        .heads = shape.heads, .kv_heads = shape.kv_heads, .head_dim = shape.head_dim, .format = Format::kF32};
    EXPECT_LE(forward_error(options, BONSAI_KV_F32), kFloatBound)
        << shape.heads << " heads of " << shape.head_dim << " on " << shape.kv_heads;
  }
}

TEST(Accuracy, YarnAgreesWithTheJudge) {
  EXPECT_LE(forward_error({.yarn_factor = 4, .format = Format::kF32}), kFloatBound);
}

TEST(Accuracy, GemvAgreesWithTheJudgeOverStackedPartsAndAnyRows) {
  const LoadedModel loaded({.format = Format::kTQ2_0_G128, .formats = {{"attn_k", Format::kF32}}});
  OpenDevice device(kPlugin);
  UploadedModel uploaded(device, loaded.model);
  const uint64_t columns = loaded.model.config.hidden, first = 121, rows = 50;  // q has 128 rows, then comes k
  const uint32_t n = 70;
  std::vector<float> x(n * columns), y(n * rows);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  bonsai_gemv_args args = {.struct_size = sizeof args,
                           .n = n,
                           .weight = uploaded.layers[0].q->weight,
                           .first_row = first,
                           .rows = rows,
                           .x = x.data(),
                           .y = y.data()};
  bonsai_error error = empty_error();
  require_ok(device.api.gemv(device.handle, &args, &error), error);

  const auto row_dot = [&](uint64_t row, const double *vector) {
    const gguf::Tensor &tensor = row < 128 ? *loaded.model.layers[0].attn_q : *loaded.model.layers[0].attn_k;
    const quant::FormatTraits &traits = quant::traits(tensor.format);
    return test::exact_dot(traits, tensor.data.data() + row % 128 * quant::row_bytes(traits, columns), vector, columns);
  };
  const std::vector<double> exact(x.begin(), x.end());
  std::vector<double> expected(y.size());
  for (uint32_t i = 0; i < n; ++i) {
    for (uint64_t row = 0; row < rows; ++row) {
      expected[i * rows + row] = row_dot(first + row, exact.data() + i * columns);
    }
  }
  EXPECT_LE(relative_error(y, expected), 1e-2);
}

// A weight of one part; products of all its rows with `x`.
std::vector<float> upload_and_multiply(const OpenDevice &device, const bonsai_weight_part &part,
                                       std::span<const float> x) {
  const bonsai_weight_part *parts = &part;
  bonsai_weight_desc desc{};
  desc.struct_size = sizeof desc;
  desc.uses = BONSAI_USE_MATRIX;
  desc.n_parts = 1;
  desc.columns = x.size();
  desc.parts = &parts;
  bonsai_error error = empty_error();
  bonsai_weight *weight = nullptr;
  require_ok(device.api.weight_upload(device.handle, &desc, &weight, nullptr, &error), error);
  std::vector<float> y(part.rows);
  const bonsai_gemv_args args = {.struct_size = sizeof args,
                                 .n = 1,
                                 .weight = weight,
                                 .first_row = 0,
                                 .rows = part.rows,
                                 .x = x.data(),
                                 .y = y.data()};
  const bonsai_status status = device.api.gemv(device.handle, &args, &error);
  device.api.weight_free(device.handle, weight);
  require_ok(status, error);
  return y;
}

// Formats with room for a fourth code: a matrix without it may be packed more densely than one with it.
TEST(Accuracy, TernaryWeightsMayHoldAFourthCode) {
  constexpr uint64_t kRows = 200, kColumns = 768;
  OpenDevice device(kPlugin);
  std::vector<float> values(kRows * kColumns), x(kColumns);
  std::mt19937 random(5);
  for (float &value : values) value = static_cast<float>(random() % 3) - 1;
  for (float &value : x) value = static_cast<float>(random() % 2001) - 1000;
  const std::vector<double> exact(x.begin(), x.end());
  for (const Format format : {Format::kTQ2_0_G128, Format::kTQ2_0}) {
    const quant::FormatTraits &traits = quant::traits(format);
    const size_t row_bytes = quant::row_bytes(traits, kColumns);
    std::vector<std::byte> blocks(kRows * row_bytes);
    traits.encode(values.data(), blocks.data(), values.size());
    bonsai_weight_part part{};
    part.struct_size = sizeof part;
    part.dtype = static_cast<bonsai_dtype>(format);
    part.rows = kRows;
    part.data = blocks.data();
    part.data_bytes = blocks.size();
    for (const uint64_t changed : {kRows, uint64_t{0}, kRows - 1}) {
      if (changed < kRows) blocks[changed * row_bytes + 20] = std::byte{0xFF};  // among codes in either format
      EXPECT_EQ(traits.count_code3(blocks.data(), values.size()) > 0, changed < kRows);
      std::vector<double> expected;
      for (uint64_t row = 0; row < kRows; ++row) {
        expected.push_back(test::exact_dot(traits, blocks.data() + row * row_bytes, exact.data(), kColumns));
      }
      EXPECT_LE(relative_error(upload_and_multiply(device, part, x), expected), 1e-2) << traits.name << ", " << changed;
    }
  }
}

// The embedding's row of a token, decoded.
std::vector<float> embedding_row(const model::Model &model, int32_t token) {
  const quant::FormatTraits &traits = quant::traits(model.token_embd->format);
  std::vector<float> row(model.config.hidden);
  traits.decode(model.token_embd->data.data() + static_cast<size_t>(token) * quant::row_bytes(traits, row.size()),
                row.data(), row.size());
  return row;
}

TEST(Accuracy, LayersOneByOneGiveTheBytesOfTheWholePass) {
  const LoadedModel loaded({.layers = 3});
  OpenDevice device(kPlugin);
  UploadedModel uploaded(device, loaded.model);
  OpenSession session(uploaded, small_config());
  const std::vector<int32_t> tokens = some_tokens(40, kTinyTokens);
  const std::vector<float> whole = session.logits(tokens, 0, shuffled_blocks(4));

  TestBatch batch;
  batch.block_table = {shuffled_blocks(4)};
  for (size_t i = 0; i < tokens.size(); ++i) {
    batch.add(tokens[i], static_cast<uint32_t>(i));
    const std::vector<float> row = embedding_row(loaded.model, tokens[i]);
    batch.hidden.insert(batch.hidden.end(), row.begin(), row.end());
  }
  const bonsai_batch view = batch.view();
  TestOutputs outputs(kTinyTokens, loaded.model.config.hidden);
  outputs.logits(39);
  bonsai_error error = empty_error();
  std::vector<float> state(batch.hidden);
  require_ok(session.api.layer_encode(session.handle, 0, &view, state.data(), nullptr, &error), error);
  require_ok(session.api.layer_encode(session.handle, 1, &view, nullptr, state.data(), &error), error);
  require_ok(session.api.layer_encode(session.handle, 2, &view, state.data(), nullptr, &error), error);
  require_ok(session.api.lm_head(session.handle, nullptr, 40, outputs.data(), 1, &error), error);
  EXPECT_EQ(outputs[0].logits, whole);
}

TEST(Accuracy, TwoSessionsWithHalfTheLayersEachGiveTheBytesOfOne) {
  const LoadedModel loaded({.layers = 3});
  OpenDevice device(kPlugin);
  UploadedModel uploaded(device, loaded.model);
  OpenSession whole(uploaded, small_config());
  const std::vector<int32_t> tokens = some_tokens(20, kTinyTokens);
  const std::vector<float> expected = whole.logits(tokens, 0, blocks_in_order(2));

  UploadedModel front_model(device, loaded.model, {.layers = 1, .embedding = false, .head = false});
  UploadedModel back_model(device, loaded.model, {.first_layer = 1, .layers = 2, .embedding = false});
  OpenSession front(front_model, small_config()), back(back_model, small_config());
  TestBatch batch;
  batch.block_table = {blocks_in_order(2)};
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    batch.add(tokens[i], i);
    const std::vector<float> row = embedding_row(loaded.model, tokens[i]);
    batch.hidden.insert(batch.hidden.end(), row.begin(), row.end());
  }
  bonsai_batch view = batch.view();
  bonsai_error error = empty_error();
  std::vector<float> between(batch.hidden.size());
  require_ok(front.api.layer_encode(front.handle, 0, &view, batch.hidden.data(), between.data(), &error), error);
  batch.hidden = between;
  batch.tokens.clear();
  TestOutputs outputs(kTinyTokens, loaded.model.config.hidden);
  outputs.logits(19);
  back.forward(batch, outputs);
  EXPECT_EQ(outputs[0].logits, expected);
}

TEST(Accuracy, SeparateAndStackedCopiedAndBorrowedWeightsGiveTheSameBytes) {
  const LoadedModel loaded({.tied = false, .format = Format::kF16});
  const std::vector<int32_t> tokens = some_tokens(20, kTinyTokens);
  std::vector<std::vector<float>> results;
  for (const char *mapped : {"on", "off"}) {
    OpenDevice device(kPlugin, {{"cpu.mapped", mapped}});
    for (const bool stacked : {false, true}) {
      for (const bool borrowed : {false, true}) {
        UploadedModel uploaded(device, loaded.model, {.stacked = stacked, .borrowed = borrowed});
        // The embedding, which is not multiplied with, is borrowed wherever it may be.
        EXPECT_EQ(device.status().borrowed_bytes > 0, borrowed);
        EXPECT_EQ(device.status().weight_bytes == 0, borrowed && std::string_view(mapped) == "on");
        OpenSession session(uploaded, small_config());
        results.push_back(session.logits(tokens, 0, blocks_in_order(2)));
      }
    }
  }
  for (const auto &result : results) EXPECT_EQ(result, results[0]);
}

TEST(Accuracy, FloatsAreCopiedWhileAQuarterOfTheMemoryStaysFree) {
  const LoadedModel loaded({.tied = true, .format = Format::kF16});
  OpenDevice device(kPlugin);
  const bonsai_device_status before = device.status();
  ASSERT_GT(before.memory_total_bytes, 0u);
  const bool has_room = before.memory_free_bytes > before.memory_total_bytes / 4 + (uint64_t{1} << 30);
  const bool has_none = before.memory_free_bytes < before.memory_total_bytes / 4;
  if (!has_room && !has_none) GTEST_SKIP() << "too close to a quarter of the memory is free";
  UploadedModel uploaded(device, loaded.model, {.borrowed = true});
  EXPECT_EQ(device.status().borrowed_bytes == 0, has_room);
}

}  // namespace
}  // namespace bonsai::test
