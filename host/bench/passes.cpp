#include "host/bench/passes.h"

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
