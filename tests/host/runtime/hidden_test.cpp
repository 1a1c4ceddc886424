// Hidden states after the output norm, beside logits in one batch: at every level, and against the reference.
#include <gtest/gtest.h>

#include <stdexcept>

#include "core/reference/reference.h"
#include "tests/host/runtime/rig.h"

namespace bonsai::test {
namespace {

constexpr uint32_t kTokens = 41;

class Hidden : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(plugin("cpu"))) GTEST_SKIP() << "this build has no CPU backend";
  }
};

// Every token's hidden state, and logits of every third one, mixed.
std::vector<host::Output> run(host::Executor &executor, const std::vector<int32_t> &tokens) {
  BatchBuilder builder(1);
  std::vector<host::Output> outputs;
  for (uint32_t p = 0; p < tokens.size(); ++p) {
    builder.add(0, p, tokens[p], false);
    if (p % 3 == 0) outputs.push_back({.token = p, .logits = {}});
    outputs.push_back({.token = p, .logits = {}, .kind = host::OutputKind::kHidden});
  }
  const auto done = executor.forward(builder.batch(), outputs);
  if (!done) throw std::runtime_error(done.error().message);
  return outputs;
}

std::vector<std::vector<double>> reference_hidden(const model::Model &model, const std::vector<int32_t> &tokens) {
  reference::Evaluator evaluator(model, reference::KvType::kF32);
  std::vector<std::vector<double>> result;
  for (const int32_t token : tokens) {
    value_or_throw(evaluator.step(token));
    result.push_back(evaluator.last_hidden());
  }
  return result;
}

TEST_P(Hidden, StatesAreThoseOfTheReferenceAtEveryLevel) {
  TinyModel description;
  description.format = quant::Format::kF16;
  description.tied = GetParam();
  const Rig rig(description, "cpu");
  const auto tokens = random_tokens(kTokens, description.vocab, 3);
  const auto hidden = reference_hidden(rig.model(), tokens);
  const auto logits = reference_logits(rig.model(), BONSAI_KV_F32, tokens);
  for (int level = 0; level <= 2; ++level) {
    const auto executor = rig.executor(BONSAI_KV_F32, 1, level);
    for (const host::Output &output : run(*executor, tokens)) {
      const bool is_hidden = output.kind == host::OutputKind::kHidden;
      EXPECT_LE(relative_error(is_hidden ? output.hidden : output.logits, (is_hidden ? hidden : logits)[output.token]),
                1e-4)
          << "level " << level << ", token " << output.token << (is_hidden ? ", hidden" : ", logits");
      EXPECT_TRUE((is_hidden ? output.logits : output.hidden).empty());
    }
  }
}

TEST_P(Hidden, StatesAreTheSameBytesAtLevelsOneAndTwo) {
  TinyModel description;
  description.tied = GetParam();
  const Rig rig(description, "cpu");
  const auto tokens = random_tokens(kTokens, description.vocab, 4);
  const auto one = run(*rig.executor(BONSAI_KV_F16, 1, 1), tokens);
  const auto two = run(*rig.executor(BONSAI_KV_F16, 1, 2), tokens);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].hidden, two[i].hidden) << i;
    EXPECT_EQ(one[i].logits, two[i].logits) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Hidden, testing::Bool(), [](const auto &info) { return info.param ? "Tied" : "Untied"; });

}  // namespace
}  // namespace bonsai::test
