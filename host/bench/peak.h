// How fast this machine multiplies: the limits that prompts are measured against. An operation is a multiplication or
// an addition, so that a multiply-accumulate counts as two.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace bonsai::bench {

enum class Arithmetic {
  kInt8,  // products of 8-bit integers into 32-bit sums: weights of integer codes times quantised activations
  kFma,   // fused multiply-adds of 32-bit floats: weights in F32, F16, BF16 and FP8
};

// A loop of one instruction (or, where the machine has none for it, of the shortest sequence) whose operands and
// results stay in registers, in more sums than the processor has products under way.
struct PeakKernel {
  const char *instructions;  // "AVX-512 VNNI"
  // Goes through the loop, at most kMostPeakIterations times, and returns the multiply-accumulates that it did, counted
  // by the sums themselves: all factors are 1.
  uint64_t (*run)(uint64_t iterations);
};
inline constexpr uint64_t kMostPeakIterations = uint64_t{1} << 22;  // a float counts that far

// Those that this machine runs, the best first; none where the processor is of a kind that nobody wrote one for.
std::vector<PeakKernel> runnable_peak_kernels(Arithmetic arithmetic);

struct PeakSpeed {
  double operations_per_second = 0;
  const char *instructions = "";
  int threads = 0;
};

// The best kernel on `threads` threads (at least 1) at once: the fastest of 50 passes of a millisecond or two. nullopt
// where there is no kernel.
std::optional<PeakSpeed> measure_peak(Arithmetic arithmetic, int threads);

}  // namespace bonsai::bench
