#include "core/grammar/regex.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/utf8.h"
#include "core/grammar/gbnf.h"
#include "core/grammar/json_text.h"
#include "core/grammar/repetition.h"
#include "core/text/utf8.h"

namespace bonsai::grammar {
namespace {

using Ranges = std::vector<CodePoints>;

const Ranges kDigits = {{'0', '9'}};
const Ranges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kWhite = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                       {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const Ranges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// An expression that matches no text at all, not even the empty one: what a class of no characters comes to, and what
// needs one.
Expression nothing() { return choice({}); }

class Parser {
 public:
  Parser(std::string_view text, Expression any_char)
      : text_(text), any_text_(repeat(std::move(any_char), 0, Expression::kUnbounded)) {}

  Result<Pattern> parse() {
    Pattern pattern;
    if (const auto read = parse_lookaheads(pattern); !read) return tl::unexpected(read.error());
    const bool has_lookaheads = !pattern.ahead.empty() || !pattern.not_ahead.empty();
    if (!has_lookaheads) at_ = 0;
    auto text = has_lookaheads ? parse_between_ends(true) : parse_alternatives(0);
    if (!text) return tl::unexpected(text.error());
    if (looking_at("|")) return unsupported("a lookahead beside '|'");
    if (at_ < text_.size()) return unsupported("')' without '('");
    pattern.text = *std::move(text);
    return pattern;
  }

 private:
  // `at`: in bytes; else what is read next is meant.
  tl::unexpected<Error> unsupported(std::string_view what, std::optional<size_t> at = {}) const {
    return fail("{} at offset {}: not supported in a pattern", what, offset(at.value_or(at_)));
  }
  tl::unexpected<Error> expected(std::string_view what, std::optional<size_t> at = {}) const {
    return fail("expected {} at offset {}", what, offset(at.value_or(at_)));
  }
  size_t offset(size_t at) const {
    const auto begins_character = [](char c) { return (c & 0xC0) != 0x80; };
    return static_cast<size_t>(
        std::count_if(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), begins_character));
  }

  bool looking_at(std::string_view text) const { return text_.substr(at_, text.size()) == text; }
  bool take(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }

  // Those behind a ^ at the pattern's beginning: each says something of all of the text.
  Result<void> parse_lookaheads(Pattern &pattern) {
    if (!take("^")) return {};
    while (looking_at("(?=") || looking_at("(?!")) {
      auto &list = looking_at("(?=") ? pattern.ahead : pattern.not_ahead;
      at_ += 3;
      in_lookahead_ = true;
      auto text = parse_alternatives(0);
      in_lookahead_ = false;
      if (!text) return tl::unexpected(text.error());
      if (!take(")")) return expected("')'");
      list.push_back(*std::move(text));
    }
    return {};
  }

  Result<Expression> parse_alternatives(uint32_t depth) {
    if (depth > kMostNesting) return unsupported("a group within more than 100 others");
    std::vector<Expression> alternatives;
    do {
      auto made = depth == 0 ? parse_between_ends(take("^") || in_lookahead_) : parse_sequence(depth);
      if (!made) return made;
      if (!matches_nothing(*made)) alternatives.push_back(*std::move(made));
    } while (take("|"));
    return choice(std::move(alternatives));
  }

  // At depth 0 each alternative has ends of its own: what is not anchored may have any text there.
  Result<Expression> parse_between_ends(bool begins_text) {
    auto middle = parse_sequence(0);
    if (!middle) return middle;
    const bool ends_text = take("$"), can_match = !matches_nothing(*middle);
    std::vector<Expression> parts;
    if (!begins_text) parts.push_back(any_text_);
    parts.push_back(*std::move(middle));
    if (!ends_text) parts.push_back(any_text_);
    return can_match ? sequence(std::move(parts)) : nothing();
  }

  bool at_end_of_sequence(uint32_t depth) const {
    if (at_ == text_.size() || looking_at("|") || looking_at(")")) return true;
    if (depth > 0 || !looking_at("$")) return false;
    const std::string_view behind = text_.substr(at_ + 1);
    return behind.empty() || behind.front() == '|' || (in_lookahead_ && behind.front() == ')');
  }

  Result<Expression> parse_sequence(uint32_t depth) {
    std::vector<Expression> parts;
    bool can_match = true;
    while (!at_end_of_sequence(depth)) {
      auto item = parse_item(depth);
      if (!item) return item;
      auto repeated = parse_repetition(*std::move(item));
      if (!repeated) return repeated;
      can_match &= !matches_nothing(*repeated);
      parts.push_back(*std::move(repeated));
    }
    return can_match ? sequence(std::move(parts)) : nothing();
  }

  Result<Expression> parse_item(uint32_t depth) {
    const size_t begin = at_;
    if (take("(")) return parse_group(depth);
    if (take("[")) return parse_class(begin);
    if (take(".")) return of(char_class_except(kLineEnds).ranges, begin);
    if (looking_at("^") || looking_at("$")) return unsupported("an anchor that is not at an end");
    for (const char *sign : {"*", "+", "?", "{"})
      if (looking_at(sign)) return expected("something to repeat");
    const auto ranges = parse_characters();
    if (!ranges) return tl::unexpected(ranges.error());
    return of(*ranges, begin);
  }

  Result<Expression> of(const Ranges &ranges, size_t begin) const {
    Expression made = string_char_of(ranges);
    if (matches_nothing(made) && !ranges.empty()) return unsupported("nothing but control characters", begin);
    return made;
  }

  Result<Expression> parse_group(uint32_t depth) {
    if (looking_at("?") && !take("?:")) return unsupported("a group that begins with '(?'", at_ - 1);
    auto inner = parse_alternatives(depth + 1);
    if (inner && !take(")")) return expected("')'");
    return inner;
  }

  // One character, escaped or not, or an escape that stands for several.
  Result<Ranges> parse_characters() {
    const size_t begin = at_;
    if (!take("\\")) {
      const char32_t c = text::next_code_point(text_, at_);
      return Ranges{{c, c}};
    }
    if (at_ == text_.size()) return expected("a character behind the backslash");
    const char32_t escape = text::next_code_point(text_, at_);
    switch (escape) {
      case 'd':
        return kDigits;
      case 'D':
        return char_class_except(kDigits).ranges;
      case 'w':
        return kWord;
      case 'W':
        return char_class_except(kWord).ranges;
      case 's':
        return kWhite;
      case 'S':
        return char_class_except(kWhite).ranges;
      case 'x':
        return parse_hex(2, begin);
      case 'u':
        return parse_hex(4, begin);
      default:
        return parse_simple_escape(escape, begin);
    }
  }

  Result<Ranges> parse_simple_escape(char32_t escape, size_t begin) {
    constexpr std::string_view kLetters = "tnrfv", kMeanings = "\t\n\r\f\v";
    if (escape < 0x80) {
      const auto c = static_cast<char>(escape);
      if (const size_t i = kLetters.find(c); i != std::string_view::npos)
        return Ranges{{static_cast<char32_t>(kMeanings[i]), static_cast<char32_t>(kMeanings[i])}};
      const bool letter_or_digit = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
      if (!letter_or_digit) return Ranges{{escape, escape}};
    }
    std::string spelling = "\\";
    text::append_utf8(spelling, escape);
    return unsupported(fmt::format("the escape {}", bonsai::quoted(spelling)), begin);
  }

  Result<Ranges> parse_hex(size_t n_digits, size_t begin) {
    char32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
      if (!digit && !lower && !upper) return expected(fmt::format("{} hexadecimal digits", n_digits));
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : lower ? c - 'a' + 10 : c - 'A' + 10);
    }
    if (value >= 0xD800 && value <= 0xDFFF) return unsupported("half of a surrogate pair", begin);
    return Ranges{{value, value}};
  }

  // Behind the '[' at `begin`.
  Result<Expression> parse_class(size_t begin) {
    const bool negated = take("^");
    Ranges all;
    while (!take("]")) {
      if (at_ == text_.size()) return expected("']'");
      const size_t range_begin = at_;
      auto first = parse_characters();
      if (!first) return tl::unexpected(first.error());
      if (looking_at("-") && !looking_at("-]")) {
        ++at_;
        if (at_ == text_.size()) return expected("']'");
        const auto last = parse_characters();
        if (!last) return tl::unexpected(last.error());
        const bool is_range = first->size() == 1 && last->size() == 1 && first->front().first == first->front().last &&
                              last->front().first == last->front().last;
        if (!is_range || last->front().first < first->front().first) return expected("a range upwards", range_begin);
        first->front().last = last->front().last;
      }
      all.insert(all.end(), first->begin(), first->end());
    }
    return of(negated ? char_class_except(std::move(all)).ranges : char_class(std::move(all)).ranges, begin);
  }

  Result<Expression> parse_repetition(Expression item) {
    const auto repetition = read_repetition(text_, at_, RepetitionStyle::kRegex);
    if (!repetition) return bad_repetition(repetition.error());
    if (!*repetition) return item;
    take("?");  // lazy: the same texts
    if (matches_nothing(item)) return (*repetition)->least == 0 ? Expression() : nothing();
    return repeat(std::move(item), (*repetition)->least, (*repetition)->most);
  }

  tl::unexpected<Error> bad_repetition(const BadRepetition &bad) const {
    switch (bad.kind) {
      case BadRepetition::Kind::kNoCount:
        return expected("a number of repetitions");
      case BadRepetition::Kind::kNotClosed:
        return expected("'}'");
      case BadRepetition::Kind::kTooMany:
        return unsupported(fmt::format("more than {} repetitions", kMostRepetitions), bad.begin);
      case BadRepetition::Kind::kDownwards:
        break;
    }
    return expected("the least repetitions first", bad.begin + 1);
  }

  std::string_view text_;
  Expression any_text_;
  size_t at_ = 0;
  bool in_lookahead_ = false;
};

}  // namespace

bool matches_nothing(const Expression &expression) {
  return expression.kind == Expression::Kind::kChoice && expression.parts.empty();
}

Result<Pattern> parse_pattern(std::string_view pattern, Expression any_char) {
  return Parser(pattern, std::move(any_char)).parse();
}

}  // namespace bonsai::grammar
