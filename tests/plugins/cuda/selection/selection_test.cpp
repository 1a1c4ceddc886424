// The kernels of selection.cu give what the ABI promises of outputs, in every order in which a device may run threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "tests/plugins/cuda/selection/runner.h"

namespace bonsai::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kQwenVocab = 151'936;

using Row = std::vector<float>;

Row random_row(uint32_t vocab, unsigned seed, float mean = 2, float deviation = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(mean, deviation);
  Row row(vocab);
  for (float &logit : row) logit = normal(random);
  return row;
}

std::vector<int32_t> random_ids(uint32_t vocab, uint32_t n, unsigned seed) {
  std::vector<int32_t> ids(vocab);
  std::iota(ids.begin(), ids.end(), 0);
  std::shuffle(ids.begin(), ids.end(), std::mt19937(seed));
  ids.resize(std::min(n, vocab));
  return ids;
}

std::vector<uint32_t> mask_of(uint32_t vocab, const std::vector<int32_t> &allowed) {
  std::vector<uint32_t> mask((vocab + 31) / 32);
  for (const int32_t id : allowed) mask[static_cast<uint32_t>(id) / 32] |= 1u << (id % 32);
  return mask;
}

Wanted logits() { return {.kind = BONSAI_OUTPUT_LOGITS}; }
Wanted argmax() { return {.kind = BONSAI_OUTPUT_ARGMAX}; }
Wanted top(uint32_t k) { return {.kind = BONSAI_OUTPUT_TOP_K, .k = k}; }
Wanted hidden() { return {.kind = BONSAI_OUTPUT_HIDDEN}; }

Wanted with_adjustments(Wanted wanted, uint32_t vocab, uint32_t n, unsigned seed) {
  std::mt19937 random(seed);
  wanted.adjust_ids = random_ids(vocab, n, seed);
  for (size_t i = 0; i < wanted.adjust_ids.size(); ++i) {
    wanted.adjust_add.push_back(static_cast<float>(random() % 4) - 2);
    wanted.adjust_repeat.push_back(i % 3 == 0 ? 1.0f : 1.3f);
  }
  return wanted;
}

Wanted with_mask(Wanted wanted, uint32_t vocab, const std::vector<int32_t> &allowed) {
  wanted.mask = mask_of(vocab, allowed);
  return wanted;
}

Wanted with_temperature(Wanted wanted, float temperature) {
  wanted.temperature = temperature;
  return wanted;
}

Wanted with_ids(Wanted wanted, std::vector<int32_t> ids) {
  wanted.ids = std::move(ids);
  return wanted;
}

Wanted of_token(Wanted wanted, uint32_t token) {
  wanted.token = token;
  return wanted;
}

void expect_right(const Setting &setting, const std::vector<Row> &rows, const std::vector<Wanted> &wanted) {
  const std::vector<Given> given = run(setting, rows, wanted);
  ASSERT_EQ(given.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(difference(expected(wanted[i], rows[wanted[i].token]), given[i]), "") << "output " << i;
  }
}

// Every kind, plain and with everything that may be asked for beside it.
std::vector<Wanted> every_kind(uint32_t vocab) {
  std::vector<Wanted> wanted = {logits(), argmax(), hidden()};
  const auto half = random_ids(vocab, vocab / 2 + 1, 1);
  for (const Wanted &plain : {logits(), argmax(), top(std::min(40u, vocab))}) {
    wanted.push_back(with_adjustments(plain, vocab, 300, 2));
    wanted.push_back(with_mask(plain, vocab, half));
    wanted.push_back(with_temperature(plain, 0.7f));
    wanted.push_back(with_temperature(with_mask(with_adjustments(plain, vocab, 300, 3), vocab, half), 1.7f));
  }
  for (const uint32_t k : {1u, 2u, 40u, 1024u}) {
    if (k > vocab) continue;
    wanted.push_back(with_ids(top(k), random_ids(vocab, 20, 4)));
    wanted.push_back(wanted.back());
    wanted.back().has_log_sum_exp = false;
  }
  if (vocab <= 1024) wanted.push_back(top(vocab));
  return wanted;
}

class EveryOrder : public testing::TestWithParam<emulation::Order> {};

std::string order_name(const testing::TestParamInfo<emulation::Order> &order) {
  constexpr const char *kNames[] = {"forward", "backward", "random"};
  const std::string name = kNames[static_cast<int>(order.param.kind)];
  return order.param.seed ? name + std::to_string(order.param.seed) : name;
}

INSTANTIATE_TEST_SUITE_P(Selection, EveryOrder, testing::ValuesIn(emulation::kOrders), order_name);

TEST_P(EveryOrder, GivesWhatEveryKindPromises) {
  for (const uint32_t vocab : {1u, 2u, 33u, 64u, 65u, 1000u, 1024u, 1025u, 4097u}) {
    SCOPED_TRACE(vocab);
    expect_right({.vocab = vocab, .order = GetParam()}, {random_row(vocab, vocab)}, every_kind(vocab));
  }
}

TEST_P(EveryOrder, ServesTheLargeVocabularyOfQwen) {
  const Wanted adjusted = with_temperature(with_adjustments(top(40), kQwenVocab, 500, 5), 0.7f);
  expect_right({.vocab = kQwenVocab, .order = GetParam()}, {random_row(kQwenVocab, 1)},
               {argmax(), adjusted, top(1), with_ids(top(1024), random_ids(kQwenVocab, 100, 6))});
}

TEST_P(EveryOrder, GivesTheSameBytesToARowWhateverIsComputedBesideIt) {
  constexpr uint32_t kVocab = 4097;
  std::vector<Row> rows;
  for (unsigned i = 0; i < 5; ++i) rows.push_back(random_row(kVocab, 10 + i));
  std::vector<Wanted> wanted;
  for (const Wanted &kind : every_kind(kVocab)) {
    wanted.push_back(of_token(kind, static_cast<uint32_t>(wanted.size()) % 5));
  }
  const std::vector<Given> together = run({.vocab = kVocab, .group_rows = 8, .order = GetParam()}, rows, wanted);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<Given> alone = run({.vocab = kVocab, .group_rows = 1}, rows, {wanted[i]});
    EXPECT_EQ(bytes_of(together[i]), bytes_of(alone[0])) << "output " << i;
  }
}

// A tie goes to the lower id; +0 and -0 are equal, and come back as they are.
TEST_P(EveryOrder, OrdersEqualLogitsById) {
  constexpr uint32_t kVocab = 9000;
  Row coarse = random_row(kVocab, 20), zeros(kVocab);
  for (float &logit : coarse) logit = std::round(logit);
  for (uint32_t id = 0; id < kVocab; id += 3) zeros[id] = -0.0f;
  for (const Row &row : {coarse, zeros, Row(kVocab, -5.0f)}) {
    expect_right({.vocab = kVocab, .order = GetParam()}, {row}, {argmax(), top(1), top(40), top(1024)});
  }
}

TEST_P(EveryOrder, PutsNanAfterEverythingElse) {
  constexpr uint32_t kVocab = 3000;
  Row some = random_row(kVocab, 21), few_left(kVocab, kNan), lowest(kVocab, kNan), highest = some;
  for (uint32_t id = 0; id < kVocab; id += 7) some[id] = highest[id] = kNan;
  few_left[1500] = few_left[2999] = 1;
  for (uint32_t id = 100; id < 200; ++id) lowest[id] = -kInfinity;
  highest[2000] = kInfinity;
  for (const Row &row : {some, few_left, lowest, highest, Row(kVocab, kNan)}) {
    expect_right({.vocab = kVocab, .order = GetParam()}, {row},
                 {argmax(), with_ids(top(40), {0, 1500}), top(1024), with_mask(top(50), kVocab, {7, 8, 2000})});
  }
}

// More logits are equal than a block sorts: a grammar allows a few tokens, and the rest is -infinity.
TEST_P(EveryOrder, FillsUpWithMaskedTokensInTheOrderOfTheirIds) {
  const std::vector<int32_t> allowed = {3, 70'000, 70'001, 151'935};
  expect_right({.vocab = kQwenVocab, .order = GetParam()}, {random_row(kQwenVocab, 22)},
               {with_mask(argmax(), kQwenVocab, allowed), with_mask(top(40), kQwenVocab, allowed),
                with_mask(top(1024), kQwenVocab, allowed), with_mask(top(1024), kQwenVocab, {})});
}

TEST(Selection, FindsTheLargestWhereverTheyLie) {
  constexpr uint32_t kVocab = 70'000;
  Row rising(kVocab), falling(kVocab), one_segment = random_row(kVocab, 23);
  std::iota(rising.begin(), rising.end(), -10.0f);
  std::iota(falling.rbegin(), falling.rend(), -10.0f);
  std::iota(one_segment.begin() + 64 * 500, one_segment.begin() + 64 * 501, 100.0f);
  for (const Row &row : {rising, falling, one_segment}) {
    expect_right({.vocab = kVocab}, {row}, {argmax(), top(40), top(64), top(65), top(1024)});
  }
}

// Logits that differ only in their last bits, and ids only in theirs.
TEST(Selection, TellsNeighbouringNumbersApart) {
  constexpr uint32_t kVocab = 20'000;
  Row row(kVocab);
  const std::vector<int32_t> places = random_ids(kVocab, kVocab, 24);
  for (uint32_t i = 0; i < kVocab; ++i) {
    row[static_cast<uint32_t>(places[i])] = 10 + static_cast<float>(i / 4) * 0x1p-20f;
  }
  expect_right({.vocab = kVocab}, {row}, {argmax(), top(40), top(1024)});
}

TEST(Selection, AddsExponentialsAsFloat64Does) {
  constexpr uint32_t kVocab = kQwenVocab;
  std::vector<Row> rows = {random_row(kVocab, 30, -12, 1), random_row(kVocab, 31, 0, 0.01f),
                           random_row(kVocab, 32, 50, 40), random_row(kVocab, 33, -1000, 5), Row(kVocab, 90.5f)};
  rows.push_back(Row(kVocab, -200.0f));  // one token takes it all
  rows.back()[5000] = 20;
  rows.push_back(Row(kVocab, 89.9f));  // all chunks count, and the first is the largest
  rows.back()[0] = 100.3f;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Given given = run({.vocab = kVocab}, rows, {of_token(top(1), static_cast<uint32_t>(i))})[0];
    const double exact = log_sum_exp(rows[i]);
    EXPECT_NEAR(given.log_sum_exp[0], exact, 1e-6 * std::abs(exact)) << i;
  }
}

// n equal logits: the sum is exactly n, so that only the logarithm rounds.
TEST(Selection, TakesLogarithmsToTheLastBit) {
  for (uint32_t n = 1; n <= 150; ++n) {
    const float sum = run({.vocab = n}, {Row(n, 0.0f)}, {top(1)})[0].log_sum_exp[0];
    EXPECT_EQ(sum, static_cast<float>(std::log(n))) << n;
  }
}

TEST(Selection, GivesAnInfiniteLargestLogitAsLogSumExp) {
  const auto log_sum_exp_of = [](const Row &row) {
    return run({.vocab = static_cast<uint32_t>(row.size())}, {row}, {top(1)})[0].log_sum_exp[0];
  };
  EXPECT_EQ(log_sum_exp_of({1, kInfinity, 2, kNan}), kInfinity);
  EXPECT_EQ(log_sum_exp_of({-kInfinity, -kInfinity}), -kInfinity);
  EXPECT_EQ(log_sum_exp_of({-kInfinity, kNan}), -kInfinity);
  EXPECT_EQ(log_sum_exp_of({kNan, kNan}), -kInfinity);
  EXPECT_TRUE(std::isnan(log_sum_exp_of({1, kNan})));
  Row far(5000, 1.0f);  // in another chunk than the largest, which is all that counts
  far[0] = 500;
  far[4000] = kNan;
  EXPECT_TRUE(std::isnan(log_sum_exp_of(far)));
}

// The order of the ABI: repetition factor and addition, mask, temperature.
TEST(Selection, AdjustsInTheOrderOfTheInterface) {
  Wanted wanted = with_temperature(with_mask(logits(), 5, {0, 1, 2, 4}), 2);
  wanted.adjust_ids = {2, 0, 3};
  wanted.adjust_add = {1, -8, 100};
  wanted.adjust_repeat = {4, 3, 2};
  const Row row = {-2, 6, 8, 1, -0.0f};
  EXPECT_EQ(run({.vocab = 5}, {row}, {wanted})[0].row, (Row{-7, 3, 1.5f, -kInfinity, -0.0f}));
}

TEST(Selection, LeavesLogitsAloneAtTemperaturesZeroAndOne) {
  const Row row = {1, -2, 3};
  for (const float temperature : {0.0f, 1.0f}) {
    EXPECT_EQ(run({.vocab = 3}, {row}, {with_temperature(logits(), temperature)})[0].row, row);
  }
}

TEST(Selection, SelectsATokenWhereTheKindDoes) {
  const std::vector<Row> rows = {{1, 5, 2}, {7, 5, 2}};
  const std::vector<Given> given =
      run({.vocab = 3, .group_rows = 2}, rows,
          {hidden(), argmax(), logits(), of_token(top(2), 1), of_token(argmax(), 1), hidden()});
  std::vector<int32_t> selected;
  for (const Given &one : given) selected.push_back(one.selected);
  EXPECT_EQ(selected, (std::vector<int32_t>{-1, 1, -1, 0, 0, -1}));
}

TEST(Selection, KeepsWhatASubmitSelectedFromCallsThatNothingIsChainedTo) {
  const std::vector<Row> rows = {{1, 5, 2}};
  const std::vector<Given> given = run({.vocab = 3, .chains = false}, rows, {hidden(), argmax(), logits(), top(2)});
  for (const Given &one : given) EXPECT_EQ(one.selected, static_cast<int32_t>(0xA5A5A5A5));
  EXPECT_EQ(given[1].top_ids, std::vector<int32_t>{1});
  EXPECT_EQ(given[3].top_ids, (std::vector<int32_t>{1, 2}));
}

}  // namespace
}  // namespace bonsai::cuda
