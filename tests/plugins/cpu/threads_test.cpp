// Every part of every job is done exactly once, whoever stands by.
#include "plugins/cpu/threads.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <tbb/global_control.h>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
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

// Exits with 0 where a forked process has as many of `count` threads as it says.
[[noreturn]] void count_behind_a_fork(int count) {
  const pid_t child = fork();
  if (child == 0) {
    Threads threads(count);
    _exit(threads_at_once(threads) == threads.count() ? 0 : 1);
  }
  int status = -1;
  _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 2);
}

// An application may use oneTBB without us.
TEST(Threads, OfAProcessThatWasForkedBehindUsesOfOneTbbAreThoseThatItHas) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto count = [] {
    std::atomic<int> n = 0;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    tbb::parallel_for(0, 2, [&](int) {
      for (++n; n < 2 && std::chrono::steady_clock::now() < deadline;) std::this_thread::yield();
    });
    count_behind_a_fork(2);
  };
  EXPECT_EXIT(count(), testing::ExitedWithCode(0), "");
}

// Threads of its own may be taken for those that are missed, for a while.
TEST(Threads, OfAForkedProcessWithThreadsOfItsOwnAreThoseThatComeForWork) {
  Threads before(2);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::jthread own([](const std::stop_token &stop) {
      while (!stop.stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
    Threads threads(2);
    _exit(threads.count() == 1 && threads.wanted() == 2 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Threads, AreNoMoreThanTheApplicationAllows) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto count = [] {
    const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, 1);
    Threads few(2), many(tbb::info::default_concurrency() + 2);
    _exit(few.count() == 1 && few.wanted() == 2 && many.count() == 1 ? 0 : 1);
  };
  EXPECT_EXIT(count(), testing::ExitedWithCode(0), "");
}

// As where an application loads several models side by side: oneTBB's threads are busy, and come back.
TEST(Threads, ThatAreBusyForAWhileAreNotLost) {
  const int n_cores = tbb::info::default_concurrency();
  std::vector<int> counts(static_cast<size_t>(n_cores));
  tbb::parallel_for(0, n_cores, [&](int i) { counts[static_cast<size_t>(i)] = Threads(n_cores).count(); });
  EXPECT_EQ(counts, std::vector<int>(static_cast<size_t>(n_cores), n_cores));
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
