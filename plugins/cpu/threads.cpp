#include "plugins/cpu/threads.h"

#include <tbb/global_control.h>
#include <tbb/info.h>
#include <unistd.h>

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
  return static_cast<int>(std::unique(threads.begin(), threads.end()) - threads.begin());
}

const pid_t kLoadedBy = getpid();

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
// Where every thread of the process is here, there is none that could come, or start another (oneTBB's do so before
// they work): the wait is over, and work that is divided among more would end no sooner. Behind a fork threads of the
// application's own may hide that; the wait is then longer than a thread has to wait for a core on a busy machine, the
// more as those that are here sleep meanwhile, and those that are here at its end are all that there are. Elsewhere the
// others are just late, or work for somebody for a while, and are counted on.
Threads::Threads(int count) : wanted_(count), count_(within_limit(count)), shared_(count_), arena_(count_, 1) {
  using std::chrono::milliseconds;
  const bool has_forked = getpid() != kLoadedBy;
  const milliseconds patience = has_forked ? milliseconds(2000) : milliseconds(100);
  constexpr std::chrono::microseconds kGlance{50};
  std::atomic<int> n_here = 0;
  std::atomic<bool> is_over = false, are_all_here = false;
  std::vector<std::thread::id> threads(static_cast<size_t>(count_));  // of workers
  const auto deadline = std::chrono::steady_clock::now() + patience;
  const std::thread::id caller = std::this_thread::get_id();
  each_worker([&](int worker) {
    threads[static_cast<size_t>(worker)] = std::this_thread::get_id();
    ++n_here;
    while (n_here < count_ && !is_over) {
      std::this_thread::sleep_for(kGlance);
      if (std::this_thread::get_id() != caller) continue;
      const int n = n_here;  // ahead of the number of all, which may grow
      are_all_here = number_of_threads() <= n;
      is_over = are_all_here || std::chrono::steady_clock::now() >= deadline;
    }
  });
  if (are_all_here || has_forked) count_ = number_of_different(std::move(threads));  // a later one stays unused
}

}  // namespace bonsai::cpu
