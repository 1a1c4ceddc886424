// A pass that verifies proposals leaves the session, to the last bit, where passes over one token each would have.
#include <gtest/gtest.h>

#include <random>

#include "host/engine/session_state.h"
#include "tests/host/engine/seedling.h"

namespace bonsai::host {
namespace {

using Tokens = std::vector<int32_t>;

struct Case {
  std::string model, backend;
  KvType kv;
};

class Verification : public testing::TestWithParam<Case> {
 protected:
  static EngineOptions options() {
    EngineOptions options;
    options.model = BONSAI_BINARY_DIR "/share/bonsai/" + GetParam().model + ".gguf";
    options.backend = GetParam().backend;
    options.backend_strict = true;
    options.kv = GetParam().kv;
    options.context = 96;
    return options;
  }
};

void append_and_compute(SessionState &session, int32_t token, std::span<const int32_t> proposals = {}) {
  session.append_tokens({&token, 1});
  ASSERT_TRUE(session.compute({}, proposals));
}

void expect_equal_logits(SessionState &a, SessionState &b) {
  ASSERT_EQ(Tokens(a.tokens().begin(), a.tokens().end()), Tokens(b.tokens().begin(), b.tokens().end()));
  ASSERT_EQ(a.row().logits, b.row().logits);
}

// Some proposals are what comes, some begin so, some are wrong altogether.
TEST_P(Verification, RightAndWrongProposalsLeaveTheSameLogits) {
  const auto engine = EngineState::load(options());
  std::mt19937 random(5);
  SessionState plain(engine), verified(engine);
  const auto any_token = [&] { return static_cast<int32_t>(random() % engine->model.config.vocab); };
  Tokens text(90);
  for (int32_t &token : text) token = any_token();
  for (size_t i = 0; i < text.size(); ++i) {
    append_and_compute(plain, text[i]);
    const size_t most = std::min<size_t>(15, text.size() - i - 1);
    Tokens proposals(text.begin() + static_cast<long>(i) + 1,
                     text.begin() + static_cast<long>(i + 1 + random() % (most + 1)));
    if (!proposals.empty() && random() % 2 == 0) proposals[random() % proposals.size()] = any_token();
    append_and_compute(verified, text[i], proposals);
    ASSERT_NO_FATAL_FAILURE(expect_equal_logits(plain, verified)) << i;
  }
}

TEST_P(Verification, TokensThatWereProposedCostNoPass) {
  const auto engine = EngineState::load(options());
  SessionState session(engine);
  append_and_compute(session, 4093, Tokens{7, 8, 9});
  session.append_tokens(Tokens{7});
  EXPECT_TRUE(session.is_ahead());
  session.compute();
  session.append_tokens(Tokens{9});
  EXPECT_FALSE(session.is_ahead());
  session.compute();
  session.append_tokens(Tokens{9});
  EXPECT_FALSE(session.is_ahead()) << "behind a token that was not proposed the others say nothing";
}

TEST_P(Verification, TruncatingForgetsWhatWasComputedAhead) {
  const auto engine = EngineState::load(options());
  SessionState plain(engine), verified(engine);
  for (SessionState *session : {&plain, &verified}) {
    session->append_tokens(Tokens{4093, 1, 2, 3});
    session->compute({}, session == &verified ? Tokens{4, 5} : Tokens());
    session->truncate(2);
    session->append_tokens(Tokens{4});
    EXPECT_FALSE(session->is_ahead());
    session->compute();
  }
  expect_equal_logits(plain, verified);
}

std::string name_of(const testing::TestParamInfo<Case> &info) {
  const std::string backend = info.param.backend == "cpu" ? "cpu" : "template";
  return info.param.model.substr(9) + "_" + backend + "_kv" + std::to_string(static_cast<int>(info.param.kv));
}

const std::string kTemplate = BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so";
INSTANTIATE_TEST_SUITE_P(Seedlings, Verification,
                         testing::Values(Case{"seedling-q1_0", "cpu", KvType::kF16},
                                         Case{"seedling-q1_0", "cpu", KvType::kQ8_0},
                                         Case{"seedling-tq2_0", "cpu", KvType::kF16},
                                         Case{"seedling-tq2_0", "cpu", KvType::kF32},
                                         Case{"seedling-q1_0", kTemplate, KvType::kF16}),
                         name_of);

}  // namespace
}  // namespace bonsai::host
