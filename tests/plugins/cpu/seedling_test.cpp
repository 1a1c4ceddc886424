// DESIGN §7 on the real models of this repository, 1-bit and ternary: an 8-bit-activation path stays close to the
// float64 judge.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/quant/format.h"
#include "core/reference/reference.h"
#include "core/text/tokenizer.h"
#include "tests/plugins/cpu/backend_support.h"

namespace bonsai::test {
namespace {

constexpr uint32_t kWindow = 256;

class SeedlingTest : public testing::Test {
 protected:
  explicit SeedlingTest(const std::string &format)
      : model(*model::load_model(BONSAI_SOURCE_DIR "/models/seedling-" + format + ".gguf")) {
    std::ifstream file(BONSAI_TEST_DATA "/seedling-golden.json");
    golden = nlohmann::json::parse(file);
  }
  static bonsai_session_config config() {
    bonsai_session_config config = small_config();
    config.max_tokens = config.max_outputs = kWindow;
    return config;
  }

  model::Model model;
  OpenDevice device{kPlugin};
  UploadedModel uploaded{device, model};
  OpenSession session{uploaded, config()};
  nlohmann::json golden;
};

class OneBitSeedling : public SeedlingTest {
 protected:
  OneBitSeedling() : SeedlingTest("q1_0") {}
};

class Seedling : public SeedlingTest, public testing::WithParamInterface<const char *> {
 protected:
  Seedling() : SeedlingTest(GetParam()) {}
};

TEST_F(OneBitSeedling, GoldenPromptsAgree) {
  for (const auto &prompt : golden["prompts"]) {
    const std::vector<float> logits =
        session.logits(prompt["tokens"].get<std::vector<int32_t>>(), 0, shuffled_blocks(16));
    const auto expected = prompt["logits"].get<std::vector<double>>();
    double difference = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      difference += (logits[i] - expected[i]) * (logits[i] - expected[i]);
      norm += expected[i] * expected[i];
    }
    EXPECT_LE(std::sqrt(difference / norm), 2e-2) << prompt["text"];
  }
}

std::vector<double> log_softmax(const auto &logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  std::vector<double> result(logits.begin(), logits.end());
  for (double &value : result) value -= largest + std::log(sum);
  return result;
}

// KL(judge || backend) of one prediction, in nats.
double divergence(const std::vector<double> &judge, const std::vector<float> &backend) {
  const std::vector<double> p = log_softmax(judge), q = log_softmax(backend);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) sum += std::exp(p[i]) * (p[i] - q[i]);
  return sum;
}

// The largest logit's index and its lead over the second.
std::pair<size_t, double> leader(const std::vector<double> &logits) {
  size_t first = 0;
  double second = -INFINITY;
  for (size_t i = 1; i < logits.size(); ++i) {
    if (logits[i] > logits[first]) {
      second = logits[first];
      first = i;
    } else {
      second = std::max(second, logits[i]);
    }
  }
  return {first, logits[first] - second};
}

// Logits of every position of a window, from an empty cache.
std::vector<std::vector<float>> window_logits(OpenSession &session, std::span<const int32_t> tokens) {
  TestBatch batch;
  batch.block_table = {shuffled_blocks(16)};
  TestOutputs outputs(session.model.spec.vocab, session.model.spec.hidden);
  for (uint32_t i = 0; i < tokens.size(); ++i) {
    batch.add(tokens[i], i);
    outputs.logits(i);
  }
  session.forward(batch, outputs);
  std::vector<std::vector<float>> logits;
  for (uint32_t i = 0; i < tokens.size(); ++i) logits.push_back(outputs[i].logits);
  return logits;
}

// What DESIGN §7 asks of an 8-bit-activation path over 2,000 tokens, in windows of 256.
TEST_P(Seedling, TwoThousandPredictionsAgreeWithTheJudge) {
  auto data = text::read_tokenizer(*model.file);
  ASSERT_TRUE(data.has_value());
  const auto tokenizer = text::Tokenizer::create(std::move(*data));
  ASSERT_TRUE(tokenizer.has_value());
  const auto tokens = tokenizer->encode(golden["perplexity"]["text"].get<std::string>(), text::SpecialTokens::kPlain);
  ASSERT_TRUE(tokens.has_value());
  ASSERT_GE(tokens->size(), 8 * kWindow);

  double total_divergence = 0;
  uint32_t predictions = 0, agreements = 0;
  for (size_t begin = 0; begin < 8 * kWindow; begin += kWindow) {
    const std::span<const int32_t> window(tokens->data() + begin, kWindow);
    const auto logits = window_logits(session, window);
    reference::Evaluator judge(model, reference::KvType::kF16);
    for (size_t i = 0; i < kWindow; ++i) {
      const std::vector<double> expected = *judge.step(window[i]);
      const auto [first, lead] = leader(expected);
      const auto found = std::max_element(logits[i].begin(), logits[i].end()) - logits[i].begin();
      const bool agrees = static_cast<size_t>(found) == first;
      EXPECT_TRUE(agrees || lead <= 0.5) << "token " << begin + i << ": the judge's lead is " << lead;
      agreements += agrees;
      total_divergence += divergence(expected, logits[i]);
      ++predictions;
    }
  }
  EXPECT_LE(total_divergence / predictions, 1e-3);
  EXPECT_GE(agreements, predictions * 0.99);
  RecordProperty("mean_divergence", std::to_string(total_divergence / predictions));
  RecordProperty("agreements", static_cast<int>(agreements));
}

INSTANTIATE_TEST_SUITE_P(Models, Seedling, testing::Values("q1_0", "tq2_0"),
                         [](const auto &info) { return std::string(info.param); });

}  // namespace
}  // namespace bonsai::test
