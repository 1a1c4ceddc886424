// Work that several threads do at the same time.
#include "host/bench/passes.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

namespace bonsai::bench {
namespace {

TEST(FastestPass, EveryThreadPreparesOnceAndWorksEveryPass) {
  for (const int threads : {1, 2, 5}) {
    std::vector<int> prepared(static_cast<size_t>(threads)), worked(prepared.size());
    fastest_pass(
        threads, 7, [&](size_t thread) { ++prepared[thread]; }, [&](size_t thread) { ++worked[thread]; });
    EXPECT_EQ(prepared, std::vector<int>(prepared.size(), 1));
    EXPECT_EQ(worked, std::vector<int>(worked.size(), 7));
  }
}

TEST(FastestPass, NobodyBeginsAPassThatOthersHaveNotReached) {
  std::atomic<int> began = 0;
  std::atomic<bool> together = true;
  std::vector<int> passes(3);
  fastest_pass(
      3, 50, [](size_t) {},
      [&](size_t thread) {
        ++began;
        if (began > 3 * ++passes[thread]) together = false;
      });
  EXPECT_TRUE(together);
}

// A pass ends with its slowest thread: no clock can run faster than the one that sleeps.
TEST(FastestPass, LastsAsLongAsItsSlowestThread) {
  const double seconds = fastest_pass(
      2, 2, [](size_t) {}, [](size_t thread) { std::this_thread::sleep_for(std::chrono::milliseconds(thread * 10)); });
  EXPECT_GE(seconds, 0.01);
}

cpu_set_t processors() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  return set;
}

TEST(FastestPass, GivesEachThreadAProcessorAndTheCallerItsOwnBack) {
  const cpu_set_t before = processors();
  std::vector<cpu_set_t> during(static_cast<size_t>(CPU_COUNT(&before)));
  fastest_pass(
      CPU_COUNT(&before), 1, [](size_t) {}, [&](size_t thread) { during[thread] = processors(); });
  cpu_set_t together;
  CPU_ZERO(&together);
  for (const cpu_set_t &one : during) {
    EXPECT_EQ(CPU_COUNT(&one), 1);
    CPU_OR(&together, &together, &one);
  }
  EXPECT_TRUE(CPU_EQUAL(&together, &before));
  const cpu_set_t after = processors();
  EXPECT_TRUE(CPU_EQUAL(&after, &before));
}

}  // namespace
}  // namespace bonsai::bench
