// The peaks of the arithmetic units: that every loop does the work that it is counted for. No speed is asserted.
#include "host/bench/peak.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::bench {
namespace {

constexpr Arithmetic kBoth[] = {Arithmetic::kInt8, Arithmetic::kFma};

// What the vectors' widths say: 12 sums (NEON: 16) of so many lanes, with 4 products each for int8.
uint64_t products_of_iteration(Arithmetic arithmetic, const std::string &instructions) {
  const uint64_t products = arithmetic == Arithmetic::kInt8 ? 4 : 1;
  if (instructions.rfind("AVX-512", 0) == 0) return 12 * 16 * products;
  if (instructions.rfind("NEON", 0) == 0) return 16 * 4 * products;
  return 12 * 8 * products;
}

// The loops count by their results, so that an instruction that did nothing would be missed here.
TEST(PeakKernels, DoEveryProductThatTheyAreCountedFor) {
  for (const Arithmetic arithmetic : kBoth) {
    for (const PeakKernel &kernel : runnable_peak_kernels(arithmetic)) {
      const uint64_t each = products_of_iteration(arithmetic, kernel.instructions);
      for (const uint64_t iterations : {uint64_t{1}, uint64_t{2}, uint64_t{1000}, kMostPeakIterations})
        EXPECT_EQ(kernel.run(iterations), iterations * each) << kernel.instructions;
    }
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(PeakKernels, ThereIsOneForEveryProcessorThatTheTiersNeed) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "this machine has no AVX2";
#endif
  EXPECT_FALSE(runnable_peak_kernels(Arithmetic::kFma).empty());
#if defined(__x86_64__)
  EXPECT_FALSE(runnable_peak_kernels(Arithmetic::kInt8).empty());
#endif
}
#endif

TEST(Peak, IsThatOfTheBestKernelWithAnyNumberOfThreads) {
  for (const Arithmetic arithmetic : kBoth) {
    const auto kernels = runnable_peak_kernels(arithmetic);
    for (const int threads : {1, 2, 3}) {
      const auto speed = measure_peak(arithmetic, threads);
      ASSERT_EQ(speed.has_value(), !kernels.empty());
      if (!speed) continue;
      EXPECT_GT(speed->operations_per_second, 0);
      EXPECT_EQ(speed->threads, threads);
      EXPECT_STREQ(speed->instructions, kernels.front().instructions);
    }
  }
}

}  // namespace
}  // namespace bonsai::bench
