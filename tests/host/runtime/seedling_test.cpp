// The seedling, a real 1-bit model, through a backend of under 200 lines: against logits and a greedy continuation that
// were computed outside this project.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/host/runtime/rig.h"

namespace bonsai::test {
namespace {

class SeedlingOnTheTemplate : public testing::Test {
 protected:
  SeedlingOnTheTemplate() : rig(BONSAI_SOURCE_DIR "/models/seedling-q1_0.gguf", "template") {
    std::ifstream(BONSAI_TEST_DATA "/seedling-golden.json") >> golden;
  }

  Rig rig;
  nlohmann::json golden;
};

TEST_F(SeedlingOnTheTemplate, LogitsAreThoseOfTheGoldenFile) {
  for (const auto &prompt : golden["prompts"]) {
    const auto executor = rig.executor(BONSAI_KV_F32, 1);
    BatchBuilder builder(1);
    const auto tokens = prompt["tokens"].get<std::vector<int32_t>>();
    for (uint32_t p = 0; p < tokens.size(); ++p) builder.add(0, p, tokens[p], p + 1 == tokens.size());
    EXPECT_LE(relative_error(builder.run(*executor).front(), prompt["logits"].get<std::vector<double>>()), 1e-4)
        << prompt["text"];
  }
}

TEST_F(SeedlingOnTheTemplate, GreedyContinuationIsTheGoldenOne) {
  const auto expected = golden["greedy"]["tokens"].get<std::vector<int32_t>>();
  const auto n_prompt = golden["prompts"][0]["tokens"].size();
  std::vector<int32_t> tokens(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(n_prompt));
  const auto executor = rig.executor(BONSAI_KV_F32, 1);
  BatchBuilder builder(1);
  for (uint32_t p = 0; p < n_prompt; ++p) builder.add(0, p, tokens[p], p + 1 == n_prompt);
  while (tokens.size() < expected.size()) {
    const auto logits = builder.run(*executor).front();
    const auto next = static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    builder.add(0, static_cast<uint32_t>(tokens.size()), next);
    tokens.push_back(next);
  }
  EXPECT_EQ(tokens, expected);
}

}  // namespace
}  // namespace bonsai::test
