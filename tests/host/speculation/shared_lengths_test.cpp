// Guesses of several texts in one pass: where they pay for all, and where they would only be in the way.
#include "host/speculation/shared_lengths.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "host/speculation/draft_length.h"

namespace bonsai::host {
namespace {

using Lengths = std::vector<uint32_t>;

// Passes of n tokens cost 1 + slope * (n - 1) single ones.
struct Machine {
  explicit Machine(double slope) {
    costs.add(1, 1);
    for (uint32_t n = 2; n <= PassCosts::kMostTokens; ++n) costs.add(n, 1 + slope * (n - 1));
  }
  PassCosts costs;
};

Lengths choose(const std::vector<TextChance> &texts, double slope, uint32_t most = 15) {
  return choose_shared_lengths(texts, most, Machine(slope).costs);
}

TextChance repeats(uint32_t most = 100) { return {.acceptance = 0.98, .most = most}; }
TextChance silent() { return {}; }

TEST(SharedLengths, NothingIsGuessedBeforeAPassWasMeasured) {
  EXPECT_EQ(choose_shared_lengths(std::vector{repeats()}, 15, PassCosts()), Lengths{0});
  EXPECT_EQ(choose_shared_lengths({}, 15, Machine(0).costs), Lengths{});
}

// A text alone guesses as much as in a session of its own.
TEST(SharedLengths, OfOneTextAreThoseOfDraftLength) {
  for (const int n_refused : {0, 2, 5, 9, 20, 60}) {
    DraftLength length;
    for (int i = 0; i < 60; ++i) length.saw(Drafter::kFourTokens, true);
    for (int i = 0; i < n_refused; ++i) length.saw(Drafter::kFourTokens, false);
    for (const double slope : {0.02, 0.1, 0.3, 0.7}) {
      const Machine machine(slope);
      const TextChance text{.acceptance = length.acceptance(Drafter::kFourTokens), .most = 15};
      EXPECT_EQ(choose_shared_lengths({&text, 1}, 15, machine.costs),
                Lengths{length.choose(Drafter::kFourTokens, 15, machine.costs, 0)})
          << n_refused << " refused, slope " << slope;
    }
  }
}

TEST(SharedLengths, TextsThatAreAlikeGuessAlike) {
  EXPECT_EQ(choose({repeats(), repeats()}, 0.05), (Lengths{7, 7}));
  EXPECT_EQ(choose({repeats(), repeats(), repeats(), repeats()}, 0.05), (Lengths{3, 3, 3, 3}));
}

TEST(SharedLengths, WhereAPassTakesAsLongAsItsTokensNothingPays) {
  for (size_t n = 1; n < 16; ++n) EXPECT_EQ(choose(std::vector(n, repeats()), 1), Lengths(n, 0)) << n;
}

// Four tokens at the price of one, and no more: what one text gains, four do not.
TEST(SharedLengths, ACrowdThatFillsThePassGuessesNothing) {
  PassCosts costs;
  costs.add(1, 1);
  for (uint32_t n = 2; n <= 16; ++n) costs.add(n, n <= 4 ? 1 : n / 4.0);
  EXPECT_EQ(choose_shared_lengths(std::vector(1, repeats()), 15, costs), Lengths{3});
  EXPECT_EQ(choose_shared_lengths(std::vector(2, repeats()), 14, costs), (Lengths{1, 1}));
  EXPECT_EQ(choose_shared_lengths(std::vector(4, repeats()), 12, costs), (Lengths(4, 0)));
  EXPECT_EQ(choose_shared_lengths(std::vector(16, repeats()), 12, costs), (Lengths(16, 0)));
}

// One text of four would go on at five times the speed, and all together at nearly twice; three would wait longer.
TEST(SharedLengths, OneTextsGainIsNotTheOthersLoss) {
  EXPECT_EQ(choose({repeats(), silent(), silent(), silent()}, 0.25), Lengths(4, 0));
  EXPECT_EQ(choose({repeats(), silent()}, 0.2), Lengths(2, 0));
  const Lengths cheap = choose({repeats(), silent(), silent(), silent()}, 0.01);
  EXPECT_GE(cheap[0], 4u);
  EXPECT_EQ(cheap[1] + cheap[2] + cheap[3], 0u);
}

TEST(SharedLengths, GoToThoseThatAreLikelyRight) {
  const Lengths lengths = choose({{.acceptance = 0.3, .most = 15}, repeats(), {.acceptance = 0.6, .most = 15}}, 0.02);
  EXPECT_GT(lengths[1], lengths[2]);
  EXPECT_GE(lengths[2], lengths[0]);
}

// The promises of the header, for anything.
TEST(SharedLengths, KeepToWhatIsAllowedWhateverComes) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> share(0, 1);
  uint32_t n_guessing = 0;
  for (int round = 0; round < 20000; ++round) {
    const Machine machine(share(random) * 0.4);
    std::vector<TextChance> texts(1 + random() % 16);
    for (TextChance &text : texts)
      if (random() % 3 > 0)
        text = {.acceptance = 0.98 * std::sqrt(share(random)), .most = static_cast<uint32_t>(random() % 9)};
    const uint32_t most = random() % 16;
    const Lengths lengths = choose_shared_lengths(texts, most, machine.costs);
    ASSERT_EQ(lengths.size(), texts.size());
    const uint32_t n_guesses = std::accumulate(lengths.begin(), lengths.end(), 0u);
    if (n_guesses == 0) continue;
    ++n_guessing;
    const auto n_texts = static_cast<uint32_t>(texts.size()), n = n_texts + n_guesses;
    ASSERT_LE(n_guesses, most);
    ASSERT_TRUE(n == 2 || n == 4 || n == 8 || n == 16) << n;
    const double ratio = machine.costs.ratio(n) / machine.costs.ratio(n_texts);
    double product = 1;
    for (size_t i = 0; i < texts.size(); ++i) {
      ASSERT_LE(lengths[i], texts[i].most);
      double tokens = 1, power = 1;
      for (uint32_t k = 0; k < lengths[i]; ++k) tokens += power *= texts[i].acceptance;
      ASSERT_GE(tokens / ratio, 0.8 - 1e-9);
      product *= tokens / ratio;
    }
    ASSERT_GT(product, 1.0);
  }
  EXPECT_GT(n_guessing, 2000u);
}

}  // namespace
}  // namespace bonsai::host
