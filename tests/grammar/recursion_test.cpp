// Left recursion and rules that may be empty: a grammar means what it says however it is written.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "core/grammar/gbnf.h"
#include "tests/grammar/sentences.h"

namespace bonsai::grammar {
namespace {

TEST(Recursion, SumsMayBeginWithThemselves) {
  const Grammar grammar = gbnf("root ::= root \"+\" term | term\nterm ::= term \"*\" [0-9] | [0-9] | \"(\" root \")\"");
  expect_sentences(grammar, {"1", "1+2", "1*2+3*4", "(1+2)*3", "((1))+2+3"});
  expect_none(grammar, {"", "+1", "1+", "1++2", "(1", "1)", "()"});
}

TEST(Recursion, RoundThroughOtherRules) {
  const Grammar grammar = gbnf("root ::= b \"x\" | \"r\"\nb ::= c \"y\" | root \"z\"\nc ::= root \"w\" | b | \"c\"");
  expect_sentences(grammar, {"r", "rzx", "cyx", "rwyx", "cyyx", "rzxzx", "cyxwyyx"});
  expect_none(grammar, {"", "c", "rx", "rz", "cy", "ry"});
}

TEST(Recursion, HiddenBehindWhatMayBeEmpty) {
  const Grammar grammar = gbnf("root ::= a root \"b\" | \"c\"\na ::= \"a\"?");
  expect_sentences(grammar, {"c", "cb", "acb", "acbb", "aacbb", "cbbb"});
  expect_none(grammar, {"", "ac", "aacb", "a"});
}

TEST(Recursion, OfARuleOnItselfAloneAddsNothing) {
  const Grammar grammar = gbnf("root ::= root | \"a\" | empty root empty\nempty ::= \"\" | empty empty");
  expect_sentences(grammar, {"a"});
  expect_none(grammar, {"", "aa"});
}

TEST(Recursion, AnAmbiguousGrammarIsFollowedAllTheSame) {
  const Grammar grammar = gbnf("root ::= root root | \"a\" | \"(\" root \")\"");
  std::string text;
  for (int i = 0; i < 200; ++i) text += i % 7 == 3 ? "(aa)" : "a";
  EXPECT_TRUE(grammar.matches(text));
  EXPECT_FALSE(grammar.matches(text + ")"));
}

// All short sentences of a random grammar, by rewriting until nothing new comes; the automaton must agree on each text.
class RandomGrammar {
 public:
  explicit RandomGrammar(uint32_t seed) : random_(seed) {
    for (uint32_t rule = 0; rule < kRules; ++rule) {
      const uint32_t n = 1 + below(3);
      for (uint32_t i = 0; i < n; ++i) {
        std::string &alternative = alternatives_[rule].emplace_back();
        for (uint32_t length = below(4); length > 0; --length) alternative += "abRSTRS"[below(7)];
      }
    }
  }

  std::string text() const {
    std::string made;
    for (uint32_t rule = 0; rule < kRules; ++rule) {
      made += fmt::format("{} ::=", name(rule));
      for (size_t i = 0; i < alternatives_[rule].size(); ++i) {
        if (i > 0) made += " |";
        if (alternatives_[rule][i].empty()) made += " \"\"";
        for (const char c : alternatives_[rule][i])
          made += c >= 'a' ? fmt::format(" \"{}\"", c) : fmt::format(" {}", name(static_cast<uint32_t>(c - 'R')));
      }
      made += "\n";
    }
    return made;
  }

  // Of the root, up to `longest` characters.
  std::set<std::string> sentences(size_t longest) const {
    std::set<std::string> known[kRules];
    for (bool grew = true; grew;) {
      grew = false;
      for (uint32_t rule = 0; rule < kRules; ++rule)
        for (const std::string &alternative : alternatives_[rule])
          for (const std::string &text : expand(alternative, known, longest)) grew |= known[rule].insert(text).second;
    }
    return known[0];
  }

 private:
  static constexpr uint32_t kRules = 3;

  static std::string name(uint32_t rule) { return rule == 0 ? "root" : rule == 1 ? "s" : "t"; }

  static std::set<std::string> expand(const std::string &alternative, const std::set<std::string> (&known)[kRules],
                                      size_t longest) {
    std::set<std::string> texts = {""};
    for (const char c : alternative) {
      std::set<std::string> next;
      for (const std::string &text : texts) {
        if (c >= 'a') {
          if (text.size() < longest) next.insert(text + c);
          continue;
        }
        for (const std::string &more : known[c - 'R'])
          if (text.size() + more.size() <= longest) next.insert(text + more);
      }
      texts = std::move(next);
    }
    return texts;
  }

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

  std::mt19937 random_;
  std::vector<std::string> alternatives_[kRules];
};

TEST(Recursion, RandomGrammarsMatchTheirShortSentencesAndNothingElse) {
  constexpr size_t kLongest = 6;
  size_t n_matched = 0, n_refused = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const RandomGrammar random(seed);
    const auto sentences = random.sentences(kLongest);
    const auto grammar = Grammar::from_gbnf(random.text());
    if (!grammar) {
      ASSERT_NE(grammar.error().message.find("can never end"), std::string::npos) << grammar.error().message;
      ++n_refused;
      continue;
    }
    for (size_t length = 0; length <= kLongest; ++length) {
      for (uint32_t bits = 0; bits < (1u << length); ++bits) {
        std::string text;
        for (size_t i = 0; i < length; ++i) text += (bits >> i & 1) != 0 ? 'b' : 'a';
        ASSERT_EQ(grammar->matches(text), sentences.count(text) > 0) << "'" << text << "' of\n" << random.text();
        n_matched += sentences.count(text);
      }
    }
  }
  EXPECT_GT(n_matched, 2000u);
  EXPECT_LT(n_refused, 250u);
}

}  // namespace
}  // namespace bonsai::grammar
