#include "core/grammar/string_formats.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/grammar/json_text.h"

namespace bonsai::grammar {
namespace {

// RFC 1123 and RFC 5321.
constexpr uint32_t kMostHostNameCharacters = 253, kMostEmailCharacters = 254;

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
  return sequence({hex_digits(8, 8), literal("-"), hex_digits(4, 4), literal("-"), hex_digits(4, 4), literal("-"),
                   hex_digits(4, 4), literal("-"), hex_digits(12, 12)});
}

Expression ipv4() {
  const Expression byte =
      choice({digits(1, 1), sequence({digit_range('1', '9'), digits(1, 1)}), sequence({literal("1"), digits(2, 2)}),
              sequence({literal("2"), digit_range('0', '4'), digits(1, 1)}),
              sequence({literal("25"), digit_range('0', '5')})});
  return sequence({byte, literal("."), byte, literal("."), byte, literal("."), byte});
}

// RFC 3986, appendix A: groups of hexadecimal digits, of which one run of zeros may be left out.
Expression ipv6() {
  const Expression group = hex_digits(1, 4), before_colon = sequence({group, literal(":")});
  const Expression last_two = choice({sequence({group, literal(":"), group}), ipv4()});
  std::vector<Expression> ways = {sequence({repeat(before_colon, 6, 6), last_two})};
  for (uint32_t n_behind = 0; n_behind <= 7; ++n_behind) {  // groups behind "::"
    const uint32_t most_in_front = 7 - n_behind;
    std::vector<Expression> parts;
    if (most_in_front > 0) parts.push_back(optional(sequence({repeat(before_colon, 0, most_in_front - 1), group})));
    parts.push_back(literal("::"));
    if (n_behind == 1) parts.push_back(group);
    if (n_behind > 1) {
      parts.push_back(repeat(before_colon, n_behind - 2, n_behind - 2));
      parts.push_back(last_two);
    }
    ways.push_back(sequence(std::move(parts)));
  }
  return choice(std::move(ways));
}

const std::vector<CodePoints> kLettersAndDigits = {{'a', 'z'}, {'A', 'Z'}, {'0', '9'}};

std::vector<CodePoints> letters_digits_and(std::string_view others) {
  std::vector<CodePoints> all = kLettersAndDigits;
  for (const char c : others) all.push_back({static_cast<char32_t>(c), static_cast<char32_t>(c)});
  return all;
}

// RFC 1123: `least` to `most` labels with dots between, each of at most `n_characters`.
Expression labels(uint32_t least, uint32_t most, uint32_t n_characters) {
  const Expression end = char_class(kLettersAndDigits);
  const Expression inner = repeat(char_class(letters_digits_and("-")), 0, n_characters - 2);
  const Expression label = sequence({end, optional(sequence({inner, end}))});
  const uint32_t more = most == Expression::kUnbounded ? most : most - 1;
  return sequence({label, repeat(sequence({literal("."), label}), least - 1, more)});
}

// Of labels of up to 63 characters. To count the whole name's at the same time takes thousands of states, so that the
// more labels there are, the shorter they have to be.
Expression host_name(bool length_counted) {
  if (length_counted) return labels(1, Expression::kUnbounded, 63);
  static_assert(4 * 63 - 1 <= kMostHostNameCharacters && 8 * 31 - 1 <= kMostHostNameCharacters);
  return choice({labels(1, 3, 63), labels(4, 4, 62), labels(5, 8, 30)});
}

// Words with dots between, of at most 64 characters in all: a node behind each number of them.
Expression dotted_words() {
  constexpr uint32_t kMostCharacters = 64;
  GraphMaker graph;
  const uint32_t character = graph.add_part(char_class(letters_digits_and("!#$%&'*+-/=?^_`{|}~")));
  const uint32_t dot = graph.add_part(literal("."));
  uint32_t in_front = 0, behind_dot = 0;  // both of the character to come
  for (uint32_t n = 1; n <= kMostCharacters; ++n) {
    const uint32_t behind = graph.add_node();
    graph.add_edge(in_front, behind, character);
    if (behind_dot != 0) graph.add_edge(behind_dot, behind, character);
    behind_dot = in_front == 0 ? 0 : graph.add_node();
    if (behind_dot != 0) graph.add_edge(in_front, behind_dot, dot);
    graph.add_end(behind);
    in_front = behind;
  }
  return graph.take();
}

// The everyday part of RFC 5321: nothing in quotation marks, a domain of at least two labels.
Expression email(bool length_counted) {
  static_assert(64 + 3 * 63 <= kMostEmailCharacters && 64 + 5 * 38 <= kMostEmailCharacters &&
                64 + 8 * 23 <= kMostEmailCharacters);
  return sequence({dotted_words(), literal("@"),
                   length_counted ? labels(2, Expression::kUnbounded, 63)
                                  : choice({labels(2, 2, 63), labels(3, 3, 62), labels(4, 5, 37), labels(6, 8, 22)})});
}

// RFC 3339, appendix A.
Expression duration() {
  const auto number_of = [](const char *unit) { return sequence({digits(1, 6), literal(unit)}); };
  const auto and_then = [](Expression first, Expression next) {
    return sequence({std::move(first), optional(std::move(next))});
  };
  const Expression minutes = and_then(number_of("M"), number_of("S"));
  const Expression time =
      sequence({literal("T"), choice({and_then(number_of("H"), minutes), minutes, number_of("S")})});
  const Expression months = and_then(number_of("M"), number_of("D"));
  const Expression date = choice({and_then(number_of("Y"), months), months, number_of("D")});
  return sequence({literal("P"), choice({and_then(date, time), time, number_of("W")})});
}

// RFC 3986, appendix A, where there is a path or an authority.
Expression uri() {
  const auto characters = [](std::string_view others, uint32_t least) {
    const std::string all = "-._~!$&'()*+,;=" + std::string(others);
    return repeat(choice({char_class(letters_digits_and(all)), sequence({literal("%"), hex_digits(2, 2)})}), least,
                  kUnbounded);
  };
  const Expression scheme =
      sequence({char_class({{'a', 'z'}, {'A', 'Z'}}), repeat(char_class(letters_digits_and("+-.")), 0, 15)});
  const Expression host = choice({characters("", 0), sequence({literal("["), ipv6(), literal("]")})});
  const Expression authority = sequence({literal("//"), optional(sequence({characters(":", 0), literal("@")})), host,
                                         optional(sequence({literal(":"), digits(0, 5)}))});
  const Expression segments = repeat(sequence({literal("/"), characters(":@", 0)}), 0, kUnbounded);
  const Expression path = sequence({optional(literal("/")), characters(":@", 1), segments});
  const auto behind = [&](const char *mark) { return optional(sequence({literal(mark), characters(":@/?", 0)})); };
  return sequence({scheme, literal(":"), choice({sequence({authority, segments}), path}), behind("?"), behind("#")});
}

struct Format {
  std::string_view name;
  Expression (*text)(bool length_counted);
};
constexpr std::array<Format, 10> kFormats = {{
    {"date", [](bool) { return year_month_day(); }},
    {"time", [](bool) { return time_of_day(); }},
    {"date-time",
     [](bool) {
       return sequence({year_month_day(), literal("T"), time_of_day()});
     }},
    {"duration", [](bool) { return duration(); }},
    {"uuid", [](bool) { return uuid(); }},
    {"ipv4", [](bool) { return ipv4(); }},
    {"ipv6", [](bool) { return ipv6(); }},
    {"hostname", host_name},
    {"email", email},
    {"uri", [](bool) { return uri(); }},
}};

const Format *find_format(std::string_view name) {
  const auto *const at =
      std::find_if(kFormats.begin(), kFormats.end(), [&](const auto &one) { return one.name == name; });
  return at == kFormats.end() ? nullptr : at;
}

}  // namespace

uint32_t most_characters(std::string_view format) {
  if (format == "hostname") return kMostHostNameCharacters;
  if (format == "email") return kMostEmailCharacters;
  return Expression::kUnbounded;
}

bool is_format(std::string_view name) { return find_format(name) != nullptr; }

std::optional<Expression> format_text(std::string_view format, bool length_counted) {
  const Format *const known = find_format(format);
  return known == nullptr ? std::nullopt : std::optional(known->text(length_counted));
}

}  // namespace bonsai::grammar
