// The scheduler's rules one by one; what they come to together is in simulation_test.cpp.
#include "host/scheduling/scheduler.h"

#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "tests/host/scheduling/steps.h"

namespace bonsai::host {
namespace {

SchedulerConfig blocks_of_eight() {
  SchedulerConfig eight = config();
  eight.n_blocks = eight.block_size = 8;
  return eight;
}

TEST(Scheduler, HasNothingToDoWithoutRequests) {
  Scheduler scheduler(config());
  EXPECT_EQ(plan(scheduler), "");
}

TEST(Scheduler, PromptsComeInPiecesAndTokensOneByOne) {
  Scheduler scheduler(config());
  submit(scheduler, 0, text(0, 20));
  EXPECT_EQ(run(scheduler), "0:16");
  EXPECT_EQ(run(scheduler), "0:4*");
  EXPECT_EQ(run(scheduler), "0:1*");
  EXPECT_EQ(scheduler.tokens(0).size(), 22u);
  EXPECT_EQ(scheduler.room(0), 42u);
}

TEST(Scheduler, DecodingComesBeforePrompts) {
  Scheduler scheduler(config());
  submit(scheduler, 0, text(0, 3));
  EXPECT_EQ(run(scheduler), "0:3*");
  submit(scheduler, 1, text(100, 20));
  EXPECT_EQ(run(scheduler), "0:1* 1:15");
  EXPECT_EQ(run(scheduler), "0:1* 1:5*");
}

TEST(Scheduler, TheFirstPromptGetsHalfAndTheOthersEqualParts) {
  SchedulerConfig large = config();
  large.n_blocks = 32;
  Scheduler scheduler(large);
  for (const RequestId id : {0, 1, 2}) submit(scheduler, id, text(100 * static_cast<int32_t>(id), 20));
  EXPECT_EQ(run(scheduler), "0:8 1:4 2:4");
  EXPECT_EQ(run(scheduler), "0:8 1:4 2:4");
  EXPECT_EQ(run(scheduler), "0:4* 1:8 2:4");  // what the first does not need
  EXPECT_EQ(run(scheduler), "0:1* 1:4* 2:8*");
}

TEST(Scheduler, ThePrefixOfAnEarlierRequestIsNotComputedAgain) {
  Scheduler scheduler(config());
  Tokens first = text(0, 12), second = first;
  second.insert(second.end(), {50, 51});
  submit(scheduler, 0, first);
  EXPECT_EQ(run(scheduler), "0:12*");
  submit(scheduler, 1, second);
  EXPECT_EQ(run(scheduler), "0:1* 1:2*");
  EXPECT_EQ(scheduler.counts().reused_tokens, 12u);
  scheduler.visit_tables([&](RequestId, std::span<const uint32_t> blocks) {
    EXPECT_EQ(Tokens(blocks.begin(), blocks.begin() + 3), (Tokens{0, 1, 2}));
  });
}

// Even where all of it is known: without a last token there are no logits.
TEST(Scheduler, TheLastTokenIsAlwaysComputed) {
  Scheduler scheduler(blocks_of_eight());
  submit(scheduler, 0, text(0, 16));
  run(scheduler);
  scheduler.finish(0);
  submit(scheduler, 1, text(0, 16));
  EXPECT_EQ(plan(scheduler), "1:1*");
}

TEST(Scheduler, WherePromptsPartInsideABlockItIsCopied) {
  Scheduler scheduler(blocks_of_eight());
  Tokens first = text(0, 16), second = first;
  second.back() = 50;
  submit(scheduler, 0, first);
  run(scheduler);
  scheduler.finish(0);
  submit(scheduler, 1, second);
  const Step step = scheduler.plan();
  EXPECT_EQ(step.copy_from, std::vector<uint32_t>{1});
  EXPECT_EQ(step.copy_to, std::vector<uint32_t>{2});
  EXPECT_EQ(step.block_table, (std::vector<uint32_t>{0, 2}));
  EXPECT_EQ(step.positions, std::vector<uint32_t>{15});
}

TEST(Scheduler, CopiesAndSharesOnlyWhereItMay) {
  for (const bool share : {false, true}) {
    SchedulerConfig strict = blocks_of_eight();
    strict.share_prefixes = share;
    strict.copy_blocks = false;
    Scheduler scheduler(strict);
    submit(scheduler, 0, text(0, 14));
    run(scheduler);
    scheduler.finish(0);
    submit(scheduler, 1, text(0, 14));
    EXPECT_EQ(plan(scheduler), share ? "1:6*" : "1:14*");
    EXPECT_TRUE(scheduler.plan().copy_from.empty());
  }
}

// Two that arrive together with one long system prompt: it is computed once.
TEST(Scheduler, ATwinWaitsForWhatItCanShare) {
  Scheduler scheduler(config());
  Tokens first = text(0, 24), second = first;
  second.push_back(50);
  submit(scheduler, 0, first);
  submit(scheduler, 1, second);
  submit(scheduler, 2, text(100, 8));  // another one need not wait
  EXPECT_EQ(run(scheduler), "0:8 2:8*");
  EXPECT_EQ(run(scheduler), "0:15 2:1*");
  EXPECT_EQ(run(scheduler), "0:1* 1:5* 2:1*");
}

// Promise: those that wait for what another computes, or for a place, cost a step nothing that grows with their texts.
TEST(Scheduler, TheTokensOfThoseThatWaitAreNotLookedAtInEveryStep) {
  SchedulerConfig large = config();
  large.context = 256;
  large.n_blocks = 200;
  Scheduler scheduler(large);
  constexpr uint32_t kWaiting = 100;
  for (uint32_t id = 0; id <= kWaiting; ++id) {
    Tokens tokens = text(0, 160);
    tokens.push_back(1000 + static_cast<int32_t>(id));
    submit(scheduler, id, tokens);
  }
  for (int step = 0; step < 10; ++step) EXPECT_EQ(run(scheduler), "0:16");
  EXPECT_EQ(scheduler.counts().matches, 1 + kWaiting);
  EXPECT_EQ(run(scheduler), "0:1* 1:1* 2:1* 3:1*");
  EXPECT_EQ(scheduler.counts().matches, 1 + kWaiting + 3);
  for (int step = 0; step < 10; ++step) EXPECT_EQ(run(scheduler), "0:1* 1:1* 2:1* 3:1*");
  EXPECT_EQ(scheduler.counts().matches, 1 + kWaiting + 3);
  scheduler.finish(0);
  EXPECT_EQ(run(scheduler), "1:1* 2:1* 3:1* 4:1*");
  EXPECT_EQ(scheduler.counts().matches, 1 + kWaiting + 4);
}

// What it waits for may not come: the twin is not wanted any more, or makes place for another.
TEST(Scheduler, ATwinThatIsGoneIsNotWaitedFor) {
  Scheduler scheduler(config());
  Tokens first = text(0, 40), second = first;
  second.push_back(50);
  submit(scheduler, 0, first);
  submit(scheduler, 1, second);
  EXPECT_EQ(run(scheduler), "0:16");
  EXPECT_EQ(run(scheduler), "0:16");
  scheduler.finish(0);
  EXPECT_EQ(run(scheduler), "1:9*");
  SchedulerConfig one = config();
  one.max_sequences = 1;
  Scheduler crowded(one);
  submit(crowded, 0, first);
  submit(crowded, 1, second);
  EXPECT_EQ(run(crowded), "0:16");
  submit(crowded, 2, text(100, 20), 1);
  EXPECT_EQ(run(crowded), "2:16");
  crowded.finish(2);
  EXPECT_EQ(run(crowded), "0:16");
  EXPECT_EQ(run(crowded), "0:8*");
  crowded.finish(0);
  EXPECT_EQ(run(crowded), "1:1*");
}

TEST(Scheduler, ARequestThatIsFinishedIsInNoStepAndHoldsNoBlock) {
  SchedulerConfig private_blocks = config();
  private_blocks.share_prefixes = false;
  Scheduler scheduler(private_blocks);
  submit(scheduler, 0, text(0, 20));
  submit(scheduler, 1, text(100, 20));
  run(scheduler);
  scheduler.finish(0);
  EXPECT_EQ(run(scheduler), "1:12*");
  scheduler.finish(1);
  EXPECT_EQ(plan(scheduler), "");
  EXPECT_EQ(scheduler.pool().n_free(), 16u);
}

// The next step with guesses, run.
std::string run_guessing(Scheduler &scheduler, const std::vector<Guess> &guesses) {
  scheduler.plan();
  const std::string words = in_words(scheduler.guess(guesses));
  scheduler.commit();
  return words;
}

// ---------------------------------------------------------------------------------------------------------------------
// Logits of prompts

SchedulerConfig six_outputs() {
  SchedulerConfig six = config();
  six.max_outputs = 6;
  return six;
}

TEST(SchedulerOutputs, PromptsGetAsManyAsThereAre) {
  Scheduler scheduler(six_outputs());
  submit(scheduler, 0, text(0, 14), 0, 0);
  EXPECT_EQ(run(scheduler), "0:6/6");
  EXPECT_EQ(run(scheduler), "0:6/6");
  EXPECT_EQ(run(scheduler), "0:2/1*");
  EXPECT_EQ(run(scheduler), "0:1*");
}

TEST(SchedulerOutputs, TokensBeforeTheFirstThatIsWantedCostNone) {
  Scheduler scheduler(six_outputs());
  submit(scheduler, 0, text(0, 20), 0, 8);
  EXPECT_EQ(run(scheduler), "0:14/6");
  EXPECT_EQ(run(scheduler), "0:6/5*");
}

TEST(SchedulerOutputs, EachThatRunsHasOneAndTheFirstInRankTheRest) {
  Scheduler scheduler(six_outputs());
  submit(scheduler, 0, text(0, 3));
  run(scheduler);
  submit(scheduler, 1, text(100, 9), 0, 0);
  submit(scheduler, 2, text(200, 9), 0, 0);
  EXPECT_EQ(run(scheduler), "0:1* 1:4/4 2:1/1");
  scheduler.finish(0);
  EXPECT_EQ(run(scheduler), "1:5/4* 2:1/1");
  EXPECT_EQ(run(scheduler), "1:1* 2:5/5");
}

TEST(SchedulerOutputs, WhatIsThereIsUsedUpToTheFirstThatIsWanted) {
  Scheduler scheduler(six_outputs());
  submit(scheduler, 0, text(0, 12));
  run(scheduler);
  submit(scheduler, 1, text(0, 12), 0, 9);
  EXPECT_EQ(run(scheduler), "0:1* 1:3/2*");
  EXPECT_EQ(scheduler.counts().reused_tokens, 9u);
  submit(scheduler, 2, text(0, 12), 0, 0);
  EXPECT_EQ(run(scheduler), "0:1* 1:1* 2:4/4") << "nor does it wait for a twin";
}

TEST(SchedulerOutputs, WhoWantsNoneOfAPromptDoesNotWaitForOneThatDoes) {
  SchedulerConfig large = six_outputs();
  large.n_blocks = 32;
  Scheduler scheduler(large);
  submit(scheduler, 0, text(0, 20), 0, 0);
  submit(scheduler, 1, text(0, 20));
  submit(scheduler, 2, text(0, 20), 0, 8);
  EXPECT_EQ(run(scheduler), "0:5/5 1:11") << "2 waits for 0";
  EXPECT_EQ(run(scheduler), "0:5/5 1:9*");
}

TEST(SchedulerOutputs, ATwinIsWaitedForWhereItsLogitsComeBehind) {
  SchedulerConfig large = six_outputs();
  large.n_blocks = 32;
  Scheduler scheduler(large);
  submit(scheduler, 0, text(0, 20), 0, 16);
  submit(scheduler, 1, text(0, 20));
  EXPECT_EQ(run(scheduler), "0:16");
  EXPECT_EQ(run(scheduler), "0:4/3* 1:4*");
}

// One that has to give its place away goes on where it was, and computes again what is not there any more.
TEST(SchedulerOutputs, ComeOnceThoughTheRequestIsPreempted) {
  SchedulerConfig few = six_outputs();
  few.n_blocks = 5;
  Scheduler scheduler(few);
  submit(scheduler, 0, text(0, 14), 0, 0);
  EXPECT_EQ(run(scheduler), "0:6/6");
  submit(scheduler, 1, text(100, 16), 1);
  EXPECT_EQ(run(scheduler), "1:16*");
  EXPECT_EQ(scheduler.counts().preemptions, 1u);
  scheduler.finish(1);
  EXPECT_EQ(run(scheduler), "0:8/6");
  EXPECT_EQ(run(scheduler), "0:2/1*");
}

TEST(SchedulerGuesses, TokensThatWereGuessedNeedNoFurtherStep) {
  Scheduler scheduler(config());
  submit(scheduler, 0, text(0, 3));
  run(scheduler);
  EXPECT_EQ(run_guessing(scheduler, {{0, {9, 8, 7}}}), "0:1+3*");
  EXPECT_TRUE(scheduler.append(0, 9));
  EXPECT_TRUE(scheduler.append(0, 8));
  EXPECT_FALSE(scheduler.append(0, 6));
  EXPECT_EQ(Tokens(scheduler.tokens(0).begin() + 3, scheduler.tokens(0).end()), (Tokens{9, 9, 8, 6}));
  const Step step = scheduler.plan();
  EXPECT_EQ(step.tokens, Tokens{6});
  EXPECT_EQ(step.positions, std::vector<uint32_t>{6});  // where the wrong one was
}

TEST(SchedulerGuesses, LieBehindTheirTextWithAPositionEach) {
  Scheduler scheduler(config());
  submit(scheduler, 0, text(0, 3));
  submit(scheduler, 1, text(100, 3));
  run(scheduler);
  scheduler.plan();
  const Step step = scheduler.guess(std::vector<Guess>{{1, {5}}, {0, {7, 8}}});
  EXPECT_EQ(in_words(step), "0:1+2* 1:1+1*");
  EXPECT_EQ(step.tokens, (Tokens{9, 7, 8, 9, 5}));
  EXPECT_EQ(step.positions, (std::vector<uint32_t>{3, 4, 5, 3, 4}));
  EXPECT_EQ(step.sequences, (std::vector<uint32_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(step.rows[0].last_token, 0u);
  EXPECT_EQ(step.rows[1].last_token, 3u);
  EXPECT_EQ(step.blocks_per_sequence, 2u);
}

// The batch is of 16 tokens: prompts come first.
TEST(SchedulerGuesses, GetWhatTheStepHasLeft) {
  Scheduler scheduler(config());
  submit(scheduler, 0, text(0, 3));
  run(scheduler);
  submit(scheduler, 1, text(100, 13));
  EXPECT_EQ(run_guessing(scheduler, {{0, {1, 2, 3, 4}}}), "0:1+2* 1:13*");
}

// A wrong one leaves nothing behind, and a right one what its text would have needed.
TEST(SchedulerGuesses, TakeFreeBlocksAndGiveThemBack) {
  SchedulerConfig small = config();
  small.n_blocks = 4;
  Scheduler scheduler(small);
  submit(scheduler, 0, text(0, 4));
  run(scheduler);
  EXPECT_EQ(run_guessing(scheduler, {{0, Tokens(8, 9)}}), "0:1+8*");
  EXPECT_EQ(scheduler.pool().n_free(), 0u);
  scheduler.append(0, 9);
  EXPECT_EQ(scheduler.pool().n_free(), 0u);
  scheduler.append(0, 1);
  EXPECT_EQ(scheduler.pool().n_free(), 2u);
}

// Neither what is kept of earlier requests nor another request makes place for them; nor do they pass the limit.
TEST(SchedulerGuesses, EndWhereTheirBlockDoesIfNoneIsFree) {
  SchedulerConfig small = config();
  small.n_blocks = 4;
  Scheduler scheduler(small);
  submit(scheduler, 0, text(100, 8));
  run(scheduler);
  scheduler.finish(0);
  submit(scheduler, 1, text(0, 5));
  run(scheduler);
  EXPECT_EQ(run_guessing(scheduler, {{1, Tokens(9, 1)}}), "1:1+2*");
  EXPECT_EQ(scheduler.tree().n_blocks(), 3u);

  Scheduler alone(small);
  submit(alone, 0, text(0, 13));
  run(alone);
  EXPECT_EQ(run_guessing(alone, {{0, Tokens(9, 1)}}), "0:1+2*");  // 16 tokens are all there is place for
}

TEST(SchedulerGuesses, RightOnesAreSharedLikeAnyToken) {
  Scheduler scheduler(config());
  submit(scheduler, 0, text(0, 3));
  run(scheduler);
  EXPECT_EQ(run_guessing(scheduler, {{0, {1, 2, 3, 4, 5}}}), "0:1+5*");
  EXPECT_EQ(scheduler.tree().n_blocks(), 1u);  // nothing that is guessed
  for (const int32_t token : {1, 2, 3, 4}) EXPECT_TRUE(scheduler.append(0, token));
  EXPECT_EQ(scheduler.tree().n_blocks(), 2u);
  scheduler.append(0, 7);
  submit(scheduler, 1, {0, 1, 2, 9, 1, 2, 3, 4, 5, 5});
  EXPECT_EQ(plan(scheduler), "0:1* 1:2*");
}

TEST(SchedulerGuesses, ARequestMayEndAmongThem) {
  Scheduler scheduler(config());
  submit(scheduler, 0, text(0, 3));
  run(scheduler);
  run_guessing(scheduler, {{0, {1, 2, 3, 4, 5}}});
  scheduler.append(0, 1);
  scheduler.append(0, 2);
  scheduler.finish(0);
  EXPECT_EQ(scheduler.pool().n_free() + scheduler.tree().n_blocks(), 16u);
  submit(scheduler, 1, {0, 1, 2, 9, 1, 2, 3, 4});
  EXPECT_EQ(plan(scheduler), "1:2*");  // what was confirmed is kept, and no more
}

TEST(SchedulerRefuses, WhatCanNeverFit) {
  SchedulerConfig small = config();
  small.n_blocks = 3;
  Scheduler scheduler(small);
  EXPECT_EQ(scheduler.sequence_limit(), 12u);
  EXPECT_EQ(scheduler.submit({0, text(0, 12), 0}).error().message,
            "context full: 12 tokens to continue, and a request holds 12 (context 64, KV cache 3 blocks of 4)");
  EXPECT_EQ(scheduler.submit({0, {}, 0}).error().message, "empty request: there is nothing to continue");
  EXPECT_EQ(plan(scheduler), "");
  submit(scheduler, 0, text(0, 11));
  EXPECT_EQ(run(scheduler), "0:11*");
  EXPECT_EQ(scheduler.room(0), 0u);
}

}  // namespace
}  // namespace bonsai::host
