// Grammars in llama.cpp's notation: what they match, and what is wrong with those that are refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "core/grammar/gbnf.h"
#include "tests/grammar/sentences.h"

namespace bonsai::grammar {
namespace {

TEST(Gbnf, LiteralsAndTheirEscapes) {
  const Grammar grammar = gbnf(R"(root ::= "a\n\t\r\"\\\[\]\x41\u00e9\U0001F600" " b")");
  expect_sentences(grammar, {"a\n\t\r\"\\[]A\u00e9\U0001F600 b"});
  expect_none(grammar, {"", "a", "a\n\t\r\"\\[]A\u00e9\U0001F600 b ", "b"});
}

TEST(Gbnf, ClassesOfCharactersOfAnyLength) {
  const Grammar grammar = gbnf("root ::= [a-c\\x2d\u00e0-\u00e9\\]\u4e00\U0001F600-\U0001F64F-]");
  expect_sentences(grammar, {"a", "c", "-", "\u00e0", "\u00e9", "]", "\u4e00", "\U0001F600", "\U0001F64F"});
  expect_none(grammar, {"d", "\u00df", "\u00ea", "\u4e01", "\U0001F5FF", "\U0001F650", "\xC3", "\xA0"});
}

TEST(Gbnf, ANegatedClassIsEveryOtherCharacterAndNoBrokenOne) {
  const Grammar grammar = gbnf("root ::= [^a\\n\u00e9]");
  expect_sentences(
      grammar, {"b", "\t", std::string_view("\0", 1), "\u00e8", "\u00ea", "\uFFFF", "\U0010FFFF", "\uD7FF", "\uE000"});
  expect_none(grammar,
              {"a", "\n", "\u00e9", "", "bb", "\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE4\xB8"});
}

TEST(Gbnf, ClassesOfCharactersOfThreeBytesLoseNone) {
  expect_sentences(gbnf("root ::= [一-龥가-힣]+"), {"一文国龥", "가안녕힣"});
  expect_none(gbnf("root ::= [一-龥]"), {"䷿", "龦", "가"});
  expect_sentences(gbnf("root ::= [^中]+"), {"กế—“丬丮😀"});
  expect_none(gbnf("root ::= [^中]"), {"中"});
}

// Grammars are written as strings of other languages, where "\n" is a line end when it comes here.
TEST(Gbnf, ALineEndIsACharacterOfALiteralOrAClass) {
  const Grammar grammar = gbnf("root ::= \"a\n\" [^\n]+ [\n-\r]\nend ::= \"\r\n\"\n");
  expect_sentences(grammar, {"a\nb\n", "a\nbc\r"});
  expect_none(grammar, {"ab\n", "a\n\n\n", "a\nb"});
}

TEST(Gbnf, ADotIsAnyCharacter) {
  const Grammar grammar = gbnf("root ::= . \"x\"");
  expect_sentences(grammar, {"ax", "\nx", "\U0001F600x"});
  expect_none(grammar, {"x", "aax", "\xFFx"});
}

TEST(Gbnf, RepetitionsOfItemsAndGroups) {
  const Grammar grammar = gbnf(R"(root ::= "ab"* [x-y]+ ("c" "d"?)? "e"{2} "f"{1,3} "g"{2,} "h"{,2})");
  expect_sentences(grammar, {"xeefgg", "ababxyxceefffggghh", "xcdeefggh"});
  expect_none(grammar, {"eefgg", "abxefgg", "xeefg", "xeeffffgg", "xeefgghhh", "xdeefgg"});
}

TEST(Gbnf, AlternativesMayBeEmptyAndRunOverLines) {
  const Grammar grammar = gbnf(
      "# a comment\nroot ::= \"a\" | # another\n  tail |\n  (\"b\"\n    | \"c\"\n  ) tail\n\ntail ::= | \"t\" tail\n");
  expect_sentences(grammar, {"", "a", "t", "ttt", "b", "ct", "bttt"});
  expect_none(grammar, {"at", "bc", "d"});
}

TEST(Gbnf, WithinParenthesesARepetitionMayStandOnTheNextLine) {
  const Grammar grammar = gbnf("root ::= (\n  \"a\"\n  +\n  (\"b\")  # many\n  {2}\n)\n");
  expect_sentences(grammar, {"abb", "aaabb"});
  expect_none(grammar, {"bb", "ab", "abbabb"});
}

TEST(Gbnf, RulesMayRecurInTheMiddleAndAtTheEnd) {
  const Grammar grammar = gbnf("root ::= \"(\" root \")\" | \"\" | \"x\" root");
  expect_sentences(grammar, {"", "()", "x()", "(x(xx))", "xxx"});
  expect_none(grammar, {"(", ")", "(()", "()x", "x)"});
}

TEST(Gbnf, LlamaCppsJsonGrammarIsRead) {
  const Grammar grammar = gbnf(R"(
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::=
  "[" ws (
            value
    ("," ws value)*
  )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws

# Optional space: by convention, applied in this grammar after literal chars when allowed
ws ::= | " " | "\n" [ \t]{0,20}
)");
  expect_sentences(grammar, {"{}", "{\"a\": [1, 2.5e3, {\"b\":null}], \"\\u00e9\\n\":\"\u00e9\"}\n", "{ }"});
  expect_none(grammar, {"", "[]", "{\"a\"}", "{\"a\":1,}", "{\"a\":01}", "{\"a\":\"\n\"}", "{\"a\":\"\\x\"}"});
}

struct BadGrammar {
  const char *text, *message;
};
class BadGbnf : public testing::TestWithParam<BadGrammar> {};

TEST_P(BadGbnf, IsRefusedWithPlaceAndExpectation) {
  EXPECT_EQ(message_of(Grammar::from_gbnf(GetParam().text)), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadGbnf,
    testing::Values(
        BadGrammar{"", "grammar: expected a rule named 'root', found none"},
        BadGrammar{"top ::= \"a\"", "grammar: expected a rule named 'root', found none"},
        BadGrammar{"::= \"a\"", "grammar, line 1, column 1: expected the name of a rule, found ':'"},
        BadGrammar{"root \"a\"", "grammar, line 1, column 6: expected '::=' behind the rule's name 'root', found '\"'"},
        BadGrammar{"root ::= \"a\" )",
                   "grammar, line 1, column 14: expected a literal, a class, a rule's name, '(', '|' or the end of the "
                   "line, found ')'"},
        BadGrammar{"root ::= \"\u00e9\u00e9\" ;",
                   "grammar, line 1, column 15: expected a literal, a class, a rule's name, '(', '|' or the end of the "
                   "line, found ';'"},
        BadGrammar{"root ::= \"a\" (<think> [a-z])",
                   "grammar, line 1, column 15: matching tokens (<...>) is not supported"},
        BadGrammar{"root ::= <[1000]>", "grammar, line 1, column 10: matching tokens (<...>) is not supported"},
        BadGrammar{"root ::= !<think>*", "grammar, line 1, column 10: matching tokens (<...>) is not supported"},
        BadGrammar{
            "root ::= (\"a\"\n  \"b\"",
            "grammar, line 2, column 6: expected ')' for the '(' at line 1, column 10, found the end of the grammar"},
        BadGrammar{"root ::= \"a\nb ::= [c]\n",
                   "grammar, line 3, column 1: expected '\"' at the end of the literal that begins at line 1, column "
                   "10, found the end of the grammar"},
        BadGrammar{"root ::= \"a\" |\n  [a-",
                   "grammar, line 2, column 6: expected ']' at the end of the class that begins at line 2, column 3, "
                   "found the end of the grammar"},
        BadGrammar{"root ::= [z-a]", "grammar, line 1, column 11: expected a range upwards, found 'z-a'"},
        BadGrammar{"root ::= []", "grammar, line 1, column 10: the class matches no character"},
        BadGrammar{"root ::= \"\\q\"",
                   "grammar, line 1, column 12: expected one of n r t \\ \" [ ] x u U behind a backslash, found 'q'"},
        BadGrammar{"root ::= \"\\x4g\"", "grammar, line 1, column 14: expected 2 hexadecimal digits, found 'g'"},
        BadGrammar{"root ::= \"\\ud800\"",
                   "grammar, line 1, column 11: expected a character, found '\\ud800', which is none"},
        BadGrammar{"root ::= \"\\U00110000\"",
                   "grammar, line 1, column 11: expected a character, found '\\U00110000', which is none"},
        BadGrammar{"root ::= \"a\"{x}", "grammar, line 1, column 14: expected a number of repetitions, found 'x'"},
        BadGrammar{"root ::= \"a\"{2,1}",
                   "grammar, line 1, column 13: expected the least repetitions first, found '{2,1}'"},
        BadGrammar{
            "root ::= \"a\"{2",
            "grammar, line 1, column 15: expected '}' at the end of the repetition, found the end of the grammar"},
        BadGrammar{"root ::= \"a\"{99999}",
                   "grammar, line 1, column 14: expected at most 4096 repetitions, found '99999'"},
        BadGrammar{"root ::= \"a\" | item\nthing ::= item",
                   "grammar, line 1, column 16: rule 'item' is used, but not defined"},
        BadGrammar{"root ::= \"a\"\nb ::= \"b\"\nroot ::= b",
                   "grammar, line 3, column 1: rule 'root' is defined twice, first in line 1"},
        BadGrammar{"root ::= \"a\" root",
                   "rule 'root' can never end: each of its alternatives needs a rule that can never end"},
        BadGrammar{"root ::= \"a\" | b\nb ::= \"(\" b \")\"",
                   "rule 'b' can never end: each of its alternatives needs a rule that can never end"},
        BadGrammar{"root ::= \"\xff\"", "grammar: invalid UTF-8 at byte offset 10"},
        BadGrammar{
            "root ::= (((.{4096}){4096}){4096}){4096}",
            "grammar too large: rule 'root' makes it need more than 262144 states; shorter repetitions need fewer"},
        BadGrammar{
            "root ::= ((((((((\"\"){4096}){4096}){4096}){4096}){4096}){4096}){4096}){4096}",
            "grammar too large: rule 'root' makes it need more than 262144 states; shorter repetitions need fewer"},
        BadGrammar{
            "root ::= [ab]* \"a\" [ab]{30}",
            "grammar too large: rule 'root' makes it need more than 65536 states; shorter repetitions need fewer"}));

TEST(BadGbnf, ParenthesesNestedTooDeepAreRefused) {
  const std::string text = "root ::= " + std::string(5000, '(') + "\"a\"" + std::string(5000, ')');
  EXPECT_EQ(message_of(Grammar::from_gbnf(text)),
            "grammar, line 1, column 111: parentheses are nested more than 100 deep");
}

TEST(BadGbnf, MoreRulesThanAreAllowedAreRefused) {
  std::string text = "root ::= \"a\"\n";
  for (int i = 0; i < 5000; ++i) text += fmt::format("r{} ::= \"a\"\n", i);
  EXPECT_EQ(message_of(Grammar::from_gbnf(text)), "grammar, line 4097, column 1: the grammar has more than 4096 rules");
}

// Chains of rules as long as they may be are followed without a stack of that depth.
TEST(Gbnf, LongChainsOfRulesAreRead) {
  std::string text = "root ::= r0\n";
  for (int i = 0; i < 4000; ++i) text += fmt::format("r{} ::= \"a\" r{}\n", i, i + 1);
  const Grammar grammar = gbnf(text + "r4000 ::= \"b\"");
  EXPECT_TRUE(grammar.matches(std::string(4000, 'a') + "b"));
  EXPECT_FALSE(grammar.matches(std::string(3999, 'a') + "b"));
}

}  // namespace
}  // namespace bonsai::grammar
