// Prompt lookup: which earlier place is found, and what is proposed from there.
#include "host/speculation/lookup_drafter.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace bonsai::host {
namespace {

using Tokens = std::vector<int32_t>;

struct Found {
  std::optional<Drafter::Evidence> evidence;
  Tokens tokens;
};

Found look_up(const Tokens &text, uint32_t most, LookupDrafter drafter = LookupDrafter()) {
  drafter.begin(text);
  Found found{drafter.evidence(), {}};
  if (found.evidence) drafter.propose(most, found.tokens);
  return found;
}

TEST(LookupDrafter, FindsNothingWhereNothingRepeats) {
  EXPECT_FALSE(look_up({}, 4).evidence);
  EXPECT_FALSE(look_up({1}, 4).evidence);
  EXPECT_FALSE(look_up({1, 2}, 4).evidence);
  EXPECT_FALSE(look_up({1, 2, 3, 4, 5}, 4).evidence);
  EXPECT_FALSE(look_up({1, 2, 3, 2, 5, 2}, 4).evidence) << "one token alone is no evidence";
}

TEST(LookupDrafter, ProposesWhatFollowedTheLastTokens) {
  const Found found = look_up({1, 2, 7, 8, 9, 5, 1, 2}, 3);
  EXPECT_EQ(found.evidence, Drafter::kTwoTokens);
  EXPECT_EQ(found.tokens, (Tokens{7, 8, 9}));
}

TEST(LookupDrafter, PrefersTheLongerMatchAndThenTheMoreRecent) {
  EXPECT_EQ(look_up({5, 1, 2, 3, 40, 6, 2, 3, 50, 1, 2, 3}, 1).tokens, Tokens{40});
  EXPECT_EQ(look_up({1, 2, 40, 1, 2, 50, 9, 1, 2}, 1).tokens, Tokens{50});
}

TEST(LookupDrafter, SaysHowLongTheMatchIs) {
  const auto evidence_of = [](int32_t n) {
    Tokens text;
    for (int32_t i = 0; i < n; ++i) text.push_back(100 + i);
    text.push_back(1);
    for (int32_t i = 0; i < n; ++i) text.push_back(100 + i);
    return look_up(text, 1).evidence;
  };
  EXPECT_EQ(evidence_of(2), Drafter::kTwoTokens);
  EXPECT_EQ(evidence_of(3), Drafter::kThreeTokens);
  EXPECT_EQ(evidence_of(4), Drafter::kFourTokens);
  EXPECT_EQ(evidence_of(5), Drafter::kFourTokens);
  EXPECT_EQ(evidence_of(6), Drafter::kSixTokens);
  EXPECT_EQ(evidence_of(9), Drafter::kSixTokens);
  EXPECT_EQ(evidence_of(10), Drafter::kTenTokens);
  EXPECT_EQ(evidence_of(40), Drafter::kTenTokens);
}

TEST(LookupDrafter, GoesOnWithAPeriodBeyondTheEndOfTheText) {
  EXPECT_EQ(look_up({3, 1, 2, 3, 1, 2, 3}, 8).tokens, (Tokens{1, 2, 3, 1, 2, 3, 1, 2}));
  EXPECT_EQ(look_up({7, 7, 7, 7}, 5).tokens, (Tokens{7, 7, 7, 7, 7}));
}

TEST(LookupDrafter, ATextThatGrewTokenByTokenIsTheSameText) {
  std::mt19937 random(3);
  LookupDrafter growing;
  growing.begin({});
  Tokens text;
  for (int i = 0; i < 400; ++i) {
    text.push_back(static_cast<int32_t>(random() % 4));
    growing.append(text.back());
    const auto evidence = growing.evidence();
    const Found found = look_up(text, 6);
    ASSERT_EQ(evidence, found.evidence);
    if (!evidence) continue;
    Tokens tokens;
    growing.propose(6, tokens);
    ASSERT_EQ(tokens, found.tokens);
  }
}

// Against a search that looks at every place.
TEST(LookupDrafter, FindsWhatASearchOfTheWholeTextFinds) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    Tokens text(2 + random() % 60);
    for (int32_t &token : text) token = static_cast<int32_t>(random() % 5);
    std::optional<size_t> follower;
    for (size_t n = 6; n >= 2 && !follower; --n) {
      for (size_t at = text.size() - 1; at >= n && !follower && n < text.size(); --at)
        if (std::equal(text.end() - static_cast<long>(n), text.end(), text.begin() + static_cast<long>(at - n)))
          follower = at;
    }
    const Found found = look_up(text, 1);
    ASSERT_EQ(found.evidence.has_value(), follower.has_value());
    ASSERT_EQ(found.tokens, follower ? Tokens{text[*follower]} : Tokens{});
  }
}

// Under these keys all runs have the same hash, so that only the last one is known.
LookupDrafter colliding() { return LookupDrafter(LookupDrafter::Keys()); }

// In front of the follower of a short run there is no place for a longer one.
TEST(LookupDrafter, DoesNotReadAheadOfTheTextWhereHashesCollide) {
  for (int32_t n = 0; n < 12; ++n) {
    Tokens text(static_cast<size_t>(n));
    std::iota(text.begin(), text.end(), 1);
    EXPECT_FALSE(look_up(text, 1, colliding()).evidence) << n;
  }
}

TEST(LookupDrafter, FindsOnlyWhatIsThereWhereHashesCollide) {
  EXPECT_FALSE(look_up({1, 2, 5, 3, 4, 6, 1, 2}, 1, colliding()).evidence) << "3, 4, 6 took the place of 1, 2";
  EXPECT_EQ(look_up({1, 1, 1, 1}, 2, colliding()).tokens, (Tokens{1, 1}));
}

// Promise: what is proposed depends on the text alone.
TEST(LookupDrafter, ProposesTheSameUnderAnyKeys) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    Tokens text(2 + random() % 60);
    for (int32_t &token : text) token = static_cast<int32_t>(random() % 5);
    LookupDrafter::Keys keys;
    for (auto &half : keys)
      for (uint64_t &key : half) key = random();
    const Found found = look_up(text, 6, LookupDrafter(keys)), expected = look_up(text, 6);
    ASSERT_EQ(found.evidence, expected.evidence);
    ASSERT_EQ(found.tokens, expected.tokens);
  }
}

TEST(LookupDrafter, BeginsAnew) {
  LookupDrafter drafter;
  drafter.begin(Tokens{1, 2, 3, 1, 2});
  EXPECT_TRUE(drafter.evidence());
  drafter.begin(Tokens{1, 2});
  EXPECT_FALSE(drafter.evidence());
}

}  // namespace
}  // namespace bonsai::host
