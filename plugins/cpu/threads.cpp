#include "plugins/cpu/threads.h"

#include <tbb/global_control.h>
#include <tbb/info.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/proc.h"
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

// Of this process; no number is told where /proc is not there.
int number_of_threads() {
  const std::string told = read_proc("/proc/self/status", "Threads");
  int n = std::numeric_limits<int>::max();
  std::from_chars(told.data(), told.data() + told.size(), n);
  return n;
}

// An application may have set a lower limit.
int within_limit(int count) {
  if (count > tbb::info::default_concurrency()) raise_limit();
  const size_t limit = tbb::global_control::active_value(tbb::global_control::max_allowed_parallelism);
  return static_cast<int>(std::min(static_cast<size_t>(count), limit));
}

}  // namespace

// oneTBB goes on counting on threads that do not come: those that a fork has left behind, or that work for others.
// Those that are here at the end of a wait are all that there are: work that is divided among more ends no sooner.
// Where every thread of the process is here, there is none that could come, or start another (oneTBB's do so before
// they work), and the wait is over. Else one may just be late, and would be lost for good: the wait is longer than a
// thread has to wait for a core on a busy machine, the more as those that are here sleep meanwhile.
Threads::Threads(int count) : wanted_(count), count_(within_limit(count)), shared_(count_), arena_(count_, 1) {
  constexpr std::chrono::seconds kPatience{2};
  constexpr std::chrono::microseconds kGlance{50};
  std::atomic<int> n_here = 0;
  std::atomic<bool> is_over = false;
  std::vector<std::thread::id> threads(static_cast<size_t>(count_));  // of workers
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const std::thread::id caller = std::this_thread::get_id();
  each_worker([&](int worker) {
    threads[static_cast<size_t>(worker)] = std::this_thread::get_id();
    ++n_here;
    while (n_here < count_ && !is_over) {
      std::this_thread::sleep_for(kGlance);
      if (std::this_thread::get_id() != caller) continue;
      const int n = n_here;  // ahead of the number of all, which may grow
      is_over = number_of_threads() <= n || std::chrono::steady_clock::now() >= deadline;
    }
  });
  count_ = number_of_different(std::move(threads));  // one that comes later than that stays unused
}

}  // namespace bonsai::cpu
