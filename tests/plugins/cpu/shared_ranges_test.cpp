// Every unit is done once, whoever does it, and what a slow worker has not begun is not left to it.
#include "plugins/cpu/shared_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "plugins/cpu/threads.h"

namespace bonsai::cpu {
namespace {

std::vector<UnitRange> all_of(SharedRanges::Turns &turns) {
  std::vector<UnitRange> parts;
  while (const std::optional<UnitRange> part = turns.take()) parts.push_back(*part);
  return parts;
}

using Bounds = std::vector<std::pair<uint64_t, uint64_t>>;
Bounds bounds_of(const std::vector<UnitRange> &parts) {
  Bounds bounds;
  for (const UnitRange &part : parts) bounds.emplace_back(part.begin, part.end);
  return bounds;
}

TEST(SharedRanges, AreTakenInPartsOfHalves) {
  SharedRanges ranges(2);
  SharedRanges::Turns turns = ranges.begin(0, {0, 20}, 2);
  EXPECT_EQ(bounds_of(all_of(turns)), (Bounds{{0, 10}, {10, 16}, {16, 18}, {18, 20}}));
}

TEST(SharedRanges, HavePartsOnMultiplesOfTheLeast) {
  SharedRanges ranges(2);
  SharedRanges::Turns turns = ranges.begin(1, {13, 63}, 8);
  EXPECT_EQ(bounds_of(all_of(turns)), (Bounds{{13, 40}, {40, 56}, {56, 63}}));
}

TEST(SharedRanges, AreTakenAtOnceWhereTheyAreShortOrNobodyElseIsThere) {
  SharedRanges ranges(2), of_one(1);
  SharedRanges::Turns turns = ranges.begin(0, {5, 5 + SharedRanges::kLeastParts * 8 - 1}, 8);
  EXPECT_EQ(all_of(turns).size(), 1u);
  SharedRanges::Turns alone = of_one.begin(0, {0, SharedRanges::kMostUnits}, 1);
  EXPECT_EQ(bounds_of(all_of(alone)), (Bounds{{0, SharedRanges::kMostUnits}}));
}

TEST(SharedRanges, SayWhereAWorkerGoesOn) {
  SharedRanges ranges(2);
  SharedRanges::Turns turns = ranges.begin(0, {0, 8}, 2);
  const auto next = [&] { return bounds_of({turns.next().value()}); };
  EXPECT_EQ(next(), (Bounds{{0, 4}}));
  EXPECT_EQ(turns.take()->end, 4u);
  EXPECT_EQ(next(), (Bounds{{4, 6}}));
  all_of(turns);
  EXPECT_FALSE(turns.next());
}

// The other has begun one part, and ends no other before this one has nothing left.
TEST(SharedRanges, GiveAnotherTheBackHalfOfWhatIsNotBegun) {
  SharedRanges ranges(2);
  SharedRanges::Turns slow = ranges.begin(0, {0, 32}, 2), fast = ranges.begin(1, {32, 64}, 2);
  EXPECT_EQ(slow.take()->end, 16u);
  while (fast.next()) fast.take();
  const std::optional<UnitRange> first = fast.take();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->begin, 24u);  // of 16 to 32
  EXPECT_EQ(bounds_of(all_of(fast)).back(), (std::pair<uint64_t, uint64_t>{16, 18}));
  EXPECT_FALSE(slow.take());
}

TEST(SharedRanges, GiveAWorkerWithAShortOneNothingOfAnothers) {
  for (const uint64_t end : {64, 66}) {
    SharedRanges ranges(2);
    SharedRanges::Turns other = ranges.begin(0, {0, 64}, 1), short_one = ranges.begin(1, {64, end}, 1);
    EXPECT_EQ(other.take()->end, 32u);
    for (const UnitRange &part : all_of(short_one)) EXPECT_EQ(part.begin, 64u);
    EXPECT_EQ(bounds_of(all_of(other)), (Bounds{{32, 48}, {48, 56}, {56, 60}, {60, 62}, {62, 63}, {63, 64}}));
  }
}

TEST(SharedRanges, GiveNothingOfAWorkerThatHasNotBegun) {
  SharedRanges ranges(2);
  for (int work = 0; work < 3; ++work) {
    SharedRanges::Turns first = ranges.begin(0, {0, 10}, 1);
    uint64_t units = 0;
    for (const UnitRange &part : all_of(first)) units += part.size();
    EXPECT_EQ(units, 10u);
    SharedRanges::Turns second = ranges.begin(1, {10, 20}, 1);
    for (const UnitRange &part : all_of(second)) EXPECT_GE(part.begin, 10u);
  }
}

// Until `done` says so; false after a time in which anything gets done.
template <class Done>
bool wait_until(const Done &done) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!done()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

// Marks without locks: a unit that two threads took would be counted wrong, and ThreadSanitizer would name it.
// `between`: what a worker does after each part.
template <class Between>
void expect_every_unit_once(Threads &threads, size_t n, size_t grain, size_t least, const Between &between) {
  std::vector<int> times(n);
  threads.each_turns(n, grain, least, [&](SharedRanges::Turns &turns, int worker) {
    while (const std::optional<UnitRange> part = turns.take()) {
      EXPECT_LT(part->begin, part->end);
      for (uint64_t i = part->begin; i < part->end; ++i) ++times[i];
      between(worker);
    }
  });
  EXPECT_TRUE(std::ranges::all_of(times, [](int n) { return n == 1; })) << n << " units of " << grain << ", " << least;
}

TEST(SharedRanges, HaveEveryUnitOnce) {
  const auto go_on = [](int) {};
  const auto others_first = [](int worker) {
    for (int i = 0; i < 5 - worker; ++i) std::this_thread::yield();
  };
  for (const int count : {1, 2, 3, 8}) {
    Threads threads(count);
    threads.together([&] {
      for (int round = 0; round < 100; ++round) {
        for (const size_t n : {0, 1, 7, 100, 1001}) expect_every_unit_once(threads, n, 2, 3, go_on);
        expect_every_unit_once(threads, 500, 1, 1, others_first);
      }
    });
    expect_every_unit_once(threads, 1001, 4, 8, go_on);
  }
}

// However long one takes for its first part, the other does the rest.
TEST(SharedRanges, LeaveASlowWorkerWhatItHasBegun) {
  Threads threads(2);
  std::atomic<bool> has_begun = false;
  std::atomic<uint64_t> of_other = 0;
  uint64_t of_slow = 0;
  threads.each_turns(64, 1, 1, [&](SharedRanges::Turns &turns, int worker) {
    if (worker == 1) {
      EXPECT_TRUE(wait_until([&] { return has_begun.load(); }));
    }
    while (const std::optional<UnitRange> part = turns.take()) {
      if (worker == 0) {
        of_slow += part->size();
      } else {
        of_other += part->size();
      }
      if (worker == 0 && !has_begun.exchange(true)) {
        EXPECT_TRUE(wait_until([&] { return of_other == 48; }));
      }
    }
  });
  EXPECT_EQ(of_slow, 16u);
  EXPECT_EQ(of_other, 48u);
}

}  // namespace
}  // namespace bonsai::cpu
