#include "core/grammar/json_text.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/text/utf8.h"

namespace bonsai::grammar {
namespace {

constexpr uint32_t kUnbounded = Expression::kUnbounded;
constexpr uint32_t kMostSpaces = 32, kMostTabs = 8;
constexpr uint32_t kMostDigits = 16, kMostExponentDigits = 2;

// Characters that may stand in a string as they are.
const std::vector<CodePoints> kRaw = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, 0x10FFFF}};

Expression one_of(std::string_view characters) {
  std::vector<CodePoints> ranges;
  for (const char c : characters) ranges.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
  return char_class(std::move(ranges));
}

Expression hex(uint32_t n) { return repeat(char_class({{'0', '9'}, {'a', 'f'}, {'A', 'F'}}), n, n); }

Expression space() {
  return choice(
      {literal(""), literal(" "),
       sequence({literal("\n"), choice({repeat(literal(" "), 0, kMostSpaces), repeat(literal("\t"), 1, kMostTabs)})})});
}

// A \u escape is a whole character: of the surrogates only pairs.
Expression escape() {
  const Expression d = one_of("dD");
  Expression basic =
      choice({sequence({char_class({{'0', '9'}, {'a', 'c'}, {'A', 'C'}, {'e', 'f'}, {'E', 'F'}}), hex(3)}),
              sequence({d, one_of("01234567"), hex(2)})});
  Expression pair =
      sequence({d, one_of("89abAB"), hex(2), literal("\\u"), d, char_class({{'c', 'f'}, {'C', 'F'}}), hex(2)});
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

Expression year_month_day() {
  const Expression year = digits(4, 4);
  const Expression day28 =
      choice({sequence({literal("0"), digit_range('1', '9')}), sequence({literal("1"), digits(1, 1)}),
              sequence({literal("2"), digit_range('0', '8')})});
  const Expression day30 = choice({day28, literal("29"), literal("30")});
  const Expression months31 =
      choice({literal("01"), literal("03"), literal("05"), literal("07"), literal("08"), literal("10"), literal("12")});
  const Expression months30 = choice({literal("04"), literal("06"), literal("09"), literal("11")});
  // Multiples of 4, of two digits; a year that ends in 00 is a leap year if what stands in front of it is one of these.
  const Expression four = choice({sequence({one_of("02468"), one_of("48")}), sequence({one_of("13579"), one_of("26")}),
                                  sequence({one_of("2468"), literal("0")})});
  const Expression leap_year =
      choice({sequence({digits(2, 2), four}), sequence({choice({four, literal("00")}), literal("00")})});
  return choice({sequence({year, literal("-"), months31, literal("-"), choice({day30, literal("31")})}),
                 sequence({year, literal("-"), months30, literal("-"), day30}),
                 sequence({year, literal("-02-"), day28}), sequence({leap_year, literal("-02-29")})});
}

// RFC 3339, without leap seconds.
Expression time_of_day() {
  const Expression hour =
      choice({sequence({one_of("01"), digits(1, 1)}), sequence({literal("2"), digit_range('0', '3')})});
  const Expression minute = sequence({digit_range('0', '5'), digits(1, 1)});
  return sequence({hour, literal(":"), minute, literal(":"), minute, optional(sequence({literal("."), digits(1, 9)})),
                   choice({literal("Z"), sequence({one_of("+-"), hour, literal(":"), minute})})});
}

Expression uuid() {
  return sequence({hex(8), literal("-"), hex(4), literal("-"), hex(4), literal("-"), hex(4), literal("-"), hex(12)});
}

Expression ipv4() {
  const Expression byte =
      choice({digits(1, 1), sequence({digit_range('1', '9'), digits(1, 1)}), sequence({literal("1"), digits(2, 2)}),
              sequence({literal("2"), digit_range('0', '4'), digits(1, 1)}),
              sequence({literal("25"), digit_range('0', '5')})});
  return sequence({byte, literal("."), byte, literal("."), byte, literal("."), byte});
}

// The everyday part of RFC 5321: words with dots, a domain of at least two labels.
Expression email() {
  const std::vector<CodePoints> letters = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}};
  std::vector<CodePoints> atoms = letters, inner = letters;
  for (const char c : std::string_view("!#$%&'*+-/=?^_`{|}~"))
    atoms.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
  inner.push_back({'-', '-'});
  const Expression atom = repeat(char_class(atoms), 1, 20);
  const Expression label =
      sequence({char_class(letters), optional(sequence({repeat(char_class(inner), 0, 30), char_class(letters)}))});
  return sequence({atom, repeat(sequence({literal("."), atom}), 0, 2), literal("@"), label,
                   repeat(sequence({literal("."), label}), 1, 3)});
}

}  // namespace

Expression digit_range(char first, char last) {
  return char_class({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}
Expression digits(uint32_t least, uint32_t most) { return repeat(digit_range('0', '9'), least, most); }

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

Expression plain_char() { return string_char_of({{0, 0x10FFFF}}); }

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

Expression format_text(std::string_view format) {
  if (format == "date") return year_month_day();
  if (format == "time") return time_of_day();
  if (format == "date-time") return sequence({year_month_day(), literal("T"), time_of_day()});
  if (format == "uuid") return uuid();
  if (format == "ipv4") return ipv4();
  if (format == "email") return email();
  return {};
}

}  // namespace bonsai::grammar
