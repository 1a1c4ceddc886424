#include "host/bench/peak.h"

#include <algorithm>

#include "host/bench/passes.h"

namespace bonsai::bench {
namespace {

constexpr int kPasses = 50;

// Long enough for several threads to work at the same time, short enough for one pass that nothing else interrupts.
constexpr double kLeastSeconds = 1e-3;

double seconds_of(const PeakKernel &kernel, uint64_t iterations, int threads, int passes) {
  return fastest_pass(
      threads, passes, [](size_t) {}, [&](size_t) { kernel.run(iterations); });
}

uint64_t enough_iterations(const PeakKernel &kernel) {
  uint64_t iterations = 4096;
  while (iterations < kMostPeakIterations && seconds_of(kernel, iterations, 1, 3) < kLeastSeconds) iterations *= 2;
  return iterations;
}

}  // namespace

std::optional<PeakSpeed> measure_peak(Arithmetic arithmetic, int threads) {
  const std::vector<PeakKernel> kernels = runnable_peak_kernels(arithmetic);
  if (kernels.empty()) return std::nullopt;
  const PeakKernel &kernel = kernels.front();
  const uint64_t iterations = enough_iterations(kernel);
  const auto operations = 2.0 * static_cast<double>(kernel.run(iterations)) * threads;
  return PeakSpeed{.operations_per_second = operations / seconds_of(kernel, iterations, threads, kPasses),
                   .instructions = kernel.instructions,
                   .threads = threads};
}

}  // namespace bonsai::bench
