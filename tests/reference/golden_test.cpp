// The judge against values computed outside this project: tests/data/seedling-golden.json over
// models/seedling-q1_0.gguf.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/reference/reference.h"

namespace bonsai::reference {
namespace {

using Tokens = std::vector<int32_t>;

class Golden : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream stream(BONSAI_TEST_DATA "/seedling-golden.json");
    ASSERT_TRUE(stream);
    golden_ = nlohmann::json::parse(stream);
    auto model = model::load_model(BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf");
    ASSERT_TRUE(model) << model.error().message;
    model_ = std::move(*model);
  }

  nlohmann::json golden_;
  model::Model model_;
};

int32_t argmax(const std::vector<double> &logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double log_sum_exp(const std::vector<double> &logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

TEST_F(Golden, LogitsOfEveryPrompt) {
  ASSERT_FALSE(golden_["prompts"].empty());
  for (const auto &prompt : golden_["prompts"]) {
    Evaluator evaluator(model_, KvType::kF64);
    auto logits = evaluator.run(prompt["tokens"].get<Tokens>());
    ASSERT_TRUE(logits) << logits.error().message;
    const auto expected = prompt["logits"].get<std::vector<double>>();
    ASSERT_EQ(logits->size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      // The file holds seven significant digits.
      EXPECT_NEAR((*logits)[i], expected[i], 1e-5 * std::max(1.0, std::fabs(expected[i])))
          << prompt["text"] << ' ' << i;
    }
  }
}

TEST_F(Golden, GreedyContinuation) {
  const auto tokens = golden_["greedy"]["tokens"].get<Tokens>();
  const auto prompt = golden_["prompts"][0]["tokens"].get<Tokens>();
  ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), tokens.begin()));
  Evaluator evaluator(model_, KvType::kF64);
  auto logits = evaluator.run(prompt);
  for (size_t i = prompt.size(); i < tokens.size(); ++i) {
    ASSERT_TRUE(logits) << logits.error().message;
    ASSERT_EQ(argmax(*logits), tokens[i]) << "token " << i;
    logits = evaluator.step(tokens[i]);
  }
}

TEST_F(Golden, Perplexity) {
  const auto &golden = golden_["perplexity"];
  const auto tokens = golden["tokens"].get<Tokens>();
  const auto window = golden["window"].get<size_t>();
  Evaluator evaluator(model_, KvType::kF64);
  double nll = 0;
  size_t predicted = 0;
  for (size_t begin = 0; begin + 1 < tokens.size(); begin += window) {
    evaluator.truncate(0);
    const size_t n = std::min(window, tokens.size() - 1 - begin);
    const auto logits = evaluator.steps(std::span(tokens).subspan(begin, n));
    ASSERT_TRUE(logits) << logits.error().message;
    for (size_t i = 0; i < n; ++i) nll += log_sum_exp((*logits)[i]) - (*logits)[i][tokens[begin + i + 1]];
    predicted += n;
  }
  const double perplexity = std::exp(nll / predicted);
  EXPECT_NEAR(perplexity / golden["value"].get<double>(), 1, 1e-4) << perplexity;
}

}  // namespace
}  // namespace bonsai::reference
