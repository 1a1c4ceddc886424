#include "core/base/available_cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <thread>

namespace bonsai {
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

}  // namespace

int available_cores(const std::vector<std::string> &groups) {
  int cores = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t affinity;
  if (sched_getaffinity(0, sizeof affinity, &affinity) == 0) cores = CPU_COUNT(&affinity);
  cores = std::max(1, cores);
  for (const std::string &group : groups) cores = std::min(cores, quota_cores(group, cores));
  return std::max(1, cores);
}

}  // namespace bonsai
