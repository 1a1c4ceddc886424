// What one thread of this machine can do at most: what every kernel is held against.
#pragma once

#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>

#include "host/bench/peak.h"

namespace bonsai::kernel_bench {

struct Limits {
  double stream_bytes_per_second = 0;
  std::optional<bench::PeakSpeed> int8, fma;  // nullopt where nobody wrote a loop for this processor
  uint64_t memory_bytes = 0;                  // that cases out of cache go round: no cache holds them

  const std::optional<bench::PeakSpeed> &peak(bench::Arithmetic arithmetic) const {
    return arithmetic == bench::Arithmetic::kInt8 ? int8 : fma;
  }
};

// Four times the last-level caches, and at least 128 MiB.
uint64_t default_memory_bytes();

// Measures all of it, streaming over the same working set that the cases go round. Takes less than a second. Throws
// std::runtime_error if the memory cannot be had.
Limits measure_limits(uint64_t memory_bytes);

// What the limits are, in the console's header and in the JSON's "context".
void add_context(const Limits &limits);

// Processor time of this thread, for as long as calls are made: what others do on the machine counts little.
class Stopwatch {
 public:
  Stopwatch();
  double seconds_per_call(const benchmark::State &state) const;  // after the state's loop

 private:
  double begin_;
};

// What a case did in one call, as counters per second and as shares of the limits.
class Counters {
 public:
  Counters(benchmark::State &state, const Limits &limits, const Stopwatch &stopwatch)
      : state_(state), limits_(limits), seconds_(stopwatch.seconds_per_call(state)) {}

  void items(const char *name, uint64_t n) { state_.counters[name] = static_cast<double>(n) / seconds_; }
  void bytes(uint64_t n);                                     // "bytes/s" and "stream_share"
  void operations(uint64_t n, bench::Arithmetic arithmetic);  // "peak_share", if there is a peak

 private:
  benchmark::State &state_;
  const Limits &limits_;
  double seconds_;
};

}  // namespace bonsai::kernel_bench
