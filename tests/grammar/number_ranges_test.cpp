// Ranges of numbers are exact to the last digit.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "core/grammar/automaton.h"
#include "tests/grammar/sentences.h"

namespace bonsai::grammar {
namespace {

std::string schema_of(const char *type, const std::string &least_keyword, const std::string &least,
                      const std::string &most_keyword, const std::string &most) {
  std::string schema = fmt::format("{{\"type\": \"{}\"", type);
  if (!least.empty()) schema += fmt::format(", \"{}\": {}", least_keyword, least);
  if (!most.empty()) schema += fmt::format(", \"{}\": {}", most_keyword, most);
  return schema + "}";
}

TEST(NumberRanges, EveryIntegerIsInOrOut) {
  const int bounds[] = {-1001, -100, -99, -10, -7, -1, 0, 1, 5, 9, 10, 11, 42, 99, 100, 123, 999, 1000};
  for (const int least : bounds) {
    for (const int most : bounds) {
      const auto grammar = Grammar::from_json_schema(
          schema_of("integer", "minimum", std::to_string(least), "maximum", std::to_string(most)));
      ASSERT_EQ(grammar.has_value(), least <= most) << least << " to " << most;
      if (!grammar) continue;
      for (int i = -1200; i <= 1200; ++i)
        ASSERT_EQ(grammar->matches(std::to_string(i)), least <= i && i <= most)
            << i << " in " << least << " to " << most;
      expect_none(*grammar, {"", "-", "00", "01", "-01", "1.0", "1e0"});
    }
  }
}

TEST(NumberRanges, BoundsMayBeExcludedFractionsAndFarAway) {
  const Grammar excluded = json_schema(R"({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 10})");
  expect_sentences(excluded, {"1", "9"});
  expect_none(excluded, {"0", "10", "-1", "-0"});
  const Grammar fractions = json_schema(R"({"type": "integer", "minimum": -2.5, "maximum": 2.5})");
  expect_sentences(fractions, {"-2", "0", "2"});
  expect_none(fractions, {"-3", "3"});
  const Grammar large = json_schema(R"({"type": "integer", "minimum": 99999999999999999, "maximum": 1e17})");
  expect_sentences(large, {"99999999999999999", "100000000000000000"});
  expect_none(large, {"99999999999999998", "100000000000000001", "9"});
  const Grammar open = json_schema(R"({"type": "integer", "minimum": 18})");
  expect_sentences(open, {"18", "19", "100", "9999999999999999"});
  expect_none(open, {"17", "0", "-18", "12345678901234567"});
  const Grammar below = json_schema(R"({"type": "integer", "exclusiveMaximum": 0})");
  expect_sentences(below, {"-1", "-9999999999999999"});
  expect_none(below, {"0", "-0", "1"});
}

// Decimals of up to three places around every bound, compared as whole thousandths.
TEST(NumberRanges, EveryDecimalIsInOrOut) {
  struct Value {
    const char *text;
    int thousandths;
  };
  const Value bounds[] = {{"-1.5", -1500}, {"-1", -1000}, {"-0.05", -50}, {"0", 0},   {"0.1", 100},
                          {"0.125", 125},  {"1", 1000},   {"1.25", 1250}, {"2", 2000}};
  for (const Value &least : bounds) {
    for (const Value &most : bounds) {
      for (const bool included : {true, false}) {
        const auto grammar =
            Grammar::from_json_schema(schema_of("number", included ? "minimum" : "exclusiveMinimum", least.text,
                                                included ? "maximum" : "exclusiveMaximum", most.text));
        const bool some = included ? least.thousandths <= most.thousandths : least.thousandths < most.thousandths;
        ASSERT_EQ(grammar.has_value(), some) << least.text << " to " << most.text;
        if (!grammar) continue;
        for (int i = -2100; i <= 2100; ++i) {
          const bool in = included ? least.thousandths <= i && i <= most.thousandths
                                   : least.thousandths < i && i < most.thousandths;
          const std::string text = fmt::format("{}{}.{:03}", i < 0 ? "-" : "", std::abs(i) / 1000, std::abs(i) % 1000);
          ASSERT_EQ(grammar->matches(text), in) << text << " in " << least.text << " to " << most.text;
          if (i % 10 == 0) {
            ASSERT_EQ(grammar->matches(text.substr(0, text.size() - 1)), in) << text;
          }
          if (i % 1000 == 0) {
            ASSERT_EQ(grammar->matches(text.substr(0, text.size() - 4)), in) << text;
          }
        }
        expect_none(*grammar, {"", ".5", "1.", "00.5", "1e1"});
      }
    }
  }
}

TEST(NumberRanges, WithoutBoundsNumbersHaveExponents) {
  const Grammar grammar = json_schema(R"({"type": "number"})");
  expect_sentences(grammar, {"0", "-1", "1.5", "-0.25e-3", "1E+10", "1234567890123456.5"});
  expect_none(grammar, {"", "01", "1.", ".5", "+1", "1e", "1e100", "12345678901234567", "NaN", "Infinity"});
}

}  // namespace
}  // namespace bonsai::grammar
