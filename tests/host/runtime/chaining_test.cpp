// Passes that are submitted before the token they run is known.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/host/runtime/rig.h"

namespace bonsai::test {
namespace {

constexpr int32_t kFirst = 5;

// One token of a sequence that lies in the first blocks, and what it is asked for: the largest logit.
class OneToken {
 public:
  OneToken(int32_t token, uint32_t position) : token_(token), position_(position) {
    output.select({.k = 1});
    for (uint32_t i = 0; i < Rig::kBlocksPerSequence; ++i) blocks_.push_back(i);
  }
  host::Batch batch() const {
    host::Batch batch{
        .tokens = {&token_, 1}, .positions = {&position_, 1}, .sequences = {&kSequence, 1}, .block_table = blocks_};
    batch.blocks_per_sequence = Rig::kBlocksPerSequence;
    return batch;
  }
  host::Output output;

 private:
  static constexpr uint32_t kSequence = 0;
  const int32_t token_;
  const uint32_t position_;
  std::vector<uint32_t> blocks_;
};

std::string submit(host::Executor &executor, int32_t token, uint32_t position) {
  OneToken one(token, position);
  const auto done = executor.submit(one.batch(), one.output);
  return done ? "submitted" : done.error().message;
}

TEST(RuntimeChains, WhatEachPassSelects) {
  const Rig rig(TinyModel{}, "cpu");
  const auto one_by_one = rig.executor(BONSAI_KV_F16, 1), chained = rig.executor(BONSAI_KV_F16, 1);
  ASSERT_TRUE(chained->chains());
  std::vector<int32_t> expected = {kFirst};
  for (uint32_t position = 0; position < 40; ++position) {
    OneToken one(expected.back(), position);
    ASSERT_TRUE(one_by_one->forward(one.batch(), {&one.output, 1}));
    expected.push_back(one.output.top.ids.at(0));
  }
  std::vector<int32_t> found = {kFirst};
  EXPECT_EQ(submit(*chained, kFirst, 0), "submitted");
  for (uint32_t position = 1; position < 40; ++position) {
    EXPECT_EQ(submit(*chained, BONSAI_TOKEN_FROM_OUTPUT(0), position), "submitted");
    EXPECT_EQ(chained->n_in_flight(), 2u);
    found.push_back(value_or_throw(chained->wait()).top.ids.at(0));
  }
  found.push_back(value_or_throw(chained->wait()).top.ids.at(0));
  EXPECT_EQ(chained->n_in_flight(), 0u);
  EXPECT_EQ(found, expected);
}

TEST(RuntimeChains, ARefusedPassLeavesThoseInFlight) {
  const Rig rig(TinyModel{}, "cpu");
  const auto executor = rig.executor(BONSAI_KV_F16, 1);
  EXPECT_EQ(submit(*executor, BONSAI_TOKEN_FROM_OUTPUT(0), 0), "token -1 is outside the vocabulary of 272");
  EXPECT_EQ(submit(*executor, kFirst, 0), "submitted");
  EXPECT_EQ(submit(*executor, BONSAI_TOKEN_FROM_OUTPUT(0), Rig::kContext), "position 128 is beyond the context of 128");
  EXPECT_EQ(submit(*executor, BONSAI_TOKEN_FROM_OUTPUT(1), 1), "token -2 is outside the vocabulary of 272");
  EXPECT_EQ(executor->n_in_flight(), 1u);
  EXPECT_TRUE(executor->wait());
}

TEST(RuntimeChains, WholeForwardPassesOnly) {
  const Rig rig(TinyModel{}, "cpu");
  for (const int level : {0, 1}) EXPECT_FALSE(rig.executor(BONSAI_KV_F16, 1, level)->chains()) << level;
  const auto composed = rig.executor(BONSAI_KV_F16, 1, 0);
  EXPECT_EQ(submit(*composed, kFirst, 0), "passes are not chained at this level");
  EXPECT_EQ(composed->wait().error().message, "passes are not chained at this level");
}

}  // namespace
}  // namespace bonsai::test
