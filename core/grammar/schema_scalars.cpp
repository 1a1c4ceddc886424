#include "core/grammar/schema_scalars.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <tuple>
#include <vector>

#include "core/grammar/gbnf.h"
#include "core/grammar/json_text.h"
#include "core/grammar/multiples.h"
#include "core/grammar/number_ranges.h"
#include "core/grammar/regex.h"
#include "core/grammar/string_formats.h"

namespace bonsai::grammar {
namespace {

// The least number that has more than kMostDecimalDigits digits in front of its point, and is never written.
constexpr long double kTooLarge = 1e18L;
static_assert(kMostDecimalDigits == 18);

// A keyword's value as a count, or `otherwise`.
SchemaResult<uint32_t> count(const Json &bare, const char *keyword, uint32_t otherwise, const std::string &pointer) {
  if (!bare.contains(keyword)) return otherwise;
  const auto decimal = bare[keyword].is_number() ? parse_decimal(text_of(bare[keyword])) : std::nullopt;
  const bool fits = decimal && !decimal->negative && decimal->fraction.empty() && decimal->whole.size() < 6;
  if (!fits || std::stoul(decimal->whole) > kMostRepetitions)
    return fail_at(pointer, "{}: expected a whole number from 0 to {}, found {}", bonsai::quoted(keyword),
                   kMostRepetitions, text_of(bare[keyword]));
  return static_cast<uint32_t>(std::stoul(decimal->whole));
}

SchemaResult<void> read_bound(const Json &bare, const char *keyword, bool included, bool is_least,
                              std::optional<Bound> &bound, const std::string &pointer) {
  if (!bare.contains(keyword)) return {};
  if (bare[keyword].is_number() && std::abs(number_of(bare[keyword])) >= kTooLarge) {
    if ((number_of(bare[keyword]) < 0) == is_least) return {};  // nothing is beyond it, and no bound is needed
    return nothing_at(pointer, "{}: expected {}1e18, as numbers are written with at most {} digits, found {}",
                      bonsai::quoted(keyword), is_least ? "less than " : "more than -", kMostDecimalDigits,
                      text_of(bare[keyword]));
  }
  const auto value = bare[keyword].is_number() ? parse_decimal(text_of(bare[keyword])) : std::nullopt;
  if (!value)
    return fail_at(pointer, "{}: expected a number of at most {} digits on each side of the point, found {}",
                   bonsai::quoted(keyword), kMostDecimalDigits, text_of(bare[keyword]));
  // Of an included and an excluded bound the narrower counts.
  if (bound) {
    const Json &old = bare[is_least ? "minimum" : "maximum"], &now = bare[keyword];
    if (is_least ? is_less(now, old) : is_less(old, now)) return {};
  }
  bound = Bound{*value, included};
  return {};
}

// Whether one of the keywords gives a bound that is `narrow`.
template <class Narrow>
bool is_bounded(const Json &bare, std::initializer_list<const char *> keywords, Narrow narrow) {
  return std::any_of(keywords.begin(), keywords.end(), [&](const char *keyword) {
    return bare.contains(keyword) && narrow(bare[keyword].get<double>());
  });
}

// The numbers of a range that the divisor of "multipleOf" divides.
SchemaResult<Expression> multiples_in(const NumberRange &range, const Json &divisor, const std::string &pointer,
                                      Effort &effort) {
  const auto value = divisor.is_number() ? parse_decimal(text_of(divisor)) : std::nullopt;
  const auto multiples = value ? multiples_of(*value) : std::nullopt;
  if (!multiples)
    return fail_at(
        pointer,
        "'multipleOf': expected a number above 0 and at most 32768, with few digits behind the point; found {}",
        text_of(divisor));
  const auto numbers = number_in(range);
  if (!numbers) return nothing_at(pointer, "no {} is within the bounds", range.whole_numbers ? "integer" : "number");
  const auto fewest = multiples->minimal(effort);
  const auto all = fewest ? Language::of(*numbers, effort) : fewest;
  const auto within = all ? Language::both(*all, *fewest, effort) : all;
  const auto made = within ? within->minimal(effort) : within;
  if (!made) return fail_at(pointer, "'multipleOf': too large: {}", made.error().message);
  if (made->is_empty()) return nothing_at(pointer, "no multiple of {} is within the bounds", text_of(divisor));
  auto expression = made->expression(effort);
  if (!expression) return fail_at(pointer, "'multipleOf': too large: {}", expression.error().message);
  return *std::move(expression);
}

}  // namespace

SchemaResult<std::pair<uint32_t, uint32_t>> read_counts(const Json &bare, const char *least_keyword,
                                                        const char *most_keyword, const std::string &pointer) {
  const auto least = count(bare, least_keyword, 0, pointer);
  if (!least) return tl::unexpected(least.error());
  const auto most = count(bare, most_keyword, kUnbounded, pointer);
  if (!most) return tl::unexpected(most.error());
  if (*most < *least)
    return nothing_at(pointer, "{} is less than {}", bonsai::quoted(most_keyword), bonsai::quoted(least_keyword));
  return std::pair{*least, *most};
}

namespace {

// What "pattern", "format" and the lengths each ask of a string's text: to be one of all of these, and of none of
// those.
struct StringTexts {
  std::vector<Expression> all_of, none_of;
};

// All values of "pattern" or "format" that must hold.
SchemaResult<std::vector<std::string>> texts_of(const Json &bare, const char *keyword, const std::string &pointer) {
  std::vector<std::string> texts;
  const auto add = [&](const Json &schema) {
    if (!schema.contains(keyword)) return true;
    if (schema[keyword].is_string()) texts.push_back(schema[keyword]);
    return schema[keyword].is_string();
  };
  bool are_texts = add(bare);
  if (bare.contains(kFurtherTexts))
    for (const Json &further : bare[kFurtherTexts]) are_texts &= add(further);
  if (!are_texts) return fail_at(pointer, "{}: expected a text", bonsai::quoted(keyword));
  return texts;
}

SchemaResult<void> add_pattern(const std::string &text, const Expression &any_char, StringTexts &texts,
                               const std::string &pointer) {
  auto pattern = parse_pattern(text, any_char);
  if (!pattern) return fail_at(pointer, "'pattern': {}", pattern.error().message);
  pattern->ahead.push_back(std::move(pattern->text));
  if (std::any_of(pattern->ahead.begin(), pattern->ahead.end(), matches_nothing))
    return nothing_at(pointer, "'pattern': there is no text that it matches");
  std::move(pattern->ahead.begin(), pattern->ahead.end(), std::back_inserter(texts.all_of));
  std::erase_if(pattern->not_ahead, matches_nothing);
  std::move(pattern->not_ahead.begin(), pattern->not_ahead.end(), std::back_inserter(texts.none_of));
  return {};
}

SchemaResult<StringTexts> string_texts(const Json &bare, const Expression &any_char, const std::string &pointer) {
  StringTexts texts;
  const auto patterns = texts_of(bare, "pattern", pointer);
  if (!patterns) return tl::unexpected(patterns.error());
  for (const std::string &pattern : *patterns)
    if (auto ok = add_pattern(pattern, any_char, texts, pointer); !ok) return tl::unexpected(ok.error());
  const auto range = read_counts(bare, "minLength", "maxLength", pointer);
  if (!range) return tl::unexpected(range.error());
  auto [least, most] = *range;
  const auto formats = texts_of(bare, "format", pointer);
  if (!formats) return tl::unexpected(formats.error());
  for (const std::string &format : *formats)
    if (most >= most_characters(format)) most = kUnbounded;
  for (const std::string &format : *formats)
    if (auto text = format_text(format, most != kUnbounded)) texts.all_of.push_back(*std::move(text));
  if (least > 0 || most != kUnbounded) texts.all_of.push_back(repeat(any_char, least, most));
  return texts;
}

}  // namespace

Result<Language> string_language(const Json &bare, const std::string &pointer, Effort &effort) {
  const auto texts = string_texts(bare, plain_char(), pointer);
  if (!texts && texts.error().allows_nothing) return Language(std::vector<Language::State>(1));
  if (!texts) return tl::unexpected(texts.error());
  auto language = Language::of(repeat(plain_char(), 0, kUnbounded), effort);
  const auto cut = [&](const Expression &text, auto operation) -> Result<void> {
    const auto next = Language::of(text, effort);
    if (language && next) language = operation(*language, *next, effort);
    if (!language || !next) return fail_at(pointer, "text too large: {}", (language ? next : language).error().message);
    return {};
  };
  for (const Expression &text : texts->all_of)
    if (const auto done = cut(text, Language::both); !done) return tl::unexpected(done.error());
  for (const Expression &text : texts->none_of)
    if (const auto done = cut(text, Language::difference); !done) return tl::unexpected(done.error());
  return language;
}

SchemaResult<Expression> string_schema(const Json &bare, const std::string &pointer, Effort &effort) {
  auto texts = string_texts(bare, string_char(), pointer);
  if (!texts) return tl::unexpected(texts.error());
  if (texts->none_of.empty() && texts->all_of.empty()) return call(kString);
  if (texts->none_of.empty() && texts->all_of.size() == 1) return quoted_text(std::move(texts->all_of.front()));
  const auto language = string_language(bare, pointer, effort);
  if (!language) return tl::unexpected(language.error());
  if (language->is_empty()) return nothing_at(pointer, "no text satisfies 'pattern', 'format' and the length at once");
  auto text = language->expression(effort);
  if (!text) return fail_at(pointer, "text too large: {}", text.error().message);
  return quoted_text(*std::move(text));
}

SchemaResult<Expression> number_schema(const Json &bare, bool whole_numbers, const std::string &pointer,
                                       Effort &effort) {
  NumberRange range;
  range.whole_numbers = whole_numbers;
  bool has_bound = false;  // which excludes exponents, also where it is beyond all that is written without
  for (const auto &[keyword, included, is_least] : {std::tuple{"minimum", true, true},
                                                    {"exclusiveMinimum", false, true},
                                                    {"maximum", true, false},
                                                    {"exclusiveMaximum", false, false}}) {
    if (auto ok = read_bound(bare, keyword, included, is_least, is_least ? range.least : range.most, pointer); !ok)
      return tl::unexpected(ok.error());
    has_bound |= bare.contains(keyword);
  }
  // OpenAPI's, which clients take for the type that they have.
  const auto formats = texts_of(bare, "format", pointer);
  if (formats && std::find(formats->begin(), formats->end(), "int32") != formats->end()) {
    range.whole_numbers = true;
    if (!is_bounded(bare, {"minimum", "exclusiveMinimum"}, [](double bound) { return bound >= -2147483648.0; }))
      range.least = Bound{*parse_decimal("-2147483648"), true};
    if (!is_bounded(bare, {"maximum", "exclusiveMaximum"}, [](double bound) { return bound <= 2147483647.0; }))
      range.most = Bound{*parse_decimal("2147483647"), true};
  }
  if (bare.contains("multipleOf")) return multiples_in(range, bare["multipleOf"], pointer, effort);
  if (!range.least && !range.most && (whole_numbers || !has_bound)) return call(whole_numbers ? kInteger : kNumber);
  auto made = number_in(range);
  if (!made) return nothing_at(pointer, "no {} is within the bounds", range.whole_numbers ? "integer" : "number");
  return *std::move(made);
}

}  // namespace bonsai::grammar
