// Bytes and operations of a pass, against numbers worked out by hand.
#include "host/bench/work.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/model/tiny_model.h"

namespace bonsai::bench {
namespace {

using quant::Format;
using test::TinyModel;

model::Model load(const TinyModel &description) {
  const test::TinyModelFile file(description);
  auto model = model::load_model(file.path());
  EXPECT_TRUE(model) << (model ? "" : model.error().message);
  return *std::move(model);
}

// The tiny model of the tests: hidden 128, ffn 256, 4 heads and 2 kv heads of 32, 272 tokens, 2 layers.
//   one layer's matrices have 128 columns: q 128 rows, k and v 64 each, o 128, gate and up 256 each; down has 128 rows
//   of 256 columns, which are as many blocks as 256 rows of 128: 1,152 rows of 128 in all
//   its norms are F32: 128, 128, 32 and 32 numbers, 1,280 bytes; the output norm has 512
constexpr uint64_t kLayerRows = 1152, kLayerNorms = 1280, kOutputNorm = 512, kVocab = 272;
constexpr uint64_t kOneBitRow = 18, kTwoBitRow = 34, kHalfRow = 256;

TEST(WeightBytes, ATiedHeadCountsOnceWithItsEmbedding) {
  const model::Model model = load({});
  EXPECT_EQ(weight_bytes_per_token(model),
            2 * (kLayerRows * kOneBitRow + kLayerNorms) + kOutputNorm + kVocab * kOneBitRow);
  EXPECT_EQ(weight_bytes_per_token(model), 49440u);
}

TEST(WeightBytes, AnUntiedEmbeddingCountsOneRow) {
  TinyModel description;
  description.tied = false;
  description.formats = {{"token_embd", Format::kF16}};
  EXPECT_EQ(weight_bytes_per_token(load(description)), 49440u + kHalfRow);
}

TEST(WeightBytes, EveryTensorCountsInItsOwnFormat) {
  TinyModel description;
  description.formats = {{"ffn_down", Format::kTQ2_0_G128}, {"token_embd", Format::kF16}};
  const uint64_t down_rows = 256;
  EXPECT_EQ(weight_bytes_per_token(load(description)),
            49440u + 2 * down_rows * (kTwoBitRow - kOneBitRow) + kVocab * (kHalfRow - kOneBitRow));
}

TEST(KvBytes, AreKeysAndValuesOfAllKvHeadsAndLayersInTheCachesType) {
  const model::Model model = load({});
  EXPECT_EQ(kv_bytes_per_position(model.config, KvType::kF16), 2u * 2 * 2 * 64);
  EXPECT_EQ(kv_bytes_per_position(model.config, KvType::kQ8_0), 2u * 2 * 2 * 34);
  EXPECT_EQ(kv_bytes_per_position(model.config, KvType::kF32), 2u * 2 * 2 * 128);
}

TEST(DecodeWork, ReadsTheWeightsAndEveryPositionForEachToken) {
  const model::Model model = load({});
  EXPECT_EQ(decode_work(model, KvType::kF16, 0, 1).bytes, 49440u + 512);
  EXPECT_EQ(decode_work(model, KvType::kF16, 100, 1).bytes, 49440u + 101 * 512);
  EXPECT_EQ(decode_work(model, KvType::kF16, 100, 3).bytes, 3 * 49440u + (101 + 102 + 103) * 512);
  EXPECT_EQ(decode_work(model, KvType::kQ8_0, 100, 1).bytes, 49440u + 101 * 272);
}

TEST(DecodeWork, ComputesTwoOperationsAWeightAndFourAnElementOfAttention) {
  const model::Model model = load({});
  const uint64_t products = 2 * (2 * kLayerRows + kVocab) * 128, position = 2 * 4 * 4 * 32;
  EXPECT_EQ(decode_work(model, KvType::kF16, 0, 1).operations, products + position);
  EXPECT_EQ(decode_work(model, KvType::kF16, 9, 2).operations, 2 * products + (10 + 11) * position);
}

TEST(PrefillWork, ReadsWeightsAndPositionsOnceAndComputesOneRowOfLogits) {
  const model::Model model = load({});
  EXPECT_EQ(prefill_work(model, KvType::kF16, 100).bytes, 49440u + 100 * 512);
  const uint64_t layers = 2 * 2 * kLayerRows * 128, head = 2 * kVocab * 128, position = 2 * 4 * 4 * 32;
  EXPECT_EQ(prefill_work(model, KvType::kF16, 100).operations, 100 * layers + head + 100 * 101 / 2 * position);
  EXPECT_EQ(prefill_work(model, KvType::kF16, 1).operations, decode_work(model, KvType::kF16, 0, 1).operations);
  EXPECT_EQ(prefill_work(model, KvType::kF16, 1).bytes, decode_work(model, KvType::kF16, 0, 1).bytes);
}

TEST(MatrixWork, OfIntegerCodesIsInt8AndTheHeadCountsOnce) {
  const model::Model model = load({});
  const MatrixWork work = prefill_matrix_work(model, 100);
  EXPECT_EQ(work.int8, 100 * 2 * 2 * kLayerRows * 128 + 2 * kVocab * 128);
  EXPECT_EQ(work.fma, 0u);
  EXPECT_EQ(work.operations(), work.int8);
}

TEST(MatrixWork, GoesByEachMatrixsFormat) {
  TinyModel description;
  description.formats = {{"ffn_down", Format::kF16},
                         {"attn_k", Format::kF8_E4M3},
                         {"attn_v", Format::kQ8_0},
                         {"token_embd", Format::kF32}};
  const MatrixWork work = prefill_matrix_work(load(description), 10);
  const uint64_t down_rows = 256, k_rows = 64;
  EXPECT_EQ(work.fma, 10 * 2 * 2 * (down_rows + k_rows) * 128 + 2 * kVocab * 128);
  EXPECT_EQ(work.int8, 10 * 2 * 2 * (kLayerRows - down_rows - k_rows) * 128);
}

TEST(MatrixWork, EveryFormatIsEitherIntegerCodesOrFloats) {
  const std::set<Format> floats = {Format::kF32, Format::kF16, Format::kBF16, Format::kF8_E4M3, Format::kF8_E5M2};
  for (const quant::FormatTraits &traits : quant::formats())
    EXPECT_EQ(arithmetic_of(traits.format), floats.count(traits.format) ? Arithmetic::kFma : Arithmetic::kInt8)
        << traits.name;
}

// 300 operations at 100 a second and 100 at 50 take 5 seconds.
TEST(PeakOf, AMixGivesEachOperationItsOwnTime) {
  EXPECT_DOUBLE_EQ(peak_of({.int8 = 300, .fma = 100}, 100, 50), 80);
  EXPECT_DOUBLE_EQ(peak_of({.int8 = 300, .fma = 0}, 100, 50), 100);
  EXPECT_DOUBLE_EQ(peak_of({.int8 = 0, .fma = 7}, 100, 50), 50);
}

}  // namespace
}  // namespace bonsai::bench
