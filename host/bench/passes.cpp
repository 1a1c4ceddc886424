#include "host/bench/passes.h"

#include <sched.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <limits>
#include <thread>
#include <vector>

namespace bonsai::bench {
namespace {

using Clock = std::chrono::steady_clock;

// When one thread was at work. No single thread's clock will do: where threads outnumber cores, it may begin a pass
// that others have half done.
struct alignas(64) Span {
  Clock::time_point begin, end;
};

// Keeps the calling thread on a processor of its own, where there is one for each thread: a scheduler whose processors
// are all busy wakes threads where they were woken from, and would let two take turns on one. With fewer threads the
// choice is left to it, since it knows which processors share a core.
class Seat {
 public:
  Seat(size_t thread, size_t threads) {
    taken_ =
        ::sched_getaffinity(0, sizeof before_, &before_) == 0 && static_cast<size_t>(CPU_COUNT(&before_)) == threads;
    if (!taken_) return;
    int processor = 0;
    for (size_t passed = 0; !CPU_ISSET(processor, &before_) || passed++ < thread;) ++processor;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(processor, &only);
    ::sched_setaffinity(0, sizeof only, &only);  // only a hint
  }
  Seat(const Seat &) = delete;
  Seat &operator=(const Seat &) = delete;
  ~Seat() {
    if (taken_) ::sched_setaffinity(0, sizeof before_, &before_);
  }

 private:
  cpu_set_t before_;
  bool taken_ = false;
};

double seconds_of_all(const std::vector<Span> &spans) {
  Span all = spans.front();
  for (const Span &span : spans) {
    all.begin = std::min(all.begin, span.begin);
    all.end = std::max(all.end, span.end);
  }
  return std::chrono::duration<double>(all.end - all.begin).count();
}

}  // namespace

double fastest_pass(int threads, int passes, const std::function<void(size_t)> &prepare,
                    const std::function<void(size_t)> &work) {
  std::vector<Span> spans(static_cast<size_t>(threads));
  std::barrier barrier(threads);
  double fastest = std::numeric_limits<double>::infinity();
  const auto run = [&](size_t thread) {
    const Seat seat(thread, spans.size());
    prepare(thread);
    for (int pass = 0; pass < passes; ++pass) {
      barrier.arrive_and_wait();
      spans[thread].begin = Clock::now();
      work(thread);
      spans[thread].end = Clock::now();
      barrier.arrive_and_wait();
      if (thread == 0) fastest = std::min(fastest, seconds_of_all(spans));
    }
  };
  std::vector<std::jthread> others;
  for (size_t thread = 1; thread < spans.size(); ++thread) others.emplace_back(run, thread);
  run(0);
  return fastest;
}

}  // namespace bonsai::bench
