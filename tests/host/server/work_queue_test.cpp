#include "host/server/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "tests/base/refuse_threads.h"

namespace bonsai::server {
namespace {

TEST(WorkQueue, DoesWorkInOrder) {
  std::vector<int> done;
  std::promise<void> last;
  WorkQueue queue("of a test", 1, 100);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(queue.try_push([&done, i] { done.push_back(i); }));
  queue.try_push([&] { last.set_value(); });
  last.get_future().wait();
  ASSERT_EQ(done.size(), 50u);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(done[static_cast<size_t>(i)], i);
}

TEST(WorkQueue, TakesNoMoreThanMayWait) {
  std::promise<void> begun, go;
  std::atomic<int> n_done = 0;
  {
    WorkQueue queue("of a test", 1, 2);
    EXPECT_TRUE(queue.try_push([&] {
      begun.set_value();
      go.get_future().wait();
      ++n_done;
    }));
    begun.get_future().wait();
    const auto held = std::make_shared<int>();
    EXPECT_TRUE(queue.try_push([&, held] { ++n_done; }));
    EXPECT_TRUE(queue.try_push([&, held] { ++n_done; }));
    EXPECT_FALSE(queue.try_push([&, held] { ++n_done; }));
    EXPECT_EQ(held.use_count(), 3);
    go.set_value();
  }  // what had begun is done; of what waited, some may be
  EXPECT_GE(n_done, 1);
  EXPECT_LE(n_done, 3);
}

TEST(WorkQueue, DropsWhatWaitsAtTheEnd) {
  const auto held = std::make_shared<int>();
  {
    WorkQueue queue("of a test", 0, 5);
    EXPECT_TRUE(queue.try_push([held] { FAIL(); }));
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST(WorkQueue, SaysWhichThreadCannotBeStarted) {
  const auto start = [] {
    test::refuse_threads();
    try {
      const WorkQueue queue("of a test", 1, 5);
    } catch (const std::system_error &error) {
      const std::string_view what = error.what();
      std::_Exit(what == "a thread of a test cannot be started: Resource temporarily unavailable" ? 0 : 1);
    }
  };
  EXPECT_EXIT(start(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bonsai::server
