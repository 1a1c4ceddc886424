// The code that takes logits many at a time against the plain words of the ABI: ties, NaN, both zeros, infinities, and
// vocabularies that are no whole number of anything.
#include "plugins/cpu/selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace bonsai::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr uint32_t kVocabularies[] = {1, 15, 31, 32, 33, 64, 100, 1000, 4099};

// `kind` 0: hardly two are equal; 1: many are; 2: nearly all are -infinity; 3: those of 1, with NaN among them.
std::vector<float> random_logits(std::mt19937 &random, uint32_t vocab, uint32_t kind) {
  std::vector<float> logits(vocab);
  for (float &logit : logits) {
    const auto number = static_cast<float>(random() % 2'000'000) * 1e-5f - 10;
    logit = kind == 0 ? number : std::trunc(number);  // -0 among them
    if (kind == 2 && random() % 50 != 0) logit = -kInfinity;
    if (kind == 3 && random() % 9 == 0) logit = std::numeric_limits<float>::quiet_NaN();
    if (random() % 500 == 0) logit = kInfinity;
  }
  return logits;
}

std::vector<int32_t> top_by_sorting(const std::vector<float> &logits, uint32_t k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<uint32_t>(a)], y = logits[static_cast<uint32_t>(b)];
    return std::isnan(x) || std::isnan(y) ? !std::isnan(x) && std::isnan(y) : x > y;
  });
  ids.resize(k);
  return ids;
}

struct Piece {
  uint32_t first, last;
};

// The vocabulary in pieces of random lengths, in order or in any.
std::vector<Piece> random_pieces(std::mt19937 &random, uint32_t vocab, bool in_order) {
  std::vector<Piece> pieces;
  for (uint32_t first = 0; first < vocab;) {
    const uint32_t last = std::min<uint32_t>(vocab, first + 1 + static_cast<uint32_t>(random()) % 200);
    pieces.push_back({first, last});
    first = last;
  }
  if (!in_order) std::ranges::shuffle(pieces, random);
  return pieces;
}

std::span<const float> logits_of(const std::vector<float> &logits, Piece piece) {
  return std::span(logits).subspan(piece.first, piece.last - piece.first);
}

// -infinity in the place of what a worker can do without.
std::vector<float> wanted_of(std::span<const float> logits, std::optional<float> least) {
  std::vector<float> wanted(logits.begin(), logits.end());
  for (float &logit : wanted) {
    if (least && !(logit > *least)) logit = -std::numeric_limits<float>::infinity();
  }
  return wanted;
}

float below(float value) { return std::nextafter(value, -kInfinity); }

// Two workers, as far as they get, with and without what they say that they do not need.
TEST(TopLogits, AgreeWithSortingInAnyPieces) {
  std::mt19937 random(1);
  for (const uint32_t vocab : kVocabularies) {
    for (uint32_t round = 0; round < 40; ++round) {
      const std::vector<float> logits = random_logits(random, vocab, round % 4);
      const uint32_t k = round < 4 ? vocab : 1 + static_cast<uint32_t>(random()) % std::min(vocab, 60u);
      TopLogits workers[2];
      std::vector<uint64_t> ranks[2] = {std::vector<uint64_t>(k), std::vector<uint64_t>(k)};
      for (const Piece piece : random_pieces(random, vocab, round % 3 != 0)) {
        const size_t worker = random() % 2;
        const std::span<const float> some = logits_of(logits, piece);
        workers[worker].add(wanted_of(some, workers[worker].least(piece.first, ranks[worker])), piece.first,
                            ranks[worker]);
      }
      workers[0].add(workers[1], ranks[1], ranks[0]);
      std::vector<int32_t> ids(k);
      std::vector<float> values(k);
      workers[0].list(ranks[0], ids, values.data());
      ASSERT_EQ(ids, top_by_sorting(logits, k)) << vocab << " logits, " << k << " asked for, round " << round;
      for (uint32_t i = 0; i < k; ++i) {
        const float logit = logits[static_cast<uint32_t>(ids[i])];
        ASSERT_TRUE(values[i] == logit || (std::isnan(values[i]) && std::isnan(logit))) << values[i] << ", " << logit;
      }
    }
  }
}

TEST(TopLogits, HasALeastOnceNothingElseIsLeft) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<uint64_t> ranks(3);
  TopLogits top;
  EXPECT_FALSE(top.least(0, ranks));
  top.add(std::vector{1.0f, nan, nan}, 0, ranks);
  EXPECT_FALSE(top.least(3, ranks)) << "anything is larger than NaN";
  top.add(std::vector{2.0f, nan}, 3, ranks);
  EXPECT_FALSE(top.least(5, ranks));
  top.add(std::vector{-1.0f}, 5, ranks);
  EXPECT_EQ(top.least(6, ranks), -1.0f);
  EXPECT_EQ(top.least(5, ranks), below(-1.0f)) << "an equal logit with a lower id comes first";
}

TEST(TopLogits, HasNoLeastBeforeMinusInfinity) {
  std::vector<uint64_t> ranks(1);
  TopLogits top;
  top.add(std::vector{-kInfinity}, 5, ranks);
  EXPECT_EQ(top.least(6, ranks), -kInfinity);
  EXPECT_FALSE(top.least(0, ranks));
  top.add(std::vector{-kInfinity, -kInfinity}, 3, ranks);
  int32_t id = -1;
  float logit = 0;
  top.list(ranks, {&id, 1}, &logit);
  EXPECT_EQ(id, 3);
}

TEST(LargestLogit, HasALeastBehindItsId) {
  LargestLogit largest;
  EXPECT_FALSE(largest.least(0));
  largest.add(portable_kernels(), std::vector{std::numeric_limits<float>::quiet_NaN()}, 0);
  EXPECT_FALSE(largest.least(1));
  largest.add(portable_kernels(), std::vector{-2.0f, 3.0f}, 10);
  EXPECT_EQ(largest.least(12), 3.0f);
  EXPECT_EQ(largest.least(11), below(3.0f)) << "an equal logit with a lower id comes first";
}

TEST(LargestLogit, IsTheFirstOfTheTopInAnyPieces) {
  std::mt19937 random(3);
  for (const uint32_t vocab : kVocabularies) {
    for (uint32_t round = 0; round < 40; ++round) {
      std::vector<float> logits = random_logits(random, vocab, round % 4);
      if (round == 39) std::ranges::fill(logits, std::numeric_limits<float>::quiet_NaN());
      LargestLogit workers[2];
      for (const Piece piece : random_pieces(random, vocab, round % 3 != 0)) {
        LargestLogit &worker = workers[random() % 2];
        const std::span<const float> some = logits_of(logits, piece);
        worker.add(portable_kernels(), wanted_of(some, worker.least(piece.first)), piece.first);
      }
      workers[0].add(workers[1]);
      ASSERT_EQ(workers[0].id(), top_by_sorting(logits, 1)[0]) << vocab << " logits, round " << round;
      const float logit = logits[static_cast<uint32_t>(workers[0].id())];
      ASSERT_EQ(std::isnan(workers[0].value()), std::isnan(logit));
      if (!std::isnan(logit)) {
        ASSERT_EQ(workers[0].value(), logit);
      }
    }
  }
}

float log_sum_exp_in_pieces(const std::vector<float> &logits, const std::vector<Piece> &pieces) {
  std::vector<ExpSum> sums;
  for (const Piece piece : pieces) sums.push_back(exp_sum(portable_kernels(), logits_of(logits, piece)));
  return log_sum_exp(portable_kernels(), sums);
}

TEST(LogSumExp, AgreesWithDoublesInAnyPieces) {
  std::mt19937 random(4);
  for (const uint32_t vocab : kVocabularies) {
    for (uint32_t round = 0; round < 20; ++round) {
      std::vector<float> logits = random_logits(random, vocab, 2 * (round % 2));  // whole pieces of -infinity, too
      std::ranges::replace(logits, kInfinity, 3.0f);
      logits[0] = 1.5f;
      double sum = 0;
      for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
      EXPECT_NEAR(log_sum_exp_in_pieces(logits, random_pieces(random, vocab, true)), std::log(sum), 2e-6);
    }
  }
}

TEST(LogSumExp, TellsInfinityAndNan) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<Piece> pieces = {{0, 2}, {2, 4}};
  EXPECT_EQ(log_sum_exp_in_pieces({-kInfinity, -kInfinity, -kInfinity, kNan}, pieces), -kInfinity);
  EXPECT_EQ(log_sum_exp_in_pieces({kNan, 1, kInfinity, 2}, pieces), kInfinity);
  EXPECT_TRUE(std::isnan(log_sum_exp_in_pieces({kNan, 1, 2, 3}, pieces)));
  EXPECT_TRUE(std::isnan(log_sum_exp_in_pieces({kNan, kNan, 2, 3}, pieces)));
  EXPECT_TRUE(std::isnan(log_sum_exp_in_pieces({2, 3, -kInfinity, kNan}, pieces)));
}

TEST(AdjustLogits, ForbidsWhatTheMaskDoesNotAllow) {
  std::mt19937 random(2);
  for (const uint32_t vocab : kVocabularies) {
    for (uint32_t round = 0; round < 40; ++round) {
      const std::vector<float> before = random_logits(random, vocab, round % 4);
      std::vector<uint32_t> mask((vocab + 31) / 32);
      for (uint32_t &word : mask)
        word = random() % 3 == 0 ? 0 : random() % 2 == 0 ? ~0u : static_cast<uint32_t>(random());
      bonsai_output output{};
      output.mask = mask.data();
      std::vector<float> expected = before, found = before;
      for (uint32_t i = 0; i < vocab; ++i)
        if (!(mask[i / 32] >> (i % 32) & 1)) expected[i] = -kInfinity;
      adjust_logits(output, false, found);
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), vocab * sizeof(float)), 0) << vocab << ", round " << round;
      found = before;
      for (const Piece piece : random_pieces(random, vocab, true)) {
        adjust_logits(output, false, std::span(found).subspan(piece.first, piece.last - piece.first), piece.first);
      }
      ASSERT_EQ(std::memcmp(found.data(), expected.data(), vocab * sizeof(float)), 0) << "in pieces, " << vocab;
    }
  }
}

TEST(AdjustLogits, FindsItsIdsInAnyPiece) {
  std::mt19937 random(5);
  const uint32_t vocab = 1000;
  const std::vector<float> before = random_logits(random, vocab, 0);
  const std::vector<int32_t> ids = {999, 0, 500, 31, 32};
  const std::vector<float> repeat = {1, 2, 0.5f, 3, 1}, add = {1, 0, -2, 0.25f, -kInfinity};
  bonsai_output output{};
  output.n_adjustments = static_cast<uint32_t>(ids.size());
  output.adjust_ids = ids.data();
  output.adjust_repeat = repeat.data();
  output.adjust_add = add.data();
  output.temperature = 0.5f;
  std::vector<float> whole = before;
  adjust_logits(output, false, whole);
  EXPECT_EQ(whole[32], -kInfinity);
  EXPECT_EQ(whole[999], (before[999] + 1) / 0.5f);
  std::vector<float> found = before;
  for (const Piece piece : random_pieces(random, vocab, false)) {
    adjust_logits(output, false, std::span(found).subspan(piece.first, piece.last - piece.first), piece.first);
  }
  EXPECT_EQ(std::memcmp(found.data(), whole.data(), vocab * sizeof(float)), 0);
}

TEST(AdjustLogits, FindsRisingIdsWithoutALookAtAll) {
  std::mt19937 random(6);
  const uint32_t vocab = 1000;
  const std::vector<float> before = random_logits(random, vocab, 0);
  std::vector<int32_t> ids;
  std::vector<float> add;
  for (uint32_t id = 0; id < vocab; ++id) {
    if (random() % 3 != 0) continue;
    ids.push_back(static_cast<int32_t>(id));
    add.push_back(static_cast<float>(id));
  }
  const std::vector<float> repeat(ids.size(), 1);
  bonsai_output output{};
  output.n_adjustments = static_cast<uint32_t>(ids.size());
  output.adjust_ids = ids.data();
  output.adjust_repeat = repeat.data();
  output.adjust_add = add.data();
  ASSERT_TRUE(adjusted_ids_rise(output));
  std::vector<float> expected = before, found = before;
  for (size_t i = 0; i < ids.size(); ++i) expected[static_cast<size_t>(ids[i])] += add[i];
  for (const Piece piece : random_pieces(random, vocab, true)) {
    adjust_logits(output, true, std::span(found).subspan(piece.first, piece.last - piece.first), piece.first);
  }
  EXPECT_EQ(std::memcmp(found.data(), expected.data(), vocab * sizeof(float)), 0);
  std::swap(ids.front(), ids.back());
  EXPECT_FALSE(adjusted_ids_rise(output));
}

}  // namespace
}  // namespace bonsai::cpu
