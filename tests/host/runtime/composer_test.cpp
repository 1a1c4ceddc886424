// A backend that only multiplies matrices runs whole models: the template plugin under the host's composer, judged by
// core/reference (float activations).
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <string>
#include <tuple>

#include "host/runtime/composer.h"
#include "tests/host/runtime/rig.h"

namespace bonsai::test {
namespace {

constexpr double kFloatBound = 1e-4;
// Where a value lies on the border of two steps of an 8-bit KV cache, float32 and float64 may round it apart. That
// moves few tokens, and those by the effect of one step.
constexpr double kOneStepBound = 1e-3;

struct Shape {
  std::string name;
  TinyModel model;
};

std::vector<Shape> shapes() {
  std::vector<Shape> shapes;
  const auto add = [&](const std::string &name, auto change) {
    Shape shape{name, {}};
    change(shape.model);
    shapes.push_back(shape);
  };
  add("Tied", [](TinyModel &) {});
  add("Untied", [](TinyModel &m) { m.tied = false; });
  add("OneKvHead", [](TinyModel &m) { m.kv_heads = 1; });
  add("AsManyKvHeads", [](TinyModel &m) { m.kv_heads = 4; });
  add("WideHeads", [](TinyModel &m) { m.head_dim = 96; });
  add("Yarn", [](TinyModel &m) { m.yarn_factor = 4; });
  add("F32", [](TinyModel &m) { m.format = quant::Format::kF32; });
  add("MixedStack", [](TinyModel &m) {
    m.formats["attn_k"] = quant::Format::kF32;
    m.formats["ffn_up"] = quant::Format::kF32;
  });
  // The template takes neither: both become F32 on the way.
  add("Transcoded", [](TinyModel &m) {
    m.format = quant::Format::kF16;
    m.formats["ffn_down"] = quant::Format::kBF16;
  });
  // Not taken for a matrix, and decoded by the host as an embedding.
  add("EmbeddingOfAnotherFormat", [](TinyModel &m) {
    m.tied = false;
    m.formats["token_embd"] = quant::Format::kQ8_0;
  });
  return shapes;
}

class ComposerAgrees : public testing::TestWithParam<std::tuple<Shape, bonsai_kv_dtype>> {};

TEST_P(ComposerAgrees, WithTheReferenceTokenByToken) {
  const auto &[shape, kv] = GetParam();
  const Rig rig(shape.model, "template");
  const auto executor = rig.executor(kv, 1);
  EXPECT_EQ(executor->level(), 0);
  const auto tokens = random_tokens(40, shape.model.vocab, 3);
  const auto found = run_alone(*executor, tokens);
  const auto expected = reference_logits(rig.model(), kv, tokens);
  std::vector<double> errors;
  for (size_t i = 0; i < tokens.size(); ++i) errors.push_back(relative_error(found[i], expected[i]));
  std::sort(errors.begin(), errors.end());
  EXPECT_LE(errors[errors.size() / 2], kFloatBound);
  EXPECT_LE(errors.back(), kv == BONSAI_KV_Q8_0 ? kOneStepBound : kFloatBound);
}

INSTANTIATE_TEST_SUITE_P(Shapes, ComposerAgrees,
                         testing::Combine(testing::ValuesIn(shapes()), testing::ValuesIn(kAllKvTypes)),
                         [](const auto &info) {
                           return std::get<0>(info.param).name + kv_test_name(std::get<1>(info.param));
                         });

class ComposerBatches : public testing::Test {
 protected:
  TinyModel description;
  const Rig rig{description, "template"};
  const std::vector<int32_t> tokens = random_tokens(50, description.vocab, 11);
};

// Prompts of several sequences and single tokens of others in one batch, over shuffled blocks: nobody sees a neighbour.
TEST_F(ComposerBatches, ManySequencesInOneBatchEachGetTheBytesTheyGetAlone) {
  const auto executor = rig.executor(BONSAI_KV_F16, 3);
  std::vector<std::vector<int32_t>> sequences;
  std::vector<std::vector<std::vector<float>>> alone;
  for (uint32_t s = 0; s < 3; ++s) {
    sequences.push_back(random_tokens(50, description.vocab, 20 + s));
    alone.push_back(run_alone(*rig.executor(BONSAI_KV_F16, 1), sequences[s]));
  }
  BatchBuilder builder(3);
  const auto run_and_compare = [&](std::vector<std::pair<uint32_t, uint32_t>> rows) {
    for (const auto &[sequence, position] : rows) builder.add(sequence, position, sequences[sequence][position]);
    const auto logits = builder.run(*executor);
    for (size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(logits[i], alone[rows[i].first][rows[i].second]) << i;
  };
  std::vector<std::pair<uint32_t, uint32_t>> rows;
  for (uint32_t p = 0; p < 37; ++p) rows.push_back({1, p});
  run_and_compare(rows);
  rows.clear();
  for (uint32_t p = 0; p < 5; ++p) rows.push_back({0, p});
  rows.push_back({1, 37});
  for (uint32_t p = 0; p < 33; ++p) rows.push_back({2, p});
  run_and_compare(rows);
  run_and_compare({{2, 33}, {0, 5}, {1, 38}, {0, 6}, {2, 34}});  // a sequence in two places of the batch
}

TEST_F(ComposerBatches, OnlyTheAskedRowsAreAnswered) {
  const auto alone = run_alone(*rig.executor(BONSAI_KV_F16, 1), tokens);
  const auto executor = rig.executor(BONSAI_KV_F16, 1);
  BatchBuilder builder(1);
  for (uint32_t p = 0; p < tokens.size(); ++p) builder.add(0, p, tokens[p], p == 3 || p == 49);
  const auto logits = builder.run(*executor);
  ASSERT_EQ(logits.size(), 2u);
  EXPECT_EQ(logits[0], alone[3]);
  EXPECT_EQ(logits[1], alone[49]);
}

TEST_F(ComposerBatches, NoOutputsFillTheCacheOnly) {
  const auto alone = run_alone(*rig.executor(BONSAI_KV_F16, 1), tokens);
  const auto executor = rig.executor(BONSAI_KV_F16, 1);
  BatchBuilder builder(1);
  for (uint32_t p = 0; p < 49; ++p) builder.add(0, p, tokens[p], false);
  EXPECT_TRUE(builder.run(*executor).empty());
  builder.add(0, 49, tokens[49]);
  EXPECT_EQ(builder.run(*executor).front(), alone[49]);
}

// A rejected draft is rolled back by writing its positions again.
TEST_F(ComposerBatches, APositionThatIsWrittenAgainIsReplaced) {
  const auto alone = run_alone(*rig.executor(BONSAI_KV_F16, 1), tokens);
  const auto executor = rig.executor(BONSAI_KV_F16, 1);
  BatchBuilder builder(1);
  for (uint32_t p = 0; p < 20; ++p) builder.add(0, p, tokens[p], false);
  for (uint32_t p = 20; p < 30; ++p) builder.add(0, p, 1, false);
  builder.run(*executor);
  for (uint32_t p = 20; p < 26; ++p) builder.add(0, p, tokens[p]);
  const auto logits = builder.run(*executor);
  for (uint32_t i = 0; i < logits.size(); ++i) EXPECT_EQ(logits[i], alone[20 + i]) << i;
}

// A copied block carries all layers of K and V: the fork goes on as if it had computed them.
TEST_F(ComposerBatches, ACopiedBlockContinuesTheSequence) {
  const auto alone = run_alone(*rig.executor(BONSAI_KV_Q8_0, 1), tokens);
  const auto executor = rig.executor(BONSAI_KV_Q8_0, 2);
  BatchBuilder builder(2);
  for (uint32_t p = 0; p < 40; ++p) builder.add(0, p, tokens[p], false);
  builder.run(*executor);
  const std::vector<uint32_t> from = {builder.block(0, 0), builder.block(0, 1)};
  const std::vector<uint32_t> to = {builder.block(1, 0), builder.block(1, 1)};
  ASSERT_TRUE(executor->kv_copy(from, to));
  builder.add(1, 40, tokens[40]);
  EXPECT_EQ(builder.run(*executor).front(), alone[40]);
}

TEST_F(ComposerBatches, BytesDoNotDependOnTheCallersRounding) {
  const auto expected = run_alone(*rig.executor(BONSAI_KV_F16, 1), tokens);
  std::fesetround(FE_UPWARD);
  const auto found = run_alone(*rig.executor(BONSAI_KV_F16, 1), tokens);
  std::fesetround(FE_TONEAREST);
  EXPECT_EQ(found, expected);
}

TEST_F(ComposerBatches, MemoryCoversTheCache) {
  const auto one = rig.executor(BONSAI_KV_F32, 1)->memory_bytes(), two = rig.executor(BONSAI_KV_F32, 2)->memory_bytes();
  EXPECT_EQ(two - one, uint64_t{Rig::kContext} * 2 * description.layers * description.kv_heads * description.head_dim *
                           sizeof(float));
}

}  // namespace
}  // namespace bonsai::test
