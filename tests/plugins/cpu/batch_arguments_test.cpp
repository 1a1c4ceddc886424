// Bad batches, outputs and block lists: each is answered with a status and one line that says what was wrong, and
// changes nothing.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/plugins/cpu/backend_support.h"

namespace bonsai::test {
namespace {

class BatchArguments : public testing::Test {
 protected:
  BatchArguments() {
    batch.block_table = {{0, 1}, {2, 3}};
    batch.add(5, 0, 0);
    batch.add(6, 1, 0);
    batch.add(7, 0, 1);
  }
  bonsai_status submit(bonsai_error *error) { return submit(batch.view(), error); }
  bonsai_status submit(const bonsai_batch &view, bonsai_error *error) {
    uint64_t ticket = 0;
    return session.api.forward_submit(session.handle, &view, outputs.data(), outputs.size(), &ticket, error);
  }

  LoadedModel loaded{TinyModel{}};
  OpenDevice device{kPlugin};
  UploadedModel uploaded{device, loaded.model, {.positions = 40}};
  OpenSession session{uploaded, small_config()};
  TestBatch batch;
  TestOutputs outputs{kTinyTokens, 128};
};

TEST_F(BatchArguments, CountsAreChecked) {
  bonsai_batch view = batch.view();
  view.n_tokens = 0;
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT, "batch->n_tokens is 0, expected at least 1");
  view.n_tokens = 161;
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT,
                      "batch->n_tokens is 161, expected at most 160, the session's max_tokens");
  view = batch.view();
  view.n_sequences = 5;
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT,
                      "batch->n_sequences is 5, expected at most 4, the session's max_sequences");
  view = batch.view();
  view.blocks_per_sequence = 17;
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT,
                      "batch->blocks_per_sequence is 17, expected at most 16, the session's max_blocks_per_sequence");
  view = batch.view();
  view.positions = nullptr;
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT, "batch->positions is NULL");
  view = batch.view();
  view.tokens = nullptr;
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT, "batch->tokens is NULL");
  view = batch.view();
  const std::vector<float> hidden(3 * 128);
  view.hidden = hidden.data();
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT,
                      "batch->hidden is given, expected NULL: the session has an embedding");
  view.struct_size = 16;
  BONSAI_EXPECT_FAILS(submit(view, &error), BONSAI_INVALID_ARGUMENT, "batch: struct_size is 16, expected at least 56");
}

TEST_F(BatchArguments, EveryIndexIsChecked) {
  const TestBatch good = batch;
  const auto expect = [&](const std::function<void()> &change, const char *message) {
    batch = good;
    change();
    BONSAI_EXPECT_FAILS(submit(&error), BONSAI_INVALID_ARGUMENT, message);
  };
  expect([&] { batch.tokens[1] = 272; }, "batch->tokens[1] is 272, expected 0 to 271");
  expect([&] { batch.tokens[1] = BONSAI_TOKEN_FROM_OUTPUT(0); },
         "batch->tokens[1] refers to output 0, which selected no token in the previous submit");
  expect([&] { batch.tokens[1] = std::numeric_limits<int32_t>::min(); },
         "batch->tokens[1] refers to output 2147483647, which selected no token in the previous submit");
  expect([&] { batch.sequences[2] = 2; }, "batch->sequences[2] is 2, expected less than n_sequences, 2");
  expect([&] { batch.positions[0] = 40; },
         "batch->positions[0] is 40, expected less than the model's rope_positions, 40");
  expect([&] { batch.positions[0] = 32; }, "batch->positions[0] is 32, beyond the 2 blocks of 16 in the block table");
  expect([&] { batch.positions[1] = 0; }, "batch: two tokens have position 0 of sequence 0");
  expect([&] { batch.block_table[1][0] = 32; }, "batch->block_table[1][0] is 32, expected less than n_blocks, 32");
  expect([&] { batch.block_table[1][0] = 0; }, "batch: sequences 0 and 1 both write block 0");
  const auto read_what_is_written = [&] {
    batch.positions[2] = 16;
    batch.block_table[1][0] = batch.block_table[0][0];
  };
  expect(read_what_is_written, "batch: sequence 1 reads block 0, which sequence 0 writes");
  const auto have_a_block_twice = [&] {
    batch.positions[1] = 16;
    batch.block_table[0][1] = batch.block_table[0][0];
  };
  expect(have_a_block_twice, "batch: sequence 0 has block 0, which it writes, in columns 0 and 1");
  batch = good;
  batch.block_table[0][1] = 0xFFFFFFFFu;  // beyond the sequence's length: not read
  bonsai_error error = empty_error();
  EXPECT_EQ(submit(&error), BONSAI_OK) << error.message;
}

TEST_F(BatchArguments, AFailedSubmitLeavesTheCacheAsItWas) {
  const std::vector<float> expected = session.logits({1, 2, 3}, 0, {5});
  session.logits({1, 2}, 0, {5});
  TestBatch bad;
  bad.block_table = {{5}};
  bad.add(9, 0);
  bad.add(9999, 1);
  EXPECT_EQ(submit(bad.view(), nullptr), BONSAI_INVALID_ARGUMENT);
  EXPECT_EQ(session.logits({3}, 2, {5}), expected);
}

TEST_F(BatchArguments, OutputsAreChecked) {
  std::vector<float> hidden(128);
  const auto expect = [&](bonsai_output &output, bonsai_status status, const char *message) {
    BONSAI_EXPECT_FAILS(submit(&error), status, message);
    output = {};  // valid again: the first token's hidden state
    output.struct_size = sizeof output;
    output.kind = BONSAI_OUTPUT_HIDDEN;
    output.hidden = hidden.data();
  };
  const bonsai_status invalid = BONSAI_INVALID_ARGUMENT;
  bonsai_output &output = outputs.logits(3);
  expect(output, invalid, "output->token is 3, expected less than 3");
  output.kind = 9;
  expect(output, BONSAI_UNSUPPORTED, "output->kind is 9, expected 0 to 3");
  output.reserved = 1;
  expect(output, invalid, "output->reserved is 1, expected 0");
  output.hidden = nullptr;
  expect(output, invalid, "output->hidden is NULL");
  output.kind = BONSAI_OUTPUT_LOGITS;
  expect(output, invalid, "output->logits is NULL");
  output.kind = BONSAI_OUTPUT_ARGMAX;
  expect(output, invalid, "output->top_ids is NULL");
  output.struct_size = 16;
  expect(output, invalid, "output: struct_size is 16, expected at least 120");

  for (const auto &[k, message] :
       {std::pair{0u, "output->k is 0, expected 1 to 64"}, {65u, "output->k is 65, expected 1 to 64"}}) {
    bonsai_output &top = outputs.top(0, 1);
    top.k = k;
    expect(top, invalid, message);
  }
  bonsai_output &ids = outputs.top(0, 1, {4, -1});
  expect(ids, invalid, "output->ids[1] is -1, expected 0 to 271");
  bonsai_output &many = outputs.top(0, 1, std::vector<int32_t>(273));
  expect(many, invalid, "output->n_ids is 273, expected at most 272, the vocabulary");
}

TEST_F(BatchArguments, AdjustmentsAreChecked) {
  std::vector<int32_t> ids = {4, 271};
  std::vector<float> add = {0, 0}, repeat = {1, 1};
  bonsai_output &output = outputs.logits(0);
  output.n_adjustments = 2;
  output.adjust_ids = ids.data();
  output.adjust_add = add.data();
  BONSAI_EXPECT_FAILS(submit(&error), BONSAI_INVALID_ARGUMENT, "output->adjust_repeat is NULL");
  output.adjust_repeat = repeat.data();
  ids[1] = 272;
  BONSAI_EXPECT_FAILS(submit(&error), BONSAI_INVALID_ARGUMENT, "output->adjust_ids[1] is 272, expected 0 to 271");
  ids[1] = 4;
  BONSAI_EXPECT_FAILS(submit(&error), BONSAI_INVALID_ARGUMENT, "output->adjust_ids has 4 twice");
  ids[1] = 5;
  repeat[1] = 0;
  BONSAI_EXPECT_FAILS(submit(&error), BONSAI_INVALID_ARGUMENT,
                      "output->adjust_repeat[1] is 0, expected a finite number above 0");
  repeat[1] = 1;
  output.temperature = -1;
  BONSAI_EXPECT_FAILS(submit(&error), BONSAI_INVALID_ARGUMENT,
                      "output->temperature is -1, expected a finite number from 0");
  output.temperature = 1;
  EXPECT_EQ(submit(nullptr), BONSAI_OK);
}

TEST_F(BatchArguments, LayersAndHeadAreChecked) {
  const bonsai_batch view = batch.view();
  const auto layer = [&](uint32_t index, const float *in, bonsai_error *error) {
    return session.api.layer_encode(session.handle, index, &view, in, nullptr, error);
  };
  const std::vector<float> states(3 * 128, 0.5f);
  BONSAI_EXPECT_FAILS(layer(2, states.data(), &error), BONSAI_INVALID_ARGUMENT, "layer is 2, expected less than 2");
  BONSAI_EXPECT_FAILS(layer(0, nullptr, &error), BONSAI_INVALID_ARGUMENT,
                      "in is NULL and the previous layer_encode left 0 states, expected 3");
  EXPECT_EQ(layer(0, states.data(), nullptr), BONSAI_OK);
  EXPECT_EQ(layer(1, nullptr, nullptr), BONSAI_OK);
  outputs.argmax(2);
  const auto head = [&](uint32_t n_rows, bonsai_error *error) {
    return session.api.lm_head(session.handle, nullptr, n_rows, outputs.data(), 1, error);
  };
  BONSAI_EXPECT_FAILS(head(2, &error), BONSAI_INVALID_ARGUMENT,
                      "in is NULL and the previous layer_encode left 3 states, expected n_rows, 2");
  EXPECT_EQ(head(3, nullptr), BONSAI_OK);
}

TEST_F(BatchArguments, ASessionWithoutEndsSaysSo) {
  UploadedModel middle(device, loaded.model, {.layers = 1, .embedding = false, .head = false});
  OpenSession inner(middle, small_config());
  bonsai_batch view = batch.view();
  uint64_t ticket = 0;
  const auto submit_inner = [&](uint32_t n_outputs, bonsai_error *error) {
    return inner.api.forward_submit(inner.handle, &view, outputs.data(), n_outputs, &ticket, error);
  };
  BONSAI_EXPECT_FAILS(submit_inner(0, &error), BONSAI_INVALID_ARGUMENT,
                      "batch->tokens is given, expected NULL: the session has no embedding");
  view.tokens = nullptr;
  BONSAI_EXPECT_FAILS(submit_inner(0, &error), BONSAI_INVALID_ARGUMENT, "batch->hidden is NULL");
  const std::vector<float> hidden(3 * 128, 0.5f);
  view.hidden = hidden.data();
  outputs.argmax(0);
  BONSAI_EXPECT_FAILS(submit_inner(1, &error), BONSAI_INVALID_ARGUMENT,
                      "n_outputs is 1, expected 0: the session has no head");
  EXPECT_EQ(submit_inner(0, nullptr), BONSAI_OK);
}

TEST_F(BatchArguments, KvRangesAreChecked) {
  std::vector<std::byte> data(2 * 2 * 16 * 2 * 64);
  const uint32_t blocks[] = {0, 32};
  const auto transfer = [&](uint32_t n_blocks, uint32_t n_tokens, uint64_t bytes, bonsai_error *error) {
    return session.api.kv_export(session.handle, blocks, n_blocks, n_tokens, data.data(), bytes, error);
  };
  BONSAI_EXPECT_FAILS(transfer(2, 16, data.size(), &error), BONSAI_INVALID_ARGUMENT,
                      "blocks[1] is 32, expected less than n_blocks, 32");
  BONSAI_EXPECT_FAILS(transfer(1, 17, data.size(), &error), BONSAI_INVALID_ARGUMENT,
                      "n_tokens is 17, expected at most 16, which 1 blocks hold");
  BONSAI_EXPECT_FAILS(transfer(1, 16, 5, &error), BONSAI_INVALID_ARGUMENT, "bytes is 5, expected 8192");
  EXPECT_EQ(transfer(1, 16, data.size(), nullptr), BONSAI_OK);
  BONSAI_EXPECT_FAILS(session.api.kv_import(session.handle, blocks, 1, 16, nullptr, data.size(), &error),
                      BONSAI_INVALID_ARGUMENT, "data is NULL");
  BONSAI_EXPECT_FAILS(session.api.kv_copy(session.handle, blocks, blocks, 2, &error), BONSAI_INVALID_ARGUMENT,
                      "sources[1] is 32, expected less than n_blocks, 32");
}

}  // namespace
}  // namespace bonsai::test
