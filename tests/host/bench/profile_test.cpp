// Where the time went: every second once, whoever tells it.
#include "host/bench/profile.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "host/bench/measure.h"

namespace bonsai::bench {
namespace {

Engine load(const std::string &backend, std::vector<std::pair<std::string, std::string>> backend_options = {}) {
  EngineOptions options;
  options.model = BONSAI_BINARY_DIR "/share/bonsai/seedling-q1_0.gguf";
  options.backend = BONSAI_BINARY_DIR "/" + backend;
  options.backend_strict = true;
  options.backend_options = std::move(backend_options);
  options.context = 64;
  return Engine::load(options);
}
Engine load_cpu() { return load("lib/bonsai/libbonsai_cpu.so"); }

double sum_of_seconds(const Profile &profile) {
  double seconds = 0;
  for (const ProfilePhase &phase : profile.phases) {
    EXPECT_GE(phase.seconds, 0) << phase.name;
    seconds += phase.seconds;
  }
  return seconds;
}

std::vector<std::string> names(const Profile &profile) {
  std::vector<std::string> result;
  for (const ProfilePhase &phase : profile.phases) result.push_back(phase.name);
  return result;
}
using Names = std::vector<std::string>;

const Names kForwardPass = {"embedding", "norm",   "qkv",  "rope",     "attention", "o",
                            "gate_up",   "swiglu", "down", "residual", "head",      "selection"};

TEST(MakeProfile, GivesWhatNobodyMeasuredToTheHost) {
  const Profile profile = make_profile(10, {{{"qkv", 2, 3, 5}}});
  EXPECT_EQ(names(profile), (Names{"qkv", "host"}));
  EXPECT_DOUBLE_EQ(profile.phases[1].seconds, 8);
}

TEST(MakeProfile, CallsTheRestTheForwardPassWhereTheBackendTellsNothing) {
  const Profile profile = make_profile(10, std::nullopt);
  EXPECT_EQ(names(profile), (Names{"forward"}));
  EXPECT_DOUBLE_EQ(profile.phases[0].seconds, 10);
}

TEST(MakeProfile, ClocksThatDisagreeLeaveNothingNegative) {
  EXPECT_EQ(make_profile(1, {{{"qkv", 2, 3, 5}}}).phases.back().seconds, 0);
}

TEST(CpuProfile, CoversEveryStepOfTheForwardPass) {
  const Engine engine = load_cpu();
  Runner runner(engine);
  Names expected = kForwardPass;
  expected.push_back("host");
  const Profile prefill = runner.profile_prefill(32);
  EXPECT_EQ(names(prefill), expected);
  EXPECT_LE(sum_of_seconds(prefill), prefill.seconds * (1 + 1e-9));
  const Profile decode = runner.profile_decode(8, 4);
  EXPECT_EQ(names(decode), expected);
  EXPECT_LE(sum_of_seconds(decode), decode.seconds * (1 + 1e-9));
}

TEST(CpuProfile, CountsCallsAndBytesOfTheMeasuredTokensOnly) {
  const Engine engine = load_cpu();
  Runner runner(engine);
  std::map<std::string, ProfilePhase> phases;
  for (const ProfilePhase &phase : runner.profile_decode(10, 2).phases) phases[phase.name] = phase;
  EXPECT_EQ(phases["embedding"].calls, 2u);
  EXPECT_EQ(phases["head"].calls, 2u);
  EXPECT_EQ(phases["selection"].calls, 2u);
  const uint64_t layers = phases["qkv"].calls / 2;
  EXPECT_GT(layers, 0u);
  for (const char *once : {"rope", "attention", "o", "gate_up", "swiglu", "down"})
    EXPECT_EQ(phases[once].calls, 2 * layers) << once;
  EXPECT_EQ(phases["norm"].calls, 4 * layers + 2) << "and before the head";
  EXPECT_EQ(phases["residual"].calls, 4 * layers);
  EXPECT_EQ(phases["gate_up"].bytes, 2 * phases["down"].bytes);
  EXPECT_EQ(phases["attention"].bytes % (11 + 12), 0u) << "positions of the first and of the second token";
  EXPECT_EQ(phases["norm"].bytes, 0u);
}

TEST(CpuProfile, IsForgottenWhenItStartsAgainAndOffWhenItStopped) {
  const Engine engine = load_cpu();
  Runner runner(engine);
  ASSERT_TRUE(engine.start_profile());
  runner.prefill(4);
  ASSERT_TRUE(engine.start_profile());
  EXPECT_TRUE(engine.stop_profile().empty());
  runner.prefill(4);
  EXPECT_TRUE(engine.stop_profile().empty());
}

// The wrappers around the CPU backend that offer less of its table.
TEST(CpuProfile, TellsOfLayersWhereTheHostLooksEmbeddingsUp) {
  const Engine engine = load("tests/backends/libbonsai_failing_layers.so");
  Names expected(kForwardPass.begin() + 1, kForwardPass.end());
  expected.push_back("host");
  EXPECT_EQ(names(Runner(engine).profile_decode(8, 4)), expected);
}

TEST(CpuProfile, TellsOfMatrixProductsWhereTheHostComposesTheModel) {
  const Engine engine = load("tests/backends/libbonsai_failing_gemv.so");
  const Profile decode = Runner(engine).profile_decode(8, 4);
  EXPECT_EQ(names(decode), (Names{"gemv", "host"}));
  EXPECT_GT(decode.phases[0].bytes, 0u);
}

TEST(CpuProfile, ThatFailsIsAnError) {
  const Engine engine = load("tests/backends/libbonsai_failing.so", {{"fail.function", "profile"}, {"fail.at", "1"}});
  try {
    engine.start_profile();
    FAIL() << "expected an error";
  } catch (const EngineError &error) {
    EXPECT_EQ(error.kind(), ErrorKind::kBackend);
    EXPECT_STREQ(error.what(), "failing: injected into profile (internal error)");
  }
}

TEST(TemplateProfile, IsNotOffered) {
  const Engine engine = load("lib/bonsai/libbonsai_template.so");
  EXPECT_FALSE(engine.start_profile());
  EXPECT_TRUE(engine.stop_profile().empty());
  Runner runner(engine);
  const Profile decode = runner.profile_decode(1, 2);
  EXPECT_EQ(names(decode), (Names{"forward"}));
  EXPECT_NEAR(sum_of_seconds(decode), decode.seconds, 1e-9);
}

}  // namespace
}  // namespace bonsai::bench
