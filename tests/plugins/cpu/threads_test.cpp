// Every part of every job is done exactly once, whoever stands by.
#include "plugins/cpu/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tbb/info.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace bonsai::cpu {
namespace {

// Counts without locks: a part that two threads took would be counted wrong, and ThreadSanitizer would name it.
void expect_every_part_once(Threads &threads, int jobs) {
  std::vector<int> times(static_cast<size_t>(threads.count()));
  for (int job = 0; job < jobs; ++job) {
    threads.each_worker([&](int worker) { ++times[static_cast<size_t>(worker)]; });
    for (const int n : times) ASSERT_EQ(n, job + 1);
  }
}

TEST(Threads, DoEveryPartOnce) {
  for (const int count : {1, 2, 3, 8}) {
    Threads threads(count);
    expect_every_part_once(threads, 200);
  }
}

// How many threads there are at once for the parts of a job.
int threads_at_once(Threads &threads) {
  std::atomic<int> n_here = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  threads.each_worker([&](int) {
    {
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    }
    ++n_here;
    while (n_here < threads.count() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  });
  return static_cast<int>(ids.size());
}

// oneTBB counts on threads that a fork leaves behind: those that count() tells are there.
TEST(Threads, OfAForkedProcessAreThoseThatItHas) {
  Threads before(2);
  for (const int count : {1, 2, 4}) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Threads threads(count);
      const bool is_right = threads.count() <= count && threads_at_once(threads) == threads.count();
      _exit(is_right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << count;
    EXPECT_EQ(WEXITSTATUS(status), 0) << count;
  }
}

// More than there are cores, whatever other devices ask for, or have asked for.
TEST(Threads, AreAsManyAsWereAskedFor) {
  const int n_cores = tbb::info::default_concurrency();
  auto few = std::make_unique<Threads>(n_cores + 1);
  Threads many(n_cores + 6);
  EXPECT_EQ(threads_at_once(*few), n_cores + 1);
  EXPECT_EQ(threads_at_once(many), n_cores + 6);
  few.reset();
  EXPECT_EQ(threads_at_once(many), n_cores + 6);
}

// An engine may be an application's static object.
TEST(Threads, MayLiveUntilTheProcessEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a forked process would have none of oneTBB's threads
  const auto leave = [] {
    static Threads threads(tbb::info::default_concurrency() + 2);
    std::exit(threads_at_once(threads) > 1 ? 0 : 1);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(0), "^$");
}

TEST(Threads, DoEveryPartOnceTogether) {
  for (const int count : {1, 2, 3, 8}) {
    Threads threads(count);
    for (int step = 0; step < 20; ++step) threads.together([&] { expect_every_part_once(threads, 200); });
    expect_every_part_once(threads, 20);
  }
}

TEST(Threads, CoverARangeInOrder) {
  Threads threads(3);
  threads.together([&] {
    for (const size_t n : {size_t{0}, size_t{1}, size_t{7}, size_t{100}}) {
      std::vector<int> owner(n, -1);
      threads.each_range(n, 4, [&](size_t begin, size_t end, int worker) {
        EXPECT_EQ(begin % 4, 0u);
        EXPECT_EQ(begin, n > 4 ? threads.first_of(n, 4, worker) : 0);
        for (size_t i = begin; i < end; ++i) owner[i] = worker;
      });
      EXPECT_TRUE(std::ranges::is_sorted(owner));
      EXPECT_TRUE(std::ranges::none_of(owner, [](int worker) { return worker < 0; }));
    }
  });
}

TEST(Threads, AStepThatThrowsSendsTheOthersHome) {
  Threads threads(3);
  const auto fail = [&] { threads.together([] { throw std::runtime_error("out of luck"); }); };
  EXPECT_THROW(fail(), std::runtime_error);
  threads.together([&] { expect_every_part_once(threads, 10); });
}

// Whether or not anybody came.
TEST(Team, LeavesTheLeaderWhatNobodyTakes) {
  Team team(4);
  int parts = 0;
  team.run([&](int part) { EXPECT_EQ(part, parts++); });
  EXPECT_EQ(parts, 4);
}

TEST(Team, MayHaveMoreMembersThanParts) {
  Team team(2);
  std::vector<std::jthread> members;
  for (int i = 0; i < 5; ++i) members.emplace_back([&] { team.stand_by(); });
  std::vector<int> times(2);
  for (int job = 0; job < 1000; ++job) team.run([&](int part) { ++times[static_cast<size_t>(part)]; });
  team.dismiss();
  EXPECT_EQ(times, (std::vector<int>{1000, 1000}));
}

TEST(Team, GoesHomeWithoutAJob) {
  Team team(2);
  std::jthread member([&] { team.stand_by(); });
  team.dismiss();
}

}  // namespace
}  // namespace bonsai::cpu
