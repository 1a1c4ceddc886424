// What the runtime refuses, with which words.
#include <gtest/gtest.h>

#include <functional>

#include "tests/host/runtime/rig.h"

namespace bonsai::test {
namespace {

using host::ExecutorConfig;

class RuntimeErrors : public testing::Test {
 protected:
  RuntimeErrors() {
    config.context = 64;
    config.n_blocks = 4;
    config.max_tokens = 8;
    config.max_blocks_per_sequence = 2;
  }

  std::string make(int level = -1) {
    const auto executor = host::make_executor(rig.device_model(), config, level);
    return executor ? "made" : executor.error().message;
  }

  const Rig rig{TinyModel{}, "template"};
  ExecutorConfig config;
};

TEST_F(RuntimeErrors, ALevelThatIsNotOffered) {
  EXPECT_EQ(make(0), "made");
  EXPECT_EQ(make(1), "template: level 1 is not offered, the highest is 0");
  EXPECT_EQ(make(2), "template: level 2 is not offered, the highest is 0");
}

TEST_F(RuntimeErrors, AnUnknownKvType) {
  config.kv_dtype = 9;
  EXPECT_EQ(make(), "no KV dtype 9 cache; there are: f16, q8_0, f32");
}

TEST_F(RuntimeErrors, SizesOfZero) {
  config.max_outputs = 0;
  EXPECT_EQ(make(), "max_outputs is 0, expected at least 1");
  config.context = 0;
  EXPECT_EQ(make(), "context is 0, expected at least 1");
}

TEST(RuntimeErrorsOfShapes, AQ8CacheNeedsHeadsOfWholeGroups) {
  TinyModel description;
  description.head_dim = 48;
  description.heads = 8;  // 384 columns of attn_output: whole blocks
  const Rig rig(description, "template");
  EXPECT_NO_THROW(rig.executor(BONSAI_KV_F16, 1));
  try {
    rig.executor(BONSAI_KV_Q8_0, 1);
    FAIL() << "made";
  } catch (const std::runtime_error &error) {
    EXPECT_STREQ(error.what(), "a q8_0 KV cache needs a head_dim that 32 divides, found 48");
  }
}

struct BadBatch {
  const char *name;
  std::function<void(std::vector<int32_t> &, std::vector<uint32_t> &, std::vector<uint32_t> &, std::vector<uint32_t> &,
                     host::Batch &, std::vector<host::Output> &)>
      spoil;
  const char *message;
};

class RuntimeRefusesBatch : public RuntimeErrors, public testing::WithParamInterface<BadBatch> {};

TEST_P(RuntimeRefusesBatch, WithTheReason) {
  const auto executor = value_or_throw(host::make_executor(rig.device_model(), config));
  std::vector<int32_t> tokens = {5, 6};
  std::vector<uint32_t> positions = {0, 1}, sequences = {0, 0}, table = {3, 1};
  std::vector<host::Output> outputs(1);
  host::Batch batch;
  batch.blocks_per_sequence = 2;
  GetParam().spoil(tokens, positions, sequences, table, batch, outputs);
  batch.tokens = tokens;
  batch.positions = positions;
  batch.sequences = sequences;
  batch.block_table = table;
  const auto done = executor->forward(batch, outputs);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().status, bonsai_status{BONSAI_INVALID_ARGUMENT});
  EXPECT_EQ(done.error().message, GetParam().message);
}

#define SPOIL [](auto &tokens, auto &positions, auto &sequences, auto &table, auto &batch, auto &outputs) { \
    (void)tokens, (void)positions, (void)sequences, (void)table, (void)batch, (void)outputs;
INSTANTIATE_TEST_SUITE_P(
    Batches, RuntimeRefusesBatch,
    testing::Values(
        BadBatch{
  "Empty", SPOIL tokens.clear(); }, "the batch has no tokens"
}
, BadBatch { "TooManyTokens", SPOIL tokens.resize(9); }
, "9 tokens in a batch, at most 8 fit"
}
, BadBatch { "UnequalSpans", SPOIL positions.pop_back(); }
, "2 tokens, but 1 positions and 2 sequences"
}
, BadBatch { "TooManySequences", SPOIL batch.n_sequences = 2; }
, "a block table of 2 x 2, at most 1 x 2 fit"
}
, BadBatch { "ShortTable", SPOIL table.pop_back(); }
, "a block table of 1 entries, expected 1 x 2"
}
, BadBatch { "TooManyOutputs", SPOIL outputs.resize(2); }
, "2 outputs, at most 1 fit"
}
, BadBatch { "NegativeToken", SPOIL tokens[1] = -1; }
, "token -1 is outside the vocabulary of 272"
}
, BadBatch { "TokenBeyondTheVocabulary", SPOIL tokens[1] = 272; }
, "token 272 is outside the vocabulary of 272"
}
, BadBatch { "PositionBeyondTheContext", SPOIL positions[1] = 64; }
, "position 64 is beyond the context of 64"
}
, BadBatch {
  "PositionBeyondTheBlocks", SPOIL table = {0};
  batch.blocks_per_sequence = 1;
  positions[1] = 32;
}
, "position 32 is beyond the sequence's 1 blocks of 32"
}
, BadBatch { "UnknownSequence", SPOIL sequences[1] = 1; }
, "token 1 of the batch names sequence 1 of 1"
}
, BadBatch { "BlockOutsideThePool", SPOIL table[0] = 4; }
, "block 4 is outside the pool of 4"
}
, BadBatch { "OutputOfNoToken", SPOIL outputs[0].token = 2; }
, "output 0 names token 2 of 2"
}),
    [](const auto &info) {
  return info.param.name; });

#undef SPOIL

std::string refusal_of(const Rig &rig, const ExecutorConfig &config, host::Selection selection) {
  const auto executor = value_or_throw(host::make_executor(rig.device_model(), config));
  const std::vector<int32_t> tokens = {5};
  const std::vector<uint32_t> zero = {0}, table = {0, 1};
  host::Batch batch{.tokens = tokens, .positions = zero, .sequences = zero, .block_table = table};
  batch.blocks_per_sequence = 2;
  std::vector<host::Output> outputs(1);
  outputs[0].kind = host::OutputKind::kTop;
  outputs[0].selection = std::move(selection);
  const auto done = executor->forward(batch, outputs);
  return done ? "done" : done.error().message;
}

TEST_F(RuntimeErrors, SelectionsThatTheDeviceDoesNotMake) {
  EXPECT_EQ(refusal_of(rig, config, {.k = 1}),
            "the largest logits are asked for, expected whole rows: the backend selects nothing");
  const Rig cpu{TinyModel{}, "cpu"};
  EXPECT_EQ(refusal_of(cpu, config, {.k = 272}), "done");
  EXPECT_EQ(refusal_of(cpu, config, {.k = 0}), "the 0 largest logits are asked for, expected 1 to 272");
  EXPECT_EQ(refusal_of(cpu, config, {.k = 273}), "the 273 largest logits are asked for, expected 1 to 272");
  EXPECT_EQ(refusal_of(cpu, config, {.k = 1, .ids = {1, 2}, .add = {0}, .repeat = {1, 1}}),
            "2 adjusted ids, but 1 and 2 adjustments");
  const std::vector<uint32_t> mask(8, ~0u);
  EXPECT_EQ(refusal_of(cpu, config, {.k = 1, .mask = mask}), "a mask of 8 words, expected 9");
  const Rig unadjusted{TinyModel{}, "unadjusted"};
  EXPECT_EQ(refusal_of(unadjusted, config, {.k = 2}), "done");
  EXPECT_EQ(refusal_of(unadjusted, config, {.k = 1, .ids = {1}, .add = {0}, .repeat = {1}}),
            "adjusted logits are asked for, which the backend does not offer");
}

TEST_F(RuntimeErrors, CopiesStayInsideThePool) {
  const auto executor = value_or_throw(host::make_executor(rig.device_model(), config));
  EXPECT_EQ(executor->kv_copy(std::vector<uint32_t>{0}, std::vector<uint32_t>{4}).error().message,
            "block 4 is outside the pool of 4");
  EXPECT_EQ(executor->kv_copy(std::vector<uint32_t>{0, 1}, std::vector<uint32_t>{2}).error().message,
            "2 blocks to copy to 1");
}

}  // namespace
}  // namespace bonsai::test
