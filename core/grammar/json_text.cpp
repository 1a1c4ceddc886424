#include "core/grammar/json_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/text/utf8.h"

namespace bonsai::grammar {
namespace {

constexpr uint32_t kMostSpaces = 32, kMostTabs = 8;
constexpr uint32_t kMostDigits = 16, kMostExponentDigits = 2;

// Characters that may stand in a string as they are.
const std::vector<CodePoints> kRaw = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kLastCodePoint}};

Expression space() {
  return choice(
      {literal(""), literal(" "),
       sequence({literal("\n"), choice({repeat(literal(" "), 0, kMostSpaces), repeat(literal("\t"), 1, kMostTabs)})})});
}

// A \u escape is a whole character: of the surrogates only pairs.
Expression escape() {
  const Expression d = one_of("dD");
  Expression basic =
      choice({sequence({char_class({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), hex_digits(3, 3)}),
              sequence({d, one_of("01234567"), hex_digits(2, 2)})});
  Expression pair = sequence({d, one_of("89abAB"), hex_digits(2, 2), literal("\\u"), d,
                              char_class({{'c', 'f'}, {'C', 'F'}}), hex_digits(2, 2)});
  return sequence({literal("\\"), choice({one_of("\"\\/bfnrt"),
                                          sequence({literal("u"), choice({std::move(basic), std::move(pair)})})})});
}

Expression integer() {
  return sequence(
      {optional(literal("-")), choice({literal("0"), sequence({digit_range('1', '9'), digits(0, kMostDigits - 1)})})});
}

Expression number() {
  Expression exponent = sequence({one_of("eE"), optional(one_of("+-")), digits(1, kMostExponentDigits)});
  return sequence(
      {integer(), optional(sequence({literal("."), digits(1, kMostDigits)})), optional(std::move(exponent))});
}

Expression list_of(const Expression &part) {
  return sequence({part, repeat(sequence({comma(), part}), 0, kUnbounded)});
}

Expression any_value() {
  return choice(
      {call(kString), call(kNumber), call(kObject), call(kArray), literal("true"), literal("false"), literal("null")});
}

// The rest of a string of which so much was the beginning of `texts`, which are what follows it in each, its closing
// quotation mark included.
Expression rest_except(const std::vector<std::u32string> &texts) {
  std::map<char32_t, std::vector<std::u32string>> by_first;
  bool is_one = false;
  for (const std::u32string &text : texts) {
    if (text.empty())
      is_one = true;
    else
      by_first[text.front()].push_back(text.substr(1));
  }
  std::vector<CodePoints> excluded = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  std::vector<Expression> ways;
  if (!is_one) ways.push_back(literal("\""));
  for (const auto &[first, rests] : by_first) {
    excluded.push_back({first, first});
    if (first < 0x20 || first == '"' || first == '\\') continue;  // could only be spelled by an escape
    ways.push_back(sequence({char_class({{first, first}}), rest_except(rests)}));
  }
  Expression other = char_class_except(std::move(excluded));
  ways.push_back(sequence({std::move(other), repeat(string_char(), 0, kUnbounded), literal("\"")}));
  return choice(std::move(ways));
}

}  // namespace

Expression digit_range(char first, char last) {
  return char_class({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}
Expression digits(uint32_t least, uint32_t most) { return repeat(digit_range('0', '9'), least, most); }
Expression hex_digits(uint32_t least, uint32_t most) {
  return repeat(char_class({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}), least, most);
}

Expression one_of(std::string_view characters) {
  std::vector<CodePoints> ranges;
  for (const char c : characters) ranges.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
  return char_class(std::move(ranges));
}

std::vector<Rule> json_rules() {
  const Expression member = sequence({call(kString), colon(), call(kValue)});
  std::vector<Rule> rules(kJsonRules);
  rules[kEscape] = {"escape", escape(), true};
  rules[kString] = {"string", quoted_text(repeat(string_char(), 0, kUnbounded)), true};
  rules[kInteger] = {"integer", integer(), true};
  rules[kNumber] = {"number", number(), true};
  rules[kValue] = {"value", any_value(), true};
  rules[kObject] = {"object", enclosed('{', list_of(member), '}', true), true};
  rules[kArray] = {"array", enclosed('[', list_of(call(kValue)), ']', true), true};
  return rules;
}

Expression comma() { return sequence({literal(","), space()}); }
Expression colon() { return sequence({literal(":"), optional(literal(" "))}); }

Expression enclosed(char open, Expression inner, char close, bool may_be_empty) {
  Expression filled = sequence({std::move(inner), space()});
  return sequence(
      {literal({open}), space(), may_be_empty ? optional(std::move(filled)) : std::move(filled), literal({close})});
}

Expression string_char() { return choice({char_class(kRaw), call(kEscape)}); }

Expression string_char_of(const std::vector<CodePoints> &ranges) {
  const auto has = [&](char32_t c) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [&](const auto &range) { return range.first <= c && c <= range.last; });
  };
  std::vector<CodePoints> raw;
  for (const CodePoints &range : ranges) {
    for (const CodePoints &allowed : kRaw) {
      const CodePoints both = {std::max(range.first, allowed.first), std::min(range.last, allowed.last)};
      if (both.first <= both.last) raw.push_back(both);
    }
  }
  std::string short_escapes;
  for (const auto &[c, escape] :
       {std::pair{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}})
    if (has(static_cast<char32_t>(c))) short_escapes += escape;
  std::vector<Expression> ways;
  if (!raw.empty()) ways.push_back(char_class(std::move(raw)));
  if (!short_escapes.empty()) ways.push_back(sequence({literal("\\"), one_of(short_escapes)}));
  return choice(std::move(ways));
}

Expression plain_char() { return string_char_of({{0, kLastCodePoint}}); }

Expression quoted_text(Expression inner) { return sequence({literal("\""), std::move(inner), literal("\"")}); }

Expression string_except(std::vector<std::string> texts) {
  if (texts.empty()) return call(kString);
  std::vector<std::u32string> wide;
  for (const std::string &text : texts) {
    std::u32string &characters = wide.emplace_back();
    for (size_t at = 0; at < text.size();) characters.push_back(text::next_code_point(text, at));
  }
  return sequence({literal("\""), rest_except(wide)});
}

}  // namespace bonsai::grammar
