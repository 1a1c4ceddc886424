// Thousands of random histories, none of which may break a promise of the scheduler; and histories in which something
// is broken on purpose, which must not go unnoticed.
#include "tests/host/scheduling/simulation.h"

#include <gtest/gtest.h>

#include <string>

namespace bonsai::host {

// Does what nobody else may: it reaches into a scheduler.
struct SchedulerSaboteur {
  static BlockPool &pool(Scheduler &scheduler) { return scheduler.pool_; }
  static RadixTree &tree(Scheduler &scheduler) { return scheduler.tree_; }
};

namespace {

constexpr uint64_t kHistories = 6000;

TEST(Simulation, NoHistoryBreaksAPromise) {
  SchedulerCounts sum;
  uint64_t n_finished = 0, n_cancelled = 0, n_guessed = 0, n_right = 0, n_scored = 0;
  for (uint64_t seed = 0; seed < kHistories; ++seed) {
    Simulation simulation(random_scenario(seed), seed);
    ASSERT_EQ(simulation.run(), "") << "seed " << seed;
    sum.preemptions += simulation.counts().preemptions;
    sum.reused_tokens += simulation.counts().reused_tokens;
    n_finished += simulation.n_finished();
    n_cancelled += simulation.n_cancelled();
    n_guessed += simulation.n_guessed();
    n_right += simulation.n_right();
    n_scored += simulation.n_scored();
  }
  // What was to be looked at has happened, and often.
  EXPECT_GT(n_finished, 5 * kHistories);
  EXPECT_GT(n_cancelled, kHistories);
  EXPECT_GT(sum.preemptions, kHistories / 2);
  EXPECT_GT(sum.reused_tokens, 10 * kHistories);
  EXPECT_GT(n_right, 5 * kHistories);
  EXPECT_GT(n_guessed, n_right + 5 * kHistories);
  EXPECT_GT(n_scored, 5 * kHistories);
}

TEST(Simulation, TheSameSeedIsTheSameHistory) {
  const auto run = [] {
    Simulation simulation(random_scenario(42), 42);
    EXPECT_EQ(simulation.run(), "");
    return simulation.counts();
  };
  const SchedulerCounts first = run(), second = run();
  EXPECT_EQ(first.steps, second.steps);
  EXPECT_EQ(first.computed_tokens, second.computed_tokens);
  EXPECT_EQ(first.preemptions, second.preemptions);
}

// A scheduler that is interfered with once in a history. Returns the complaints, without their step.
using Interference = bool (*)(Scheduler &, Step &);  // false: there was nothing to interfere with yet
std::vector<std::string> complaints(Interference interfere, bool audit, uint32_t score_percent = 0) {
  std::vector<std::string> all;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    Scenario scenario = random_scenario(seed);
    scenario.config.share_prefixes = scenario.config.copy_blocks = true;
    scenario.score_percent = score_percent;
    scenario.audit = audit;
    Simulation simulation(scenario, seed);
    bool done = false;
    uint32_t n_steps = 0;
    simulation.sabotage = [&](Scheduler &scheduler, Step &step) {
      if (++n_steps > 5 && !done) done = interfere(scheduler, step);
    };
    const std::string wrong = simulation.run();
    if (!wrong.empty()) all.push_back(wrong.substr(wrong.find(": ") + 2));
  }
  return all;
}

testing::AssertionResult any_of_them(const std::vector<std::string> &all, const std::string &what) {
  for (const std::string &complaint : all)
    if (complaint.find(what) != complaint.npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << all.size() << " complaints, none of them: " << what << "; "
                                     << (all.empty() ? "" : all.front());
}

bool free_a_block_in_use(Scheduler &scheduler, Step &) {
  BlockPool &pool = SchedulerSaboteur::pool(scheduler);
  uint32_t freed = pool.size();
  scheduler.visit_tables([&](RequestId, std::span<const uint32_t> blocks) {
    if (!blocks.empty() && pool.users(blocks.back()) == 1) freed = blocks.back();
  });
  if (freed == pool.size()) return false;
  pool.release(freed);
  return true;
}

// The account shows it at once; and where nobody looks at that, the device sees the block in two hands.
TEST(Simulation, NoticesABlockThatIsFreedTooEarly) {
  EXPECT_TRUE(any_of_them(complaints(free_a_block_in_use, true), "users, and 0 are counted"));
  EXPECT_TRUE(any_of_them(complaints(free_a_block_in_use, false), "is written while another request reads it"));
  EXPECT_TRUE(any_of_them(complaints(free_a_block_in_use, false), "reads what is not its own"));
}

TEST(Simulation, NoticesABlockThatIsNeverFreed) {
  const auto leak = [](Scheduler &scheduler, Step &) {
    BlockPool &pool = SchedulerSaboteur::pool(scheduler);
    if (pool.n_free() < 2) return false;
    pool.take();
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(leak, true), "has 0 users, and 1 are counted"));
  EXPECT_TRUE(any_of_them(complaints(leak, false), "blocks are left that nobody uses"));
}

TEST(Simulation, NoticesACopyThatIsForgotten) {
  const auto forget = [](Scheduler &, Step &step) {
    if (step.copy_from.empty()) return false;
    step.copy_from.clear();
    step.copy_to.clear();
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(forget, false), "reads what is not its own"));
}

TEST(Simulation, NoticesATreeThatLies) {
  const auto lie = [](Scheduler &scheduler, Step &step) {
    if (SchedulerSaboteur::pool(scheduler).n_free() == 0) return false;
    const uint32_t block = SchedulerSaboteur::pool(scheduler).take();
    RadixTree &tree = SchedulerSaboteur::tree(scheduler);
    const std::vector<int32_t> tokens(scheduler.config().block_size, step.tokens.front());
    tree.add(tree.root(), tokens, block);
    SchedulerSaboteur::pool(scheduler).release(block);
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(lie, true), "does not hold what the tree says"));
  EXPECT_TRUE(any_of_them(complaints(lie, false), "reads what is not its own"));
}

TEST(Simulation, NoticesTwoRequestsThatWriteOneBlock) {
  const auto swap = [](Scheduler &, Step &step) {
    if (step.rows.size() < 2) return false;
    std::copy_n(step.block_table.begin(), step.blocks_per_sequence,
                step.block_table.begin() + step.blocks_per_sequence);
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(swap, false), "is written while another request reads it"));
}

// What the device ran is not what was confirmed.
TEST(Simulation, NoticesAWrongGuessThatIsKept) {
  const auto change = [](Scheduler &, Step &step) {
    const auto row = std::find_if(step.rows.begin(), step.rows.end(), [](const auto &r) { return r.n_guesses > 0; });
    if (row == step.rows.end()) return false;
    ++step.tokens[row->last_token + 1];
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(change, false), "reads what is not its own"));
}

TEST(Simulation, NoticesGuessesThatTakeAnothersPlace) {
  const auto take = [](Scheduler &, Step &step) {
    if (step.rows.size() < 2 || step.rows.front().n_guesses == 0) return false;
    step.rows.pop_back();
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(take, false), "guesses take another's place in the step"));
}

TEST(Simulation, NoticesLogitsThatAreLeftOut) {
  const auto leave_out = [](Scheduler &, Step &step) {
    const auto row = std::find_if(step.rows.begin(), step.rows.end(), [](const auto &r) { return r.n_scored() > 0; });
    if (row == step.rows.end()) return false;
    --row->n_outputs;
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(leave_out, false, 50), "gets logits of position"));
  EXPECT_TRUE(any_of_them(complaints(leave_out, false, 50), "gets no logits of position"));
}

TEST(Simulation, NoticesTheFirstInRankBeingPassedOver) {
  const auto pass_over = [](Scheduler &, Step &step) {
    if (step.rows.size() < 2) return false;
    step.rows.erase(step.rows.begin());
    return true;
  };
  EXPECT_TRUE(any_of_them(complaints(pass_over, false), "is first in rank and not in the step"));
}

}  // namespace
}  // namespace bonsai::host
