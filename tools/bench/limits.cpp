#include "tools/bench/limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <stdexcept>
#include <string>

#include "host/bench/stream.h"

namespace bonsai::kernel_bench {
namespace {

constexpr int kStreamPasses = 20;

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

std::string giga(double per_second) { return fmt::format("{:.2f}e9/s", per_second / 1e9); }

std::string describe(const std::optional<bench::PeakSpeed> &peak) {
  if (!peak) return "not measured: no loop for this processor";
  return fmt::format("{} operations, {}", giga(peak->operations_per_second), peak->instructions);
}

}  // namespace

uint64_t default_memory_bytes() { return std::max(uint64_t{128} << 20, 4 * bench::last_level_cache_bytes()); }

Limits measure_limits(uint64_t memory_bytes) {
  const auto stream = bench::measure_stream(1, memory_bytes, kStreamPasses);
  if (!stream) throw std::runtime_error(stream.error().message);
  return {.stream_bytes_per_second = stream->bytes_per_second,
          .int8 = bench::measure_peak(bench::Arithmetic::kInt8, 1),
          .fma = bench::measure_peak(bench::Arithmetic::kFma, 1),
          .memory_bytes = memory_bytes};
}

void add_context(const Limits &limits) {
  benchmark::AddCustomContext("streaming, 1 thread", giga(limits.stream_bytes_per_second) + " bytes");
  benchmark::AddCustomContext("int8 peak, 1 thread", describe(limits.int8));
  benchmark::AddCustomContext("FMA peak, 1 thread", describe(limits.fma));
  benchmark::AddCustomContext("working set of /memory", fmt::format("{} MiB", limits.memory_bytes >> 20));
}

Stopwatch::Stopwatch() : begin_(processor_seconds()) {}

double Stopwatch::seconds_per_call(const benchmark::State &state) const {
  return (processor_seconds() - begin_) / static_cast<double>(state.iterations());
}

void Counters::bytes(uint64_t n) {
  items("bytes/s", n);
  state_.counters["stream_share"] = static_cast<double>(n) / seconds_ / limits_.stream_bytes_per_second;
}

void Counters::operations(uint64_t n, bench::Arithmetic arithmetic) {
  if (const auto &peak = limits_.peak(arithmetic))
    state_.counters["peak_share"] = static_cast<double>(n) / seconds_ / peak->operations_per_second;
}

}  // namespace bonsai::kernel_bench
