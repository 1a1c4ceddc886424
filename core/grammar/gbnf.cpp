#include "core/grammar/gbnf.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "core/base/utf8.h"
#include "core/grammar/repetition.h"
#include "core/text/utf8.h"

namespace bonsai::grammar {
namespace {

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool is_surrogate(char32_t c) { return c >= 0xD800 && c <= 0xDFFF; }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<RuleSet> parse() {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    skip_space(true);
    while (at_ < text_.size()) {
      if (auto ok = parse_rule(); !ok) return tl::unexpected(ok.error());
      skip_space(true);
    }
    if (auto ok = check_rules(); !ok) return tl::unexpected(ok.error());
    return std::move(rules_);
  }

 private:
  // What is known of a rule beside its body.
  struct Mention {
    size_t used_at = 0;                // first
    std::optional<size_t> defined_at;  // offset of its name
  };

  std::string place(size_t offset) const {
    size_t line = 1, column = 1;
    for (size_t at = 0; at < offset && at < text_.size();) {
      const bool ends_line = text_[at] == '\n';
      text::next_code_point(text_, at);
      line += ends_line;
      column = ends_line ? 1 : column + 1;
    }
    return fmt::format("grammar, line {}, column {}", line, column);
  }

  std::string found() const {
    if (at_ >= text_.size()) return "the end of the grammar";
    if (text_[at_] == '\n' || text_[at_] == '\r') return "the end of the line";
    size_t end = at_;
    text::next_code_point(text_, end);
    return bonsai::quoted(text_.substr(at_, end - at_));
  }

  tl::unexpected<Error> expected(std::string_view what) const {
    return fail("{}: expected {}, found {}", place(at_), what, found());
  }

  bool looking_at(std::string_view text) const { return text_.substr(at_, text.size()) == text; }

  bool take(std::string_view text) {
    if (!looking_at(text)) return false;
    at_ += text.size();
    return true;
  }

  // Space and comments; line ends too if `lines`.
  void skip_space(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view take_name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  Result<uint32_t> rule_number(std::string_view name, size_t offset) {
    const auto [at, is_new] = numbers_.try_emplace(std::string(name), static_cast<uint32_t>(rules_.rules.size()));
    if (is_new) {
      if (rules_.rules.size() == kMostRules)
        return fail("{}: the grammar has more than {} rules", place(offset), kMostRules);
      rules_.rules.push_back({std::string(name), {}, false});
      mentions_.push_back({offset, std::nullopt});
    }
    return at->second;
  }

  Result<void> parse_rule() {
    const size_t begin = at_;
    const std::string_view name = take_name();
    if (name.empty()) return expected("the name of a rule");
    const auto rule = rule_number(name, begin);
    if (!rule) return tl::unexpected(rule.error());
    if (const auto first = mentions_[*rule].defined_at)
      return fail("{}: rule {} is defined twice, first in line {}", place(begin), bonsai::quoted(name),
                  1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(*first), '\n'));
    mentions_[*rule].defined_at = begin;
    skip_space(false);
    if (!take("::=")) return expected(fmt::format("'::=' behind the rule's name {}", bonsai::quoted(name)));
    skip_space(true);
    auto body = parse_alternatives(0);
    if (!body) return tl::unexpected(body.error());
    // A name that was not taken as a part begins the next rule.
    if (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != '\r' && !is_name_char(text_[at_]))
      return expected("a literal, a class, a rule's name, '(', '|' or the end of the line");
    rules_.rules[*rule].body = *std::move(body);
    return {};
  }

  Result<Expression> parse_alternatives(uint32_t depth) {
    if (depth > kMostNesting) return fail("{}: parentheses are nested more than {} deep", place(at_), kMostNesting);
    std::vector<Expression> alternatives;
    do {
      skip_space(true);
      auto alternative = parse_sequence(depth);
      if (!alternative) return alternative;
      alternatives.push_back(*std::move(alternative));
    } while (take("|"));
    return choice(std::move(alternatives));
  }

  Result<Expression> parse_sequence(uint32_t depth) {
    std::vector<Expression> parts;
    for (;;) {
      const size_t begin = at_;
      auto part = parse_item(depth);
      if (!part) return part;
      if (at_ == begin) return sequence(std::move(parts));
      auto repeated = parse_repetition(*std::move(part), depth);
      if (!repeated) return repeated;
      parts.push_back(*std::move(repeated));
      skip_space(depth > 0);
    }
  }

  // Takes nothing where no item begins.
  Result<Expression> parse_item(uint32_t depth) {
    if (at_ == text_.size()) return Expression{};
    if (take("\"")) return parse_literal();
    if (take("[")) return parse_class();
    if (take(".")) return char_class_except({});
    if (looking_at("(")) return parse_group(depth);
    if (is_name_char(text_[at_])) return parse_call();
    // llama.cpp's <think>, <[1000]> and !<think>.
    if (looking_at("<") || looking_at("!<")) return fail("{}: matching tokens (<...>) is not supported", place(at_));
    return Expression{};
  }

  Result<Expression> parse_group(uint32_t depth) {
    const size_t begin = at_++;
    auto inner = parse_alternatives(depth + 1);
    if (!inner) return inner;
    if (!take(")")) return expected(fmt::format("')' for the '(' at {}", place(begin).substr(9)));
    return inner;
  }

  // A name in front of '::=' begins the next rule, wherever it stands.
  Result<Expression> parse_call() {
    const size_t begin = at_;
    const std::string_view name = take_name();
    const size_t end = at_;
    skip_space(true);
    if (looking_at("::=")) {
      at_ = begin;
      return Expression{};
    }
    at_ = end;
    const auto rule = rule_number(name, begin);
    if (!rule) return tl::unexpected(rule.error());
    return call(*rule);
  }

  Result<char32_t> parse_hex(size_t n_digits) {
    char32_t value = 0;
    for (size_t i = 0; i < n_digits; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : ' ';
      const bool digit = c >= '0' && c <= '9', lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
      if (!digit && !lower && !upper) return expected(fmt::format("{} hexadecimal digits", n_digits));
      value = value * 16 + static_cast<char32_t>(digit ? c - '0' : lower ? c - 'a' + 10 : c - 'A' + 10);
    }
    return value;
  }

  // One character of a literal or a class, escaped or not; a line end is one, as grammars have it that were written as
  // a string of another language. `closer` ends what begins at `opened`.
  Result<char32_t> parse_char(std::string_view closer, std::string_view what, size_t opened) {
    if (at_ == text_.size())
      return expected(fmt::format("{} at the end of the {} that begins at {}", closer, what, place(opened).substr(9)));
    const size_t begin = at_;
    if (!take("\\")) return text::next_code_point(text_, at_);
    constexpr std::string_view kEscapes = "nrt\\\"[]", kMeanings = "\n\r\t\\\"[]";
    const size_t escape = at_ < text_.size() ? kEscapes.find(text_[at_]) : std::string_view::npos;
    if (escape != std::string_view::npos) {
      ++at_;
      return static_cast<char32_t>(kMeanings[escape]);
    }
    const size_t n_digits = looking_at("x") ? 2 : looking_at("u") ? 4 : looking_at("U") ? 8 : 0;
    if (n_digits == 0) return expected("one of n r t \\ \" [ ] x u U behind a backslash");
    ++at_;
    const auto value = parse_hex(n_digits);
    if (value && (*value > kLastCodePoint || is_surrogate(*value)))
      return fail("{}: expected a character, found {}, which is none", place(begin),
                  bonsai::quoted(text_.substr(begin, at_ - begin)));
    return value;
  }

  Result<Expression> parse_literal() {
    const size_t begin = at_ - 1;
    std::string bytes;
    while (!take("\"")) {
      const auto character = parse_char("'\"'", "literal", begin);
      if (!character) return tl::unexpected(character.error());
      text::append_utf8(bytes, *character);
    }
    return literal(std::move(bytes));
  }

  Result<Expression> parse_class() {
    const size_t begin = at_ - 1;
    const bool negated = take("^");
    std::vector<CodePoints> ranges;
    while (!take("]")) {
      const size_t range_begin = at_;
      const auto first = parse_char("']'", "class", begin);
      if (!first) return tl::unexpected(first.error());
      ranges.push_back({*first, *first});
      if (!looking_at("-") || looking_at("-]")) continue;
      ++at_;
      const auto last = parse_char("']'", "class", begin);
      if (!last) return tl::unexpected(last.error());
      if (*last < *first)
        return fail("{}: expected a range upwards, found {}", place(range_begin),
                    bonsai::quoted(text_.substr(range_begin, at_ - range_begin)));
      ranges.back().last = *last;
    }
    Expression made = negated ? char_class_except(std::move(ranges)) : char_class(std::move(ranges));
    if (made.ranges.empty()) return fail("{}: the class matches no character", place(begin));
    return made;
  }

  Result<Expression> parse_repetition(Expression part, uint32_t depth) {
    for (uint32_t n = 0;; ++n) {
      skip_space(depth > 0);
      const size_t begin = at_;
      const auto repetition = read_repetition(text_, at_, RepetitionStyle::kGbnf);
      if (!repetition) return bad_repetition(repetition.error());
      if (!*repetition) return part;
      if (n == kMostNesting) return fail("{}: more than {} repetitions of repetitions", place(begin), kMostNesting);
      part = repeat(std::move(part), (*repetition)->least, (*repetition)->most);
    }
  }

  tl::unexpected<Error> bad_repetition(const BadRepetition &bad) const {
    const std::string found = bonsai::quoted(text_.substr(bad.begin, bad.end - bad.begin));
    switch (bad.kind) {
      case BadRepetition::Kind::kNoCount:
        return expected("a number of repetitions");
      case BadRepetition::Kind::kNotClosed:
        return expected("'}' at the end of the repetition");
      case BadRepetition::Kind::kTooMany:
        return fail("{}: expected at most {} repetitions, found {}", place(bad.begin), kMostRepetitions, found);
      case BadRepetition::Kind::kDownwards:
        break;
    }
    return fail("{}: expected the least repetitions first, found {}", place(bad.begin), found);
  }

  Result<void> check_rules() {
    for (size_t rule = 0; rule < mentions_.size(); ++rule) {
      if (!mentions_[rule].defined_at)
        return fail("{}: rule {} is used, but not defined", place(mentions_[rule].used_at),
                    bonsai::quoted(rules_.rules[rule].name));
    }
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) return fail("grammar: expected a rule named 'root', found none");
    rules_.root = root->second;
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
  RuleSet rules_;
  std::vector<Mention> mentions_;  // by rule
  std::unordered_map<std::string, uint32_t> numbers_;
};

}  // namespace

Result<RuleSet> parse_gbnf(std::string_view text) {
  if (text.size() > kMostGrammarBytes)
    return fail("grammar of {} bytes is too long; expected at most {}", text.size(), kMostGrammarBytes);
  if (const size_t offset = find_invalid_utf8(text); offset != std::string_view::npos)
    return fail("grammar: invalid UTF-8 at byte offset {}", offset);
  return Parser(text).parse();
}

}  // namespace bonsai::grammar
