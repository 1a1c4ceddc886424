// Whoever asks first is served first, however often another asks.
#include "host/engine/fair_mutex.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace bonsai::host {
namespace {

TEST(FairMutex, WaitsForThoseThatAskedBefore) {
  FairMutex mutex;
  std::vector<int> order;  // under the mutex
  mutex.lock();
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    const uint64_t n_asked = mutex.n_asked();
    threads.emplace_back([&, i] {
      const std::lock_guard lock(mutex);
      order.push_back(i);
    });
    while (mutex.n_asked() == n_asked) std::this_thread::yield();
  }
  mutex.unlock();
  mutex.lock();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3}));
  mutex.unlock();
}

TEST(FairMutex, LetsOneInAtATime) {
  FairMutex mutex;
  int n = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          const std::lock_guard lock(mutex);
          n = n + 1;
        }
      });
    }
  }
  EXPECT_EQ(n, 8000);
}

}  // namespace
}  // namespace bonsai::host
