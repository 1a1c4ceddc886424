#include "plugins/cpu/threads.h"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/cpu/options.h"

namespace bonsai::cpu {
namespace {

// oneTBB lets no more threads work than there are cores, unless it is told. Of several such limits the least counts,
// and one that ends is missed by whoever relied on it, or ends after oneTBB itself: there is one for all devices, for
// good.
void raise_limit() {
  using Limit = tbb::global_control;
  alignas(Limit) static std::byte place[sizeof(Limit)];  // never destroyed
  static const auto *const limit = new (place) Limit(Limit::max_allowed_parallelism, static_cast<size_t>(kMaxThreads));
  static_cast<void>(limit);
}

int number_of_different(std::vector<std::thread::id> threads) {
  std::ranges::sort(threads);
  return static_cast<int>(std::ranges::unique(threads).begin() - threads.begin());
}

// A process that fork() has made has none of the threads that oneTBB made before, and goes on counting on them.
bool has_forked() {
  static const pid_t first = getpid();
  return getpid() != first;
}

}  // namespace

Threads::Threads(int count) : count_(count), shared_(count), arena_(count, 1) {
  constexpr std::chrono::milliseconds kPatience{100};
  if (count > tbb::info::default_concurrency()) raise_limit();
  std::atomic<int> n_here = 0;
  std::vector<std::thread::id> threads(static_cast<size_t>(count));  // of workers
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  each_worker([&](int worker) {
    threads[static_cast<size_t>(worker)] = std::this_thread::get_id();
    ++n_here;
    while (n_here < count_ && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  if (has_forked()) count_ = number_of_different(std::move(threads));  // one that comes later than that stays unused
}

}  // namespace bonsai::cpu
