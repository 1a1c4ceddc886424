// The CPU backend at all three levels: the host's composer, layer by layer, and whole batches.
#include <gtest/gtest.h>

#include <tuple>

#include "tests/host/runtime/rig.h"

namespace bonsai::test {
namespace {

// With 8-bit activations the logits of a random model differ by some 2 to 4 % whoever computes them (its
// layers are narrow, and nothing taught it to be robust); there the divergence of the predictions is the judge.
constexpr double kFloatBound = 1e-4;
constexpr double kMeanDivergenceBound = 1e-3;

class Levels : public testing::TestWithParam<std::tuple<quant::Format, bonsai_kv_dtype, bool>> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(plugin("cpu"))) GTEST_SKIP() << "this build has no CPU backend";
  }

  // Prompt chunks and single tokens of three sequences, all rows asked for.
  static std::vector<std::vector<float>> run(host::Executor &executor, uint32_t vocab) {
    BatchBuilder builder(3);
    std::vector<std::vector<float>> all;
    const std::vector<std::vector<std::tuple<uint32_t, uint32_t, uint32_t>>> batches = {
        {{0, 0, 33}}, {{1, 0, 7}, {0, 33, 34}, {2, 0, 20}}, {{2, 20, 21}, {1, 7, 8}, {0, 34, 35}}};
    for (const auto &batch : batches) {
      for (const auto &[sequence, begin, end] : batch) {
        const auto tokens = random_tokens(end, vocab, sequence);
        for (uint32_t p = begin; p < end; ++p) builder.add(sequence, p, tokens[p]);
      }
      for (auto &logits : builder.run(executor)) all.push_back(std::move(logits));
    }
    return all;
  }
};

TEST_P(Levels, OneAndTwoGiveTheSameBytesAndAllAgreeWithTheReference) {
  const auto &[format, kv, tied] = GetParam();
  TinyModel description;
  description.format = format;
  description.tied = tied;
  const Rig rig(description, "cpu");
  std::vector<std::vector<std::vector<float>>> logits;
  for (int level = 0; level <= 2; ++level) {
    const auto executor = rig.executor(kv, 3, level);
    EXPECT_EQ(executor->level(), level);
    EXPECT_GT(executor->memory_bytes(), 0u);
    logits.push_back(run(*executor, description.vocab));
  }
  EXPECT_EQ(logits[1], logits[2]);

  const auto expected = reference_logits(rig.model(), kv, random_tokens(33, description.vocab, 0));
  for (int level = 0; level <= 2; ++level) {
    double kl = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      kl += divergence(logits[level][i], expected[i]) / static_cast<double>(expected.size());
      if (format == quant::Format::kF16) {
        EXPECT_LE(relative_error(logits[level][i], expected[i]), kFloatBound) << "level " << level << ", token " << i;
      }
    }
    EXPECT_LE(kl, kMeanDivergenceBound) << "level " << level;
  }
}

// Copies through the backend's own function.
TEST_P(Levels, ACopiedBlockContinuesTheSequence) {
  const auto &[format, kv, tied] = GetParam();
  TinyModel description;
  description.format = format;
  description.tied = tied;
  const Rig rig(description, "cpu");
  const auto tokens = random_tokens(41, description.vocab, 5);
  const auto executor = rig.executor(kv, 2, 2);
  BatchBuilder builder(2);
  for (uint32_t p = 0; p < 40; ++p) builder.add(0, p, tokens[p], false);
  builder.run(*executor);
  const std::vector<uint32_t> from = {builder.block(0, 0), builder.block(0, 1)};
  const std::vector<uint32_t> to = {builder.block(1, 0), builder.block(1, 1)};
  const auto copied = executor->kv_copy(from, to);
  ASSERT_TRUE(copied) << copied.error().message;
  builder.add(0, 40, tokens[40]);
  builder.add(1, 40, tokens[40]);
  const auto logits = builder.run(*executor);
  EXPECT_EQ(logits[0], logits[1]);
}

INSTANTIATE_TEST_SUITE_P(Cpu, Levels,
                         testing::Combine(testing::Values(quant::Format::kQ1_0_G128, quant::Format::kTQ2_0_G128,
                                                          quant::Format::kQ8_0, quant::Format::kF16),
                                          testing::ValuesIn(kAllKvTypes), testing::Bool()),
                         [](const auto &info) {
                           return std::string(quant::traits(std::get<0>(info.param)).name) +
                                  kv_test_name(std::get<1>(info.param)) + (std::get<2>(info.param) ? "Tied" : "Untied");
                         });

class SessionErrors : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(plugin("cpu"))) GTEST_SKIP() << "this build has no CPU backend";
  }
};

// The failing backend takes no larger k, as the ABI allows.
TEST(SessionSizes, AskForNoLargerKThanTheVocabulary) {
  const Rig rig(TinyModel{}, "failing");
  ASSERT_LT(rig.model().config.vocab, 1024u);
  EXPECT_EQ(rig.executor(BONSAI_KV_F16, 1)->level(), 2);
}

TEST_F(SessionErrors, ABlockSizeThatIsNotOfferedNamesThoseThatAre) {
  const Rig rig(TinyModel{}, "cpu");
  host::ExecutorConfig config;
  config.context = config.n_blocks = config.max_blocks_per_sequence = 16;
  config.block_size = 7;
  const auto executor = host::make_executor(rig.device_model(), config, 2);
  ASSERT_FALSE(executor);
  EXPECT_EQ(executor.error().status, bonsai_status{BONSAI_UNSUPPORTED});
  EXPECT_TRUE(executor.error().message.starts_with("cpu: no KV blocks of 7 tokens; it offers: 32"))
      << executor.error().message;
  config.block_size = 32;
  config.kv_dtype = 9;
  EXPECT_EQ(host::make_executor(rig.device_model(), config, 2).error().message,
            "cpu: no KV dtype 9 KV cache; it offers: f16, q8_0, f32");
}

}  // namespace
}  // namespace bonsai::test
