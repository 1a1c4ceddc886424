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

}  // namespace
}  // namespace bonsai::host
