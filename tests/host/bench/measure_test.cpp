// What is timed is what was asked for: so many tokens, at that depth, again and again.
#include "host/bench/measure.h"

#include <gtest/gtest.h>

#include <array>
#include <utility>

namespace bonsai::bench {
namespace {

Engine load_seedling(uint32_t context) {
  EngineOptions options;
  options.model = BONSAI_BINARY_DIR "/share/bonsai/seedling-q1_0.gguf";
  options.backend = BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_cpu.so";
  options.backend_strict = true;
  options.context = context;
  return Engine::load(options);
}

TEST(Rate, IsTheMeanAndTheSampleDeviationOfTheRepetitions) {
  const Rate rate = rate_of(12, std::array{1.0, 2.0, 3.0});  // 12, 6 and 4 tokens a second
  EXPECT_DOUBLE_EQ(rate.tokens_per_second, 22.0 / 3);
  EXPECT_NEAR(rate.stddev, 4.163332, 1e-6);
}

TEST(Rate, OfOneRepetitionDoesNotDeviate) {
  const Rate rate = rate_of(10, std::array{4.0});
  EXPECT_DOUBLE_EQ(rate.tokens_per_second, 2.5);
  EXPECT_EQ(rate.stddev, 0);
}

// A context without a token to spare: one token more than planned would not fit.
TEST(Runner, RunsAsManyTokensAsTheContextHolds) {
  Runner runner(load_seedling(25));
  for (int i = 0; i < 2; ++i) {
    EXPECT_GT(runner.prefill(25), 0);
    EXPECT_GT(runner.decode(20, 4), 0);
    EXPECT_GT(runner.decode(0, 24), 0);
    EXPECT_GT(runner.decode(23, 1), 0);
  }
  EXPECT_THROW(runner.decode(20, 6), EngineError);
}

TEST(Measure, RepeatsEachOnceMoreThanItCounts) {
  Runner runner(load_seedling(16));
  std::vector<std::pair<uint64_t, uint64_t>> calls;
  const Rates rates = measure(runner, {.prompt_tokens = 8, .decode_tokens = 2, .depth = 4, .repetitions = 2},
                              {.progress = [&](uint64_t done, uint64_t total) { calls.emplace_back(done, total); }});
  using Calls = std::vector<std::pair<uint64_t, uint64_t>>;
  EXPECT_EQ(calls, (Calls{{1, 6}, {2, 6}, {3, 6}, {4, 6}, {5, 6}, {6, 6}}));
  EXPECT_GT(rates.prefill.tokens_per_second, 0);
  EXPECT_GT(rates.decode.tokens_per_second, 0);
  ASSERT_EQ(rates.decode_repetitions.size(), 2u);
  for (const Rates::Repetition &repetition : rates.decode_repetitions) {
    EXPECT_GT(repetition.tokens_per_second, 0);
    EXPECT_EQ(repetition.stream_bytes_per_second, 0) << "nobody measured it";
    EXPECT_EQ(repetition.handover_seconds.most, 0) << "nor this";
  }
}

TEST(Measure, TakesMemoryAndHandoverBeforeAndAfterEachRepetitionThatDecodes) {
  Runner runner(load_seedling(16));
  double speed = 0, seconds = 5;
  const Rates rates = measure(runner, {.prompt_tokens = 8, .decode_tokens = 2, .repetitions = 2},
                              {.progress = [](uint64_t, uint64_t) {},
                               .stream = [&] { return speed += 10; },
                               .handover = [&] { return seconds -= 1; }});
  EXPECT_EQ(speed, 40);
  EXPECT_EQ(rates.decode_repetitions[0].handover_seconds.least, 3);
  EXPECT_EQ(rates.decode_repetitions[0].handover_seconds.most, 4);
  EXPECT_EQ(rates.decode_repetitions[1].handover_seconds.least, 1);
  EXPECT_EQ(rates.decode_repetitions[1].handover_seconds.most, 2);
  EXPECT_EQ(rates.decode_repetitions[0].stream_bytes_per_second, 20);
  EXPECT_EQ(rates.decode_repetitions[1].stream_bytes_per_second, 40);
}

TEST(Median, IsInTheMiddle) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 4}), 4);
  EXPECT_EQ(median({8, 1, 2, 4}), 3);
}

}  // namespace
}  // namespace bonsai::bench
