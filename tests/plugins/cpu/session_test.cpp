// What sessions promise beside the numbers: outputs of every kind, the KV cache, submits, and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "tests/plugins/cpu/backend_support.h"

namespace bonsai::test {
namespace {

using quant::Format;

// A tiny model on a device, and a session.
class SessionTest : public testing::Test {
 protected:
  explicit SessionTest(const bonsai_session_config &config = small_config()) : session(uploaded, config) {}

  // Runs one token at position 0 of a fresh sequence, with these outputs.
  void run_token(const TestOutputs &outputs) {
    TestBatch batch;
    batch.block_table = {{1}};
    batch.add(7, 0);
    session.forward(batch, outputs);
  }
  TestOutputs outputs() const { return TestOutputs(kTinyTokens, loaded.model.config.hidden); }
  std::vector<float> plain_logits() {
    TestOutputs wanted = outputs();
    wanted.logits(0);
    run_token(wanted);
    return wanted[0].logits;
  }

  LoadedModel loaded{TinyModel{}};
  OpenDevice device{kPlugin};
  UploadedModel uploaded{device, loaded.model};
  OpenSession session;
};

std::vector<int32_t> ids_by_logit(const std::vector<float> &logits) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  return ids;
}

TEST_F(SessionTest, TopKIsTheFrontOfTheSortedLogits) {
  const std::vector<float> logits = plain_logits();
  const std::vector<int32_t> sorted = ids_by_logit(logits);
  for (const uint32_t k : {1u, 5u, 64u}) {
    TestOutputs wanted = outputs();
    wanted.top(0, k, {3, 271, 3});
    run_token(wanted);
    EXPECT_EQ(wanted[0].top_ids, std::vector<int32_t>(sorted.begin(), sorted.begin() + k));
    for (uint32_t i = 0; i < k; ++i) EXPECT_EQ(wanted[0].top_logits[i], logits[static_cast<size_t>(sorted[i])]);
    EXPECT_EQ(wanted[0].id_logits, (std::vector<float>{logits[3], logits[271], logits[3]}));
  }
}

// A vocabulary of several pieces, which the threads share.
TEST(WideSession, SelectionsAreThoseOfTheWholeRow) {
  constexpr uint32_t kVocab = 2100, kMost = 1024;
  TinyModel tiny;
  tiny.vocab = kVocab;
  const LoadedModel loaded(tiny);
  bonsai_session_config config = small_config();
  config.max_outputs = 8;
  config.max_k = kMost;
  for (const char *threads : {"1", "2", "3"}) {
    OpenDevice device(kPlugin, {{"cpu.threads", threads}});
    UploadedModel uploaded(device, loaded.model);
    OpenSession session(uploaded, config);
    TestBatch batch;
    batch.block_table = {{1}};
    batch.add(7, 0);
    TestOutputs wanted(kVocab, loaded.model.config.hidden);
    wanted.logits(0);
    for (int i = 0; i < 4; ++i) wanted.top(0, kMost, {2099, 600});
    wanted.top(0, kMost, {2099, 600}).log_sum_exp = nullptr;
    wanted.argmax(0);
    wanted.top(0, 3);
    session.forward(batch, wanted);
    const std::vector<float> &logits = wanted[0].logits;
    const std::vector<int32_t> sorted = ids_by_logit(logits);
    for (const size_t i : {1, 2, 3, 4, 5}) {
      EXPECT_EQ(wanted[i].top_ids, std::vector<int32_t>(sorted.begin(), sorted.begin() + kMost))
          << "output " << i << ", threads " << threads;
      EXPECT_EQ(wanted[i].id_logits, (std::vector<float>{logits[2099], logits[600]}));
      EXPECT_EQ(wanted[i].log_sum_exp, i == 5 ? 0 : wanted[7].log_sum_exp);
    }
    EXPECT_EQ(wanted[6].top_ids[0], sorted[0]);
    EXPECT_EQ(wanted[7].top_ids, std::vector<int32_t>(sorted.begin(), sorted.begin() + 3));
  }
}

// A vocabulary that is large enough for logits to be bounded before they are computed, many times the same tokens:
// ties, adjustments, masks and temperatures.
TEST(WideSession, SelectionsOfManyRowsAreThoseOfTheWholeRows) {
  constexpr uint32_t kVocab = 20000, kMost = 64, kRows = 12;
  std::vector<uint32_t> mask((kVocab + 31) / 32, 0x10048001), scarce((kVocab + 31) / 32, 0);
  scarce[7] = scarce[600] = 0x101;
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<int32_t> ids = {5, 19999, 11000, 0, 12345, 12346};
  const std::vector<float> repeat = {1, 2, 0.5f, 1, 3, 1e30f}, add = {0, 40, 0, -infinity, -1, 1e30f};
  TinyModel tiny;
  tiny.vocab = kVocab;
  const LoadedModel loaded(tiny);
  bonsai_session_config config = small_config();
  config.max_outputs = 7 * kRows;
  config.max_k = kMost;
  for (const Tier &tier : testable_tiers()) {
    for (const char *threads : {"1", "3"}) {
      if (tier.emulated && *threads == '1') continue;
      OpenDevice device(tier.plugin, {{"cpu.threads", threads}, {"cpu.isa", tier.isa}});
      UploadedModel uploaded(device, loaded.model);
      OpenSession session(uploaded, config);
      TestBatch batch;
      batch.block_table = {{1}};
      for (uint32_t i = 0; i < kRows; ++i) batch.add(static_cast<int32_t>(i % 5 * 31), i);
      const auto run = [&](bool whole) {
        TestOutputs outputs(kVocab, loaded.model.config.hidden);
        for (uint32_t row = 0; row < kRows; ++row) {
          for (int kind = 0; kind < 7; ++kind) {
            bonsai_output &output = whole           ? outputs.logits(row)
                                    : kind % 2 == 0 ? outputs.argmax(row)
                                                    : outputs.top(row, kind == 1 ? 1 : kMost);
            if (!whole) output.log_sum_exp = nullptr;
            output.mask = kind == 2 || kind == 3 ? mask.data() : kind == 4 || kind == 5 ? scarce.data() : nullptr;
            output.temperature = kind == 3 ? 0.3f : 1;
            if (kind < 6 && kind % 3 == 0) continue;
            output.n_adjustments = static_cast<uint32_t>(ids.size());
            output.adjust_ids = ids.data();
            output.adjust_add = add.data();
            output.adjust_repeat = repeat.data();
          }
        }
        session.forward(batch, outputs);
        return outputs;
      };
      const TestOutputs logits = run(true), selected = run(false);
      for (uint32_t i = 0; i < 7 * kRows; ++i) {
        std::vector<int32_t> sorted = ids_by_logit(logits[i].logits);
        sorted.resize(selected[i].top_ids.size());
        ASSERT_EQ(selected[i].top_ids, sorted)
            << "output " << i << ", " << tier.kernel << ", " << threads << " threads";
        for (size_t j = 0; j < sorted.size(); ++j) {
          ASSERT_EQ(selected[i].top_logits[j], logits[i].logits[static_cast<size_t>(sorted[j])]);
        }
      }
    }
  }
}

TEST_F(SessionTest, LogSumExpIsExactToAFewUnitsOfFloat) {
  const std::vector<float> logits = plain_logits();
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  TestOutputs wanted = outputs();
  wanted.top(0, 1);
  run_token(wanted);
  EXPECT_NEAR(wanted[0].log_sum_exp, std::log(sum), 1e-5);
}

TEST_F(SessionTest, EqualLogitsAreTakenByTheLowestIdFirst) {
  TestOutputs wanted = outputs();
  std::vector<float> zeros(3, 0.0f), tiny(3, std::numeric_limits<float>::min());
  const std::vector<int32_t> ids = {200, 4, 90};
  std::vector<float> level(3);
  const std::vector<float> logits = plain_logits(), ones(3, 1.0f);
  for (size_t i = 0; i < 3; ++i) level[i] = 100 - logits[static_cast<size_t>(ids[i])];
  for (bonsai_output *output : {&wanted.top(0, 3), &wanted.argmax(0)}) {
    output->n_adjustments = 3;
    output->adjust_ids = ids.data();
    output->adjust_add = level.data();
    output->adjust_repeat = ones.data();
    output->temperature = 1e30f;  // 100 and what rounding made of it become equal
  }
  run_token(wanted);
  EXPECT_EQ(wanted[0].top_logits[0], wanted[0].top_logits[2]);
  EXPECT_EQ(wanted[0].top_ids, (std::vector<int32_t>{4, 90, 200}));
  EXPECT_EQ(wanted[1].top_ids[0], 4);
}

TEST_F(SessionTest, AdjustmentsAreAppliedAsAPlainLoopWould) {
  const std::vector<int32_t> ids = {0, 5, 100, 271};
  const std::vector<float> add = {1.5f, -2, 0, 0.25f}, repeat = {1, 1.3f, 2, 0.5f};
  std::vector<uint32_t> mask((kTinyTokens + 31) / 32, 0xFFFFFFFFu);
  mask[1] = 0x0F0F0F0Fu;
  const float temperature = 0.7f;

  std::vector<float> expected = plain_logits();
  for (size_t i = 0; i < ids.size(); ++i) {
    float &logit = expected[static_cast<size_t>(ids[i])];
    logit = (logit > 0 ? logit / repeat[i] : logit * repeat[i]) + add[i];
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(mask[i / 32] >> (i % 32) & 1)) expected[i] = -std::numeric_limits<float>::infinity();
    expected[i] /= temperature;
  }

  TestOutputs wanted = outputs();
  for (bonsai_output *output : {&wanted.logits(0), &wanted.argmax(0), &wanted.top(0, 10)}) {
    output->n_adjustments = static_cast<uint32_t>(ids.size());
    output->adjust_ids = ids.data();
    output->adjust_add = add.data();
    output->adjust_repeat = repeat.data();
    output->mask = mask.data();
    output->temperature = temperature;
  }
  run_token(wanted);
  const std::vector<int32_t> sorted = ids_by_logit(expected);
  EXPECT_EQ(wanted[0].logits, expected);
  EXPECT_EQ(wanted[1].top_ids[0], sorted[0]);
  EXPECT_EQ(wanted[2].top_ids, std::vector<int32_t>(sorted.begin(), sorted.begin() + 10));
}

TEST_F(SessionTest, AMaskThatForbidsEverythingGivesMinusInfinityNotNan) {
  const std::vector<uint32_t> mask((kTinyTokens + 31) / 32, 0);
  TestOutputs wanted = outputs();
  wanted.top(0, 2).mask = mask.data();
  wanted.argmax(0).mask = mask.data();
  run_token(wanted);
  EXPECT_EQ(wanted[0].log_sum_exp, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(wanted[0].top_ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(wanted[1].top_ids[0], 0);
}

TEST_F(SessionTest, NanIsSelectedLast) {
  const std::vector<int32_t> sorted = ids_by_logit(plain_logits());
  ASSERT_GT(plain_logits()[static_cast<size_t>(sorted[0])], 0);
  const std::vector<float> add = {-std::numeric_limits<float>::infinity()};
  const std::vector<float> repeat = {std::numeric_limits<float>::denorm_min()};
  TestOutputs wanted = outputs();
  for (bonsai_output *output : {&wanted.argmax(0), &wanted.top(0, 2)}) {
    output->n_adjustments = 1;
    output->adjust_ids = sorted.data();  // the largest becomes infinite, and then NaN
    output->adjust_add = add.data();
    output->adjust_repeat = repeat.data();
  }
  run_token(wanted);
  EXPECT_EQ(wanted[0].top_ids[0], sorted[1]);
  EXPECT_EQ(wanted[1].top_ids, (std::vector<int32_t>{sorted[1], sorted[2]}));
  EXPECT_TRUE(std::isnan(wanted[1].log_sum_exp));
}

TEST_F(SessionTest, MoreOutputsThanFitInOneGroupAreAllAnswered) {
  TestBatch batch;
  batch.block_table = {blocks_in_order(4)};
  TestOutputs wanted = outputs();
  for (uint32_t i = 0; i < 60; ++i) {
    batch.add(static_cast<int32_t>(i), i);
    i % 7 == 3 ? wanted.hidden_state(i) : wanted.logits(i);
  }
  session.forward(batch, wanted);
  for (const uint32_t i : {0u, 32u, 39u, 58u}) {
    TestOutputs single = outputs();
    single.logits(i);
    session.forward(batch, single);
    EXPECT_EQ(wanted[i].logits, single[0].logits) << i;
  }
  EXPECT_NE(wanted[3].hidden, std::vector<float>(uploaded.spec.hidden));
}

TEST_F(SessionTest, HeadOverTheHiddenOutputGivesTheLogits) {
  TestOutputs wanted = outputs();
  wanted.hidden_state(0);
  wanted.logits(0);
  run_token(wanted);
  std::vector<float> logits(kTinyTokens);
  const bonsai_gemv_args args = {.struct_size = sizeof args,
                                 .n = 1,
                                 .weight = uploaded.spec.head->weight,
                                 .first_row = 0,
                                 .rows = kTinyTokens,
                                 .x = wanted[0].hidden.data(),
                                 .y = logits.data()};
  ASSERT_EQ(device.api.gemv(device.handle, &args, nullptr), BONSAI_OK);
  EXPECT_EQ(logits, wanted[1].logits);
}

TEST_F(SessionTest, WritingAPositionAgainReplacesIt) {
  const std::vector<int32_t> tokens = some_tokens(30, kTinyTokens), wrong = some_tokens(12, kTinyTokens, 5);
  const std::vector<float> expected = session.logits(tokens, 0, blocks_in_order(2));
  session.logits({tokens.begin(), tokens.begin() + 18}, 0, shuffled_blocks(2));
  session.logits(wrong, 18, shuffled_blocks(2));
  EXPECT_EQ(session.logits({tokens.begin() + 18, tokens.end()}, 18, shuffled_blocks(2)), expected);
}

TEST_F(SessionTest, CopiedBlocksContinueAsTheOriginal) {
  const std::vector<int32_t> tokens = some_tokens(40, kTinyTokens);
  session.logits({tokens.begin(), tokens.begin() + 30}, 0, {4, 9, 2});
  const uint32_t sources[] = {4, 9}, destinations[] = {20, 21};
  ASSERT_EQ(session.api.kv_copy(session.handle, sources, destinations, 2, nullptr), BONSAI_OK);
  const std::vector<int32_t> rest(tokens.begin() + 30, tokens.end());
  const std::vector<float> copied = session.logits(rest, 30, {20, 21, 22});
  EXPECT_EQ(session.logits(rest, 30, {4, 9, 2}), copied);
}

TEST_F(SessionTest, ExportedKvContinuesInAnotherSessionWithOtherBlocks) {
  const std::vector<int32_t> tokens = some_tokens(40, kTinyTokens);
  for (const bonsai_kv_dtype dtype : {BONSAI_KV_F16, BONSAI_KV_Q8_0, BONSAI_KV_F32}) {
    bonsai_session_config from_config = small_config(), to_config = small_config();
    from_config.kv_dtype = to_config.kv_dtype = dtype;
    to_config.block_size = 64;
    OpenSession from(uploaded, from_config), to(uploaded, to_config);
    const std::vector<uint32_t> blocks = {3, 30, 11};
    from.logits({tokens.begin(), tokens.begin() + 30}, 0, blocks);

    const uint64_t head_bytes = dtype == BONSAI_KV_F16 ? 64 : dtype == BONSAI_KV_F32 ? 128 : 34;
    std::vector<std::byte> cache(2 * 2 * 30 * 2 * head_bytes);  // layers, K and V, tokens, kv heads
    ASSERT_EQ(from.api.kv_export(from.handle, blocks.data(), 3, 30, cache.data(), cache.size(), nullptr), BONSAI_OK);
    const uint32_t block = 5;
    ASSERT_EQ(to.api.kv_import(to.handle, &block, 1, 30, cache.data(), cache.size(), nullptr), BONSAI_OK);
    std::vector<std::byte> again(cache.size());
    ASSERT_EQ(to.api.kv_export(to.handle, &block, 1, 30, again.data(), again.size(), nullptr), BONSAI_OK);
    EXPECT_EQ(again, cache);
    const std::vector<int32_t> rest(tokens.begin() + 30, tokens.end());
    EXPECT_EQ(to.logits(rest, 30, {5}), from.logits(rest, 30, blocks));
  }
}

TEST_F(SessionTest, TheCanonicalLayoutIsLayerKThenVTokenHead) {
  bonsai_session_config config = small_config();
  config.kv_dtype = BONSAI_KV_F32;
  OpenSession wide(uploaded, config);
  const std::vector<int32_t> tokens = some_tokens(3, kTinyTokens);
  wide.logits(tokens, 0, {6});
  const uint32_t block = 6, head = 32, row = 2 * head;  // floats: head_dim, kv heads * head_dim
  std::vector<float> two(2 * 2 * 2 * row), three(2 * 2 * 3 * row);
  ASSERT_EQ(wide.api.kv_export(wide.handle, &block, 1, 2, two.data(), two.size() * 4, nullptr), BONSAI_OK);
  ASSERT_EQ(wide.api.kv_export(wide.handle, &block, 1, 3, three.data(), three.size() * 4, nullptr), BONSAI_OK);
  for (uint32_t plane = 0; plane < 4; ++plane) {  // layer 0 K, layer 0 V, layer 1 K, layer 1 V
    EXPECT_EQ(0, std::memcmp(two.data() + plane * 2 * row, three.data() + plane * 3 * row, 2 * row * sizeof(float)));
  }
}

TEST_F(SessionTest, TwoSubmitsMayBeInFlightAndAThirdMayNot) {
  TestBatch batch;
  batch.block_table = {{0}};
  batch.add(1, 0);
  const bonsai_batch view = batch.view();
  uint64_t first = 0, second = 0, third = 0;
  bonsai_error error = empty_error();
  const auto submit = [&](uint64_t *ticket) {
    return session.api.forward_submit(session.handle, &view, nullptr, 0, ticket, &error);
  };
  const auto wait = [&](uint64_t ticket) { return session.api.forward_wait(session.handle, ticket, &error); };
  ASSERT_EQ(submit(&first), BONSAI_OK);
  ASSERT_EQ(submit(&second), BONSAI_OK);
  EXPECT_EQ(submit(&third), BONSAI_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "two submits are in flight already: wait for ticket 1");
  EXPECT_EQ(wait(second), BONSAI_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "ticket is 2, expected 1, the oldest in flight");
  EXPECT_EQ(wait(first), BONSAI_OK);
  EXPECT_EQ(wait(first), BONSAI_INVALID_ARGUMENT);
  ASSERT_EQ(submit(&third), BONSAI_OK);
  EXPECT_EQ(wait(second), BONSAI_OK);
  EXPECT_EQ(wait(third), BONSAI_OK);
  EXPECT_EQ(wait(third), BONSAI_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "ticket 3: no submit is in flight");
}

TEST_F(SessionTest, ChainedTokensGiveWhatIdsFromTheHostGive) {
  const std::vector<int32_t> prompt = some_tokens(9, kTinyTokens);
  const auto step = [&](int32_t token, uint32_t position, uint32_t block, TestOutputs &wanted) {
    TestBatch batch;
    batch.block_table = {{block}};
    batch.add(token, position);
    session.forward(batch, wanted);
  };
  const auto start = [&](uint32_t block, TestOutputs &wanted) {
    TestBatch batch;
    batch.block_table = {{block}};
    for (uint32_t i = 0; i < prompt.size(); ++i) batch.add(prompt[i], i);
    session.forward(batch, wanted);
  };
  TestOutputs first = outputs(), second = outputs(), chained = outputs();
  first.logits(8);
  first.argmax(8);
  start(0, first);
  second.logits(0);
  step(first[1].top_ids[0], 9, 0, second);
  start(1, first);
  chained.logits(0);
  chained.top(0, 4);
  step(BONSAI_TOKEN_FROM_OUTPUT(1), 9, 1, chained);
  EXPECT_EQ(chained[0].logits, second[0].logits);
  TestOutputs third = outputs(), fourth = outputs();
  third.logits(0);
  fourth.logits(0);
  step(BONSAI_TOKEN_FROM_OUTPUT(1), 10, 1, third);
  step(chained[1].top_ids[0], 10, 1, fourth);
  EXPECT_EQ(third[0].logits, fourth[0].logits);
}

// Whoever is refused may correct the call and go on: what a layer_encode left, and which tokens a submit selected, is
// still there. What was left is gone with the next submit.
TEST_F(SessionTest, StatesAndSelectedTokensOutliveCallsThatAreRefused) {
  TestBatch batch, good, bad;
  batch.block_table = {{2}};
  good.block_table = bad.block_table = {{3}};
  for (uint32_t i = 0; i < 3; ++i) batch.add(static_cast<int32_t>(i), i);
  bad.add(9999, 0);
  bad.positions[0] = 9999;
  const bonsai_batch view = batch.view(), bad_view = bad.view();
  const std::vector<float> in(3 * loaded.model.config.hidden, 0.5f);
  TestOutputs good_row = outputs(), bad_row = outputs(), chosen = outputs();
  good_row.logits(2);
  bad_row.logits(7);
  chosen.argmax(0);
  good.add(11, 0);
  session.forward(good, chosen);
  uint64_t ticket = 0;
  const auto layer = [&](const bonsai_batch &of, bonsai_error *error) {
    return session.api.layer_encode(session.handle, 0, &of, in.data(), nullptr, error);
  };
  const auto head = [&](const float *rows, const TestOutputs &wanted, bonsai_error *error) {
    return session.api.lm_head(session.handle, rows, 3, wanted.data(), wanted.size(), error);
  };
  const auto submit = [&](const bonsai_batch &of, const TestOutputs &wanted, bonsai_error *error) {
    return session.api.forward_submit(session.handle, &of, wanted.data(), wanted.size(), &ticket, error);
  };
  const auto refuse_all = [&] {
    EXPECT_EQ(layer(bad_view, nullptr), BONSAI_INVALID_ARGUMENT);
    EXPECT_EQ(head(in.data(), bad_row, nullptr), BONSAI_INVALID_ARGUMENT);
    EXPECT_EQ(head(nullptr, bad_row, nullptr), BONSAI_INVALID_ARGUMENT);
    EXPECT_EQ(submit(bad_view, chosen, nullptr), BONSAI_INVALID_ARGUMENT);
    EXPECT_EQ(submit(view, bad_row, nullptr), BONSAI_INVALID_ARGUMENT);
  };

  bonsai_error error = empty_error();
  require_ok(layer(view, &error), error);
  require_ok(head(nullptr, good_row, &error), error);
  const std::vector<float> expected = good_row[0].logits;
  refuse_all();
  require_ok(head(nullptr, good_row, &error), error);
  EXPECT_EQ(good_row[0].logits, expected);

  TestBatch chained, told;
  chained.block_table = told.block_table = {{3}};
  chained.add(BONSAI_TOKEN_FROM_OUTPUT(0), 1);
  told.add(chosen[0].top_ids[0], 1);
  TestOutputs after_chained = outputs(), after_told = outputs();
  after_chained.logits(0);
  after_told.logits(0);
  session.forward(chained, after_chained);
  BONSAI_EXPECT_FAILS(head(nullptr, good_row, &error), BONSAI_INVALID_ARGUMENT,
                      "in is NULL and the previous layer_encode left 0 states, expected n_rows, 3");
  BONSAI_EXPECT_FAILS(submit(chained.view(), after_chained, &error), BONSAI_INVALID_ARGUMENT,
                      "batch->tokens[0] refers to output 0, which selected no token in the previous submit");
  session.forward(told, after_told);
  EXPECT_EQ(after_chained[0].logits, after_told[0].logits);
}

TEST_F(SessionTest, SessionMemoryIsWhatTheSessionTakes) {
  for (const bonsai_kv_dtype dtype : {BONSAI_KV_F16, BONSAI_KV_Q8_0, BONSAI_KV_F32}) {
    bonsai_session_config config = small_config();
    config.kv_dtype = dtype;
    bonsai_session_memory memory = {.struct_size = sizeof memory, .reserved = 0, .device_bytes = 0, .host_bytes = 0};
    bonsai_model_spec spec = uploaded.spec;
    bonsai_weight_slice no_weight = *spec.head;
    no_weight.weight = nullptr;
    spec.embedding = spec.head = &no_weight;
    ASSERT_EQ(device.api.session_memory(device.handle, &spec, &config, &memory, nullptr), BONSAI_OK);
    const uint64_t before = device.status().session_bytes;
    {
      OpenSession other(uploaded, config);
      EXPECT_EQ(device.status().session_bytes - before, memory.device_bytes);
      EXPECT_EQ(memory.host_bytes, memory.device_bytes);
    }
    EXPECT_EQ(device.status().session_bytes, before);
  }
}

// Chunks of positions are spread over threads that have no kv head to themselves, and have no room else.
TEST_F(SessionTest, HasNoRoomForChunksWhereEveryThreadHasAsManyHeads) {
  ASSERT_NE(loaded.model.config.kv_heads % 3, 0u);
  const auto growth = [&](const char *threads) {
    OpenDevice device(kPlugin, {{"cpu.threads", threads}});
    UploadedModel uploaded(device, loaded.model);
    bonsai_session_config config = small_config();
    const auto bytes_of = [&](uint32_t blocks) {
      config.max_blocks_per_sequence = blocks;
      bonsai_session_memory memory = {.struct_size = sizeof memory, .reserved = 0, .device_bytes = 0, .host_bytes = 0};
      EXPECT_EQ(device.api.session_memory(device.handle, &uploaded.spec, &config, &memory, nullptr), BONSAI_OK);
      return memory.device_bytes;
    };
    return bytes_of(16) - bytes_of(1);
  };
  EXPECT_EQ(growth("1"), 0u);
  EXPECT_EQ(growth("2"), 0u);
  EXPECT_GT(growth("3"), 0u);
}

TEST_F(SessionTest, BiasesAreAdded) {
  const std::vector<float> without = plain_logits();
  const std::vector<float> zeros(128, 0.0f), some(128, 0.5f);
  for (bonsai_layer_spec &layer : uploaded.layers) {
    layer.q_bias = layer.k_bias = layer.v_bias = layer.o_bias = zeros.data();
  }
  const auto logits = [&] {
    OpenSession other(uploaded, small_config());
    return other.logits({7}, 0, {1});
  };
  EXPECT_EQ(logits(), without);
  uploaded.layers[0].v_bias = some.data();
  const std::vector<float> with_v = logits();
  EXPECT_NE(with_v, without);
  uploaded.layers[0].v_bias = nullptr;
  uploaded.layers[1].o_bias = some.data();
  EXPECT_NE(logits(), without);
  EXPECT_NE(logits(), with_v);
}

}  // namespace
}  // namespace bonsai::test
