#include "plugins/cpu/threads.h"

#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/info.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <latch>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "plugins/cpu/options.h"

namespace bonsai::cpu {
namespace {

// The CPU quota of a control group in whole cores, rounded up; `unlimited` where there is none, which version 2 calls
// "max" and version 1 -1.
int quota_cores(const std::string &group, int unlimited) {
  int64_t microseconds = 0, period = 0;
  std::ifstream version_2(group + "/cpu.max"), quota(group + "/cpu.cfs_quota_us"), of(group + "/cpu.cfs_period_us");
  const bool is_limited = (version_2 >> microseconds >> period) || (quota >> microseconds && of >> period);
  if (!is_limited || microseconds <= 0 || period <= 0) return unlimited;
  return static_cast<int>(std::min<int64_t>(unlimited, (microseconds + period - 1) / period));
}

// oneTBB lets no more threads work than there are cores, unless it is told. Of several such limits the least counts,
// and one that ends is missed by whoever relied on it, or ends after oneTBB itself: there is one for all devices, for
// good.
void raise_limit() {
  using Limit = tbb::global_control;
  alignas(Limit) static std::byte place[sizeof(Limit)];  // never destroyed
  static const auto *const limit = new (place) Limit(Limit::max_allowed_parallelism, static_cast<size_t>(kMaxThreads));
  static_cast<void>(limit);
}

}  // namespace

int available_cores(const std::vector<std::string> &groups) {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof affinity, &affinity) == 0) cores = CPU_COUNT(&affinity);
  cores = std::max(1, cores);
  for (const std::string &group : groups) cores = std::min(cores, quota_cores(group, cores));
  return std::max(1, cores);
}

// By trying: what limits them (of the user, of the control group, of the machine's memory) is not to be had otherwise.
int runnable_threads(int count) {
  std::latch all_tried(1);
  std::vector<std::thread> tried;
  try {
    tried.reserve(static_cast<size_t>(count));
    for (int i = 1; i < count; ++i) tried.emplace_back([&] { all_tried.wait(); });
  } catch (const std::exception &) {
    // As many as there are: there is no thread, or no memory, for another.
  }
  all_tried.count_down();
  for (std::thread &thread : tried) thread.join();
  return 1 + static_cast<int>(tried.size());
}

Threads::Threads(int count) : count_(count), arena_(count, 1) {
  constexpr std::chrono::milliseconds kPatience{100};
  if (count > tbb::info::default_concurrency()) raise_limit();
  std::atomic<int> n_here = 0;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  each_worker([&](int) {
    ++n_here;
    while (n_here < count_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
}

}  // namespace bonsai::cpu
