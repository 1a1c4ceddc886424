// Accuracy on a real model of this repository, with the kernels on the emulator: what a trained model says is close to
// what another program says.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/model/weights.h"
#include "tests/plugins/cuda/fake_driver/fake_support.h"
#include "tools/plugin-check/session.h"

namespace bonsai::test {
namespace {

// The 1-bit seedling on the plugin, over blocks that are not in order.
class CudaSeedling : public testing::Test {
 protected:
  static bonsai_session_config config(check::Context &context) {
    bonsai_session_config config = check::usual_config(context, BONSAI_KV_F16);
    config.max_tokens = 64;
    return config;
  }

  model::Model model = *model::load_model(BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf");
  check::Context context{{.path = BONSAI_CUDA_PLUGIN, .device = 0, .options = {}}};
  check::UploadedModel uploaded{context.device(), model};
  check::Session session{uploaded, config(context), check::Path::kForward};
};

// The logits of the last token, which alone is decoded after the others when `decodes`.
std::vector<float> last_logits(check::Session &session, const std::vector<int32_t> &tokens, bool decodes) {
  const std::vector<uint32_t> blocks = {7, 2, 11, 5};
  if (!decodes) return session.logits(tokens, 0, blocks).back();
  const auto last = static_cast<uint32_t>(tokens.size() - 1);
  session.logits({tokens.data(), last}, 0, blocks);
  return session.logits({tokens.data() + last, 1}, last, blocks).back();
}

double relative_error(const std::vector<float> &values, const std::vector<double> &expected) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (values[i] - expected[i]) * (values[i] - expected[i]);
    norm += expected[i] * expected[i];
  }
  return std::sqrt(difference / norm);
}

TEST_F(CudaSeedling, GoldenPromptsAgreeAndDecodeToTheSameBytes) {
  std::ifstream file(BONSAI_TEST_DATA "/seedling-golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  size_t n_decoded = 0;
  for (const auto &prompt : golden["prompts"]) {
    const auto tokens = prompt["tokens"].get<std::vector<int32_t>>();
    const std::vector<float> logits = last_logits(session, tokens, false);
    EXPECT_LE(relative_error(logits, prompt["logits"].get<std::vector<double>>()), 2e-2) << prompt["text"];
    if (tokens.size() < 2) continue;
    EXPECT_EQ(last_logits(session, tokens, true), logits) << prompt["text"];
    ++n_decoded;
  }
  EXPECT_GT(n_decoded, 0u);
}

// What docs/cuda-kernels.md says of a 1-bit model: stacked weights are one product with one launch in front of it, and
// attention prepares its heads; all that a pass brings to the device is one copy, and whole rows are all that is copied
// back.
constexpr uint64_t kLayers = 6,
                   kOthers = 4;  // the embedding, the norm of rows that have outputs, the head, what comes of it

TEST_F(CudaSeedling, AnotherTokenIsNineKernelsALayerBetweenTwoCopies) {
  const std::vector<uint32_t> blocks = {7, 2, 11, 5};
  session.logits({{1, 2, 3}}, 0, blocks);
  fake::control().reset();
  session.logits({{4}}, 3, blocks);
  EXPECT_EQ(fake::control().kernels(), 9 * kLayers + kOthers);
  EXPECT_EQ(fake::control().work() - fake::control().kernels(), 2u);
}

// Two passes in flight, recorded ones among them: each leaves what it chose where its own caller looks.
TEST_F(CudaSeedling, AChosenTokenComesWithoutACopy) {
  constexpr uint32_t kPasses = 8, kFirst = 3;
  const std::vector<uint32_t> blocks = {7, 2, 11, 5};
  session.logits({{1, 2, 3}}, 0, blocks);
  std::deque<check::Outputs> chosen;
  std::deque<check::Batch> batches;
  std::vector<int32_t> tokens;
  for (uint32_t i = 0; i < kPasses; ++i) {
    tokens.push_back(static_cast<int32_t>(20 + 31 * i));
    batches.emplace_back().block_table = {blocks};
    batches.back().add(tokens.back(), kFirst + i);
    chosen.emplace_back(model.config.vocab, model.config.hidden).argmax(0);
  }
  fake::control().reset();
  std::vector<uint64_t> tickets = {session.submit(batches[0], chosen[0])};
  for (uint32_t i = 0; i < kPasses; ++i) {
    if (i + 1 < kPasses) tickets.push_back(session.submit(batches[i + 1], chosen[i + 1]));
    session.wait(tickets[i]);
  }
  EXPECT_GT(fake::control().alive().graph_execs, 0u);
  EXPECT_EQ(fake::control().work() - fake::control().kernels(), kPasses);  // a copy to the device each
  const std::vector<std::vector<float>> logits = session.logits(tokens, kFirst, blocks);
  std::set<int32_t> different;
  for (uint32_t i = 0; i < kPasses; ++i) {
    const auto largest = std::ranges::max_element(logits[i]);
    EXPECT_EQ(chosen[i][0].top_ids, std::vector{static_cast<int32_t>(largest - logits[i].begin())}) << i;
    EXPECT_EQ(chosen[i][0].top_logits, std::vector{*largest}) << i;
    different.insert(chosen[i][0].top_ids[0]);
  }
  EXPECT_GT(different.size(), 2u);
}

}  // namespace
}  // namespace bonsai::test
