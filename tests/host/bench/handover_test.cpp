// How far apart two threads are: a time that a machine can have.
#include "host/bench/handover.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace bonsai::bench {
namespace {

// Light goes 3 cm meanwhile, and a scheduler has had its turn ten times.
constexpr double kLeast = 1e-10, kMost = 0.1;

TEST(Handover, TakesATimeThatCanBe) {
  const double seconds = measure_handover();
  EXPECT_GT(seconds, kLeast);
  EXPECT_LT(seconds, kMost);
}

// Nothing hangs where one core has to do.
TEST(Handover, EndsOnOneCore) {
  double seconds = 0;
  std::jthread([&] {
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) ++cpu;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    seconds = measure_handover();
  }).join();
  EXPECT_GT(seconds, kLeast);
  EXPECT_LT(seconds, kMost);
}

}  // namespace
}  // namespace bonsai::bench
