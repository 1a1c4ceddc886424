// What passes are given to verify, what is learned from it, and what drafters may not do.
#include "host/speculation/speculator.h"

#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include "host/speculation/lookup_drafter.h"

namespace bonsai::host {
namespace {

using Tokens = std::vector<int32_t>;
constexpr uint32_t kVocabulary = 50;

// Proposes what it is told to.
class Puppet final : public Drafter {
 public:
  struct Strings {
    Tokens says;
    bool is_silent = false, is_free = true, throws = false;
    Tokens heard = {};
    int n_asked = 0;
  };
  explicit Puppet(Strings &strings) : strings_(strings) {}
  void begin(std::span<const int32_t> text) override { strings_.heard.assign(text.begin(), text.end()); }
  void append(int32_t token) override { strings_.heard.push_back(token); }
  std::optional<Evidence> evidence() override {
    if (strings_.is_silent) return std::nullopt;
    return kTenTokens;
  }
  void propose(uint32_t most, Tokens &tokens) override {
    ++strings_.n_asked;
    if (strings_.throws) throw EngineError(ErrorKind::kBackend, "out of ideas");
    for (const int32_t token : strings_.says)
      if (tokens.size() < most || token == 49) tokens.push_back(token);  // 49: beyond what was asked for
  }
  bool is_free() const override { return strings_.is_free; }

 private:
  Strings &strings_;
};

Speculator speculator_of(std::vector<Puppet::Strings *> puppets) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  for (Puppet::Strings *strings : puppets) drafters.push_back(std::make_unique<Puppet>(*strings));
  return Speculator(std::move(drafters), kVocabulary);
}

struct Costs : PassCosts {
  Costs() { add(1, 1e-3); }
};

Tokens proposed(Speculator &speculator, uint32_t most, const PassCosts &costs) {
  const auto tokens = speculator.propose(most, costs);
  return {tokens.begin(), tokens.end()};
}

std::string refusal(const Puppet::Strings &strings) {
  Puppet::Strings mine = strings;
  Speculator speculator = speculator_of({&mine});
  Costs costs;
  try {
    speculator.propose(3, costs);
  } catch (const EngineError &error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Speculator, RefusesInWordsWhatADrafterMayNotPropose) {
  EXPECT_EQ(refusal({.says = {1, 50, 2}}), "a drafter proposed token id 50: it is outside the vocabulary of 50");
  EXPECT_EQ(refusal({.says = {-1}}), "a drafter proposed token id -1: it is outside the vocabulary of 50");
  EXPECT_EQ(refusal({.says = {49, 49, 49, 49}}), "a drafter proposed 4 tokens: expected at most 3");
  EXPECT_EQ(refusal({.says = {}, .throws = true}), "out of ideas");
}

TEST(Speculator, DraftersHearTheWholeText) {
  Puppet::Strings first{.says = {1}}, second{.says = {2}};
  Speculator speculator = speculator_of({&first, &second});
  speculator.begin(Tokens{5, 6});
  speculator.came(7);
  EXPECT_EQ(first.heard, (Tokens{5, 6, 7}));
  EXPECT_EQ(second.heard, (Tokens{5, 6, 7}));
}

TEST(Speculator, CountsWhatWasAcceptedUpToTheFirstMistake) {
  Puppet::Strings strings{.says = {1, 2, 3}};
  Speculator speculator = speculator_of({&strings});
  Costs costs;
  EXPECT_EQ(proposed(speculator, 3, costs), (Tokens{1, 2, 3}));
  speculator.came(1);
  speculator.came(9);
  speculator.came(3);
  EXPECT_EQ(speculator.counts().proposed, 3u);
  EXPECT_EQ(speculator.counts().accepted, 1u);
}

TEST(Speculator, TheFirstDrafterThatHasSomethingIsTaken) {
  Puppet::Strings first{.says = {1}, .is_silent = true}, second{.says = {2}};
  Speculator speculator = speculator_of({&first, &second});
  Costs costs;
  EXPECT_EQ(proposed(speculator, 1, costs), Tokens{2});
  first.is_silent = false;
  EXPECT_EQ(proposed(speculator, 1, costs), Tokens{1});
}

TEST(Speculator, ProposesNothingWhereThereIsNoRoomForIt) {
  Puppet::Strings strings{.says = {1}};
  Speculator speculator = speculator_of({&strings});
  Costs costs;
  EXPECT_EQ(proposed(speculator, 0, costs), Tokens{});
  EXPECT_EQ(strings.n_asked, 0);
}

// What is decided elsewhere, for a pass that several texts share, is proposed, counted and learned from.
TEST(Speculator, ProposesAsManyAsItIsTold) {
  Puppet::Strings strings{.says = {1, 2, 3, 4, 5}};
  Speculator speculator = speculator_of({&strings});
  const double before = *speculator.chance();
  const auto tokens = speculator.propose_so_many(2);
  EXPECT_EQ(Tokens(tokens.begin(), tokens.end()), (Tokens{1, 2}));
  speculator.verified(2);
  speculator.came(1);
  speculator.came(7);
  EXPECT_EQ(speculator.counts().proposed, 2u);
  EXPECT_EQ(speculator.counts().accepted, 1u);
  for (int i = 0; i < 20; ++i) {
    speculator.chance();
    speculator.propose_so_many(1);
    speculator.came(1);
  }
  EXPECT_GT(*speculator.chance(), before);
  strings.is_silent = true;
  EXPECT_FALSE(speculator.chance());
}

// Of what it proposes a pass may have place for less, or for nothing: the rest is compared as if it had not been
// offered.
TEST(Speculator, CountsWhatAPassVerifiedAndNotWhatWasOfferedToIt) {
  Puppet::Strings strings{.says = {1, 2, 3, 4}};
  Speculator speculator = speculator_of({&strings});
  const double before = *speculator.chance();
  speculator.propose_so_many(4);
  speculator.verified(1);
  for (const int32_t token : {1, 2, 3, 4}) speculator.came(token);
  EXPECT_EQ(speculator.counts().proposed, 1u);
  EXPECT_EQ(speculator.counts().accepted, 1u);
  EXPECT_GT(*speculator.chance(), before);
  speculator.propose_so_many(4);
  for (const int32_t token : {1, 2, 3, 4}) speculator.came(token);
  EXPECT_EQ(speculator.counts().proposed, 1u);
  EXPECT_EQ(speculator.counts().accepted, 1u);
}

TEST(Speculator, LearnsInSilenceWhereItIsToldToProposeNothing) {
  Puppet::Strings strings{.says = {1, 1, 1, 1}};
  Speculator speculator = speculator_of({&strings});
  const double before = *speculator.chance();
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(speculator.chance());
    EXPECT_TRUE(speculator.propose_so_many(0).empty());
    speculator.came(1);
  }
  EXPECT_GT(*speculator.chance(), before);
  EXPECT_EQ(strings.n_asked, 5);  // four tokens are compared each time
  EXPECT_EQ(speculator.counts().proposed + speculator.counts().accepted, 0u);
}

// A drafter that is always wrong soon costs the model nothing; as soon as it is right it is heard again.
TEST(Speculator, AFreeDrafterIsWatchedWhileItIsNotTrusted) {
  Puppet::Strings strings{.says = {1, 1, 1, 1}};
  Speculator speculator = speculator_of({&strings});
  Costs costs;
  for (int i = 0; i < 200; ++i) {
    speculator.propose(15, costs);
    speculator.came(2);
  }
  const uint32_t wasted = speculator.counts().proposed;
  EXPECT_LT(wasted, 40u);
  EXPECT_EQ(proposed(speculator, 15, costs), Tokens{});
  int n = 0;
  for (; speculator.counts().proposed == wasted && n < 30; ++n) {
    speculator.came(1);
    speculator.propose(15, costs);
  }
  EXPECT_LT(n, 30);
}

TEST(Speculator, ADrafterThatTakesTimeIsAskedAgainAtGrowingDistances) {
  Puppet::Strings strings{.says = {1}, .is_free = false};
  Speculator speculator = speculator_of({&strings});
  Costs costs;
  const auto asked_in = [&](int n_passes) {
    const int before = strings.n_asked;
    for (int i = 0; i < n_passes; ++i) {
      speculator.propose(15, costs);
      speculator.came(2);
    }
    return strings.n_asked - before;
  };
  asked_in(100);
  const int n_early = asked_in(1000), n_late = asked_in(1000);
  EXPECT_GE(n_early, 1);
  EXPECT_LE(n_early, 6);
  EXPECT_LE(n_late, 2);
}

}  // namespace
}  // namespace bonsai::host
