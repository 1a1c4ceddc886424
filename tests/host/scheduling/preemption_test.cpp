// Who makes place for whom, and who waits.
#include <gtest/gtest.h>

#include <vector>

#include "host/scheduling/scheduler.h"
#include "tests/host/scheduling/steps.h"

namespace bonsai::host {
namespace {

TEST(Preemption, PreemptsTheYoungestWhenBlocksRunOut) {
  SchedulerConfig small = config();
  small.n_blocks = 7;
  Scheduler scheduler(small);
  submit(scheduler, 0, text(0, 8));
  submit(scheduler, 1, text(100, 8));
  EXPECT_EQ(run(scheduler), "0:8* 1:8*");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(run(scheduler), "0:1* 1:1*");
  EXPECT_EQ(run(scheduler), "0:1*");  // 13 tokens are 4 blocks, and 4 more are one too many
  EXPECT_EQ(scheduler.counts().preemptions, 1u);
  EXPECT_EQ(scheduler.n_waiting(), 1u);
  scheduler.finish(0);
  EXPECT_EQ(run(scheduler), "1:1*");  // its three blocks were still there
  EXPECT_EQ(scheduler.tokens(1).size(), 14u);
}

TEST(Preemption, ThePreemptedGoesOnBeforeThoseThatCameLater) {
  SchedulerConfig small = config();
  small.n_blocks = 7;
  Scheduler scheduler(small);
  submit(scheduler, 0, text(0, 8));
  submit(scheduler, 1, text(100, 8));
  for (int i = 0; i < 6; ++i) run(scheduler);
  EXPECT_EQ(scheduler.counts().preemptions, 1u);
  submit(scheduler, 2, text(200, 2));
  EXPECT_EQ(run(scheduler), "0:1*");
  scheduler.finish(0);
  EXPECT_EQ(run(scheduler), "1:1* 2:2*");
}

TEST(Preemption, AHigherPriorityGoesFirstAndTakesAPlace) {
  SchedulerConfig one = config();
  one.max_sequences = 1;
  Scheduler scheduler(one);
  submit(scheduler, 0, text(0, 8));
  submit(scheduler, 1, text(100, 8));
  EXPECT_EQ(run(scheduler), "0:8*");
  submit(scheduler, 2, text(200, 8), 1);
  EXPECT_EQ(run(scheduler), "2:8*");
  scheduler.finish(2);
  EXPECT_EQ(run(scheduler), "0:1*");
  scheduler.finish(0);
  EXPECT_EQ(run(scheduler), "1:8*");
}

// A request of the middle rank between one that it cannot drive out and two that it can.
class BetweenRanks : public testing::Test {
 protected:
  // 16 blocks: nine for the first, with the token behind its prompt, two for each of the others.
  BetweenRanks() : scheduler_(long_steps()) {
    submit(scheduler_, 0, text(0, 32), 2);
    run(scheduler_);
    submit(scheduler_, 1, text(100, 7));
    submit(scheduler_, 2, text(200, 7));
    run(scheduler_);
  }
  static SchedulerConfig long_steps() {
    SchedulerConfig config = host::config();
    config.batch_tokens = 64;
    return config;
  }
  Scheduler scheduler_;
};

// The first may need one block more: six are all that there can be for another.
TEST_F(BetweenRanks, NobodyMakesPlaceForOneThatDoesNotFitEvenThen) {
  submit(scheduler_, 3, text(300, 25), 1);
  EXPECT_EQ(run(scheduler_), "0:1* 1:1* 2:1*");
  EXPECT_EQ(run(scheduler_), "0:1* 1:1* 2:1*");
  EXPECT_EQ(scheduler_.counts().preemptions, 0u);
  scheduler_.finish(0);
  EXPECT_EQ(run(scheduler_), "3:25* 1:1* 2:1*");
}

TEST_F(BetweenRanks, AllMakePlaceForOneThatFitsThen) {
  submit(scheduler_, 3, text(300, 24), 1);
  EXPECT_EQ(run(scheduler_), "0:1* 3:24*");
  EXPECT_EQ(scheduler_.counts().preemptions, 2u);
}

TEST_F(BetweenRanks, NoMoreMakePlaceThanIsNeeded) {
  submit(scheduler_, 3, text(300, 8), 1);
  EXPECT_EQ(run(scheduler_), "0:1* 3:8* 1:1*");
  EXPECT_EQ(scheduler_.counts().preemptions, 1u);
}

// Blocks that others read, too, are not free once one of their readers has gone.
TEST(Preemption, SharedBlocksAreNoPlaceThatOneCanMake) {
  for (const bool fits : {false, true}) {
    SchedulerConfig long_steps = config();
    long_steps.batch_tokens = 64;
    Scheduler scheduler(long_steps);
    submit(scheduler, 0, text(0, 32), 2);
    run(scheduler);
    Tokens same = text(0, 32);
    same.push_back(50);
    submit(scheduler, 1, same);
    EXPECT_EQ(run(scheduler), "0:1* 1:1*");
    // Beside the nine of the first and the next that it may need: six, also for one that shares eight of the nine.
    const uint32_t n_more = fits ? 24 : 25;
    submit(scheduler, 2, text(200, n_more), 1);
    EXPECT_EQ(run(scheduler), fits ? "0:1* 2:24*" : "0:1* 1:1*");
    EXPECT_EQ(scheduler.counts().preemptions, fits ? 1u : 0u);
    scheduler.finish(2);
    run(scheduler);
    Tokens begins_alike = text(0, 32), end = text(300, n_more);
    begins_alike.insert(begins_alike.end(), end.begin(), end.end());
    submit(scheduler, 3, begins_alike, 1);
    EXPECT_EQ(run(scheduler), fits ? "0:1* 3:24*" : "0:1* 1:1*");
  }
}

// The first of those that have made place is the first that does not fit, wherever in the queue it comes to stand.
class MakingPlace : public testing::Test {
 protected:
  static SchedulerConfig with_blocks(uint32_t n_blocks) {
    SchedulerConfig config = host::config();
    config.n_blocks = n_blocks;
    config.batch_tokens = 64;
    config.share_prefixes = false;
    return config;
  }
};

TEST_F(MakingPlace, NobodyOvertakesThemWhoCameLast) {
  Scheduler scheduler(with_blocks(12));
  submit(scheduler, 0, text(0, 38));
  submit(scheduler, 1, text(100, 4));
  submit(scheduler, 2, text(200, 3));
  EXPECT_EQ(run(scheduler), "0:38* 1:4*") << "2 waits";
  submit(scheduler, 3, text(300, 16), 1);
  EXPECT_EQ(run(scheduler), "3:16*");
  EXPECT_EQ(run(scheduler), "3:1*");
  scheduler.finish(3);
  EXPECT_EQ(run(scheduler), "0:39*");
}

// 1 was next in the queue when 0 went back to its place there, ahead of 1.
TEST_F(MakingPlace, NobodyOvertakesThemWhoWasNext) {
  Scheduler scheduler(with_blocks(11));
  submit(scheduler, 0, text(0, 38));
  submit(scheduler, 1, text(100, 3));
  EXPECT_EQ(run(scheduler), "0:38*") << "1 waits";
  submit(scheduler, 2, text(200, 16), 1);
  EXPECT_EQ(run(scheduler), "2:16*");
  EXPECT_EQ(run(scheduler), "2:1*");
  scheduler.finish(2);
  EXPECT_EQ(run(scheduler), "0:39*");
}

// Those of a rank between may still start.
TEST_F(MakingPlace, WhoRanksHigherIsNotHeldUp) {
  Scheduler scheduler(with_blocks(11));
  submit(scheduler, 0, text(0, 38));
  run(scheduler);
  submit(scheduler, 1, text(100, 3), 1);
  submit(scheduler, 2, text(200, 16), 2);
  EXPECT_EQ(run(scheduler), "2:16* 1:3*");
}

}  // namespace
}  // namespace bonsai::host
