// Filters on texts and numbers (https://jinja.palletsprojects.com/templates/#list-of-builtin-filters); tojson as
// Hugging Face's chat templates have it, which is json.dumps() and not Jinja's.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "core/text/template/builtins.h"
#include "core/text/template/characters.h"
#include "core/text/template/format.h"
#include "core/text/template/number_text.h"
#include "core/text/template/operators.h"
#include "core/text/template/print.h"
#include "core/text/template/text_operations.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

using text::next_code_point;

Value trim(Call &call) {
  Strip which;
  if (call.has(0) && !call[0].is_none()) {
    const TracedText *characters = call.text(0);
    if (characters == nullptr) return {};
    if (!call.runtime().spend(characters->size())) return {};
    which.characters = characters->bytes();
  }
  return strip(call.printed_self(), which);
}

Value replace_filter(Call &call) {
  const TracedText from = to_text(call.runtime(), call[0]), to = to_text(call.runtime(), call[1]);
  return replace(call.runtime(), call.printed_self(), from, to, call.integer(2, -1));
}

template <Case kTo>
Value case_changed(Call &call) {
  return change_case(call.runtime(), call.printed_self(), kTo);
}

// Unlike str.title(), words begin behind spaces, hyphens and opening brackets only.
Value title(Call &call) {
  const TracedText text = call.printed_self();
  TextBuilder out(call.runtime());
  size_t begin = 0;
  const auto add_word = [&](size_t end) {
    if (begin == end || !call.runtime().spend_on_parts(2)) return;
    const size_t second = moved_by(text.bytes(), begin, 1);
    out.append(change_case(call.runtime(), text.slice({begin, second}), Case::kUpper));
    out.append(change_case(call.runtime(), text.slice({second, end}), Case::kLower));
  };
  for (size_t at = 0; at < text.size() && !call.runtime().failed();) {
    const size_t end = at;
    const char32_t c = next_code_point(text.bytes(), at);
    if (!is_space(c) && std::u32string_view(U"-({[<").find(c) == std::u32string_view::npos) continue;
    add_word(end);
    out.append(text, {end, at});
    begin = at;
  }
  add_word(text.size());
  return out.take();
}

Value indent(Call &call) {
  const TracedText *self = call.self_text();
  if (self == nullptr) return {};
  if (call[0].is_none()) return call.fail("expected an integer or a string, found none");
  const TracedText &text = *self;
  TracedText indention;
  if (call[0].text() != nullptr) {
    indention = *call[0].text();
  } else {
    const int64_t width = std::max<int64_t>(call.integer(0, 4), 0);
    if (!call.runtime().allows_text(static_cast<uint64_t>(width))) return {};
    indention = TracedText(std::string(static_cast<size_t>(width), ' '), Origin::kInput);
  }
  const bool first = call.flag(1, false), blank = call.flag(2, false);
  TextBuilder out(call.runtime());
  const std::string closed = std::string(text.bytes()) + '\n';  // so that a last empty line counts
  const std::vector<ByteRange> lines = lines_of(call.runtime(), closed, false);
  for (size_t i = 0; i < lines.size() && !call.runtime().failed(); ++i) {
    if (i > 0) out.append("\n", Origin::kInput);
    const bool indented = i == 0 ? first : blank || lines[i].begin < lines[i].end;
    if (indented) out.append(indention);
    out.append(text, lines[i]);
  }
  return out.take();
}

Value escape(Call &call) {
  constexpr std::string_view kSpecial = "&<>'\"";
  constexpr std::array<std::string_view, 5> kEntities = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
  const TracedText text = call.printed_self();
  TextBuilder out(call.runtime());
  for (size_t at = 0; at < text.size() && !call.runtime().failed();) {
    const size_t special = std::min(text.bytes().find_first_of(kSpecial, at), text.size());
    out.append(text, {at, special});
    if (special < text.size()) out.append(kEntities[kSpecial.find(text.bytes()[special])], Origin::kInput);
    at = special + 1;
  }
  return out.take();
}

Value tojson(Call &call) {
  JsonStyle style;
  style.ascii_only = call.flag(0, false);
  style.sort_keys = call.flag(3, false);
  if (call.has(1) && !call[1].is_none()) {
    const int64_t width = call[1].text() != nullptr ? 0 : std::clamp<int64_t>(call.integer(1, 0), 0, 1024);
    style.indent =
        call[1].text() != nullptr ? std::string(call[1].text()->bytes()) : std::string(static_cast<size_t>(width), ' ');
    style.item_separator.assign(1, ',');
  }
  if (call.has(2) && !call[2].is_none()) {
    const Sequence *separators = call[2].sequence();
    const bool is_pair = separators != nullptr && separators->items.size() == 2 &&
                         separators->items[0].text() != nullptr && separators->items[1].text() != nullptr;
    if (!is_pair) return call.fail("'separators': expected two strings");
    style.item_separator = separators->items[0].text()->bytes();
    style.key_separator = separators->items[1].text()->bytes();
  }
  return to_json(call.runtime(), call.self(), style);
}

Value string(Call &call) { return call.printed_self(); }

Value center(Call &call) {
  const TracedText space(" ", Origin::kInput);
  return padded(call.runtime(), call.printed_self(), {call.integer(0, 80), Side::kCenter, space});
}

// "%s of %s" | format(a, b), or with names.
Value format(Call &call) {
  CallArguments &given = call.rest();
  if (given.named.empty())
    return fill_places(call.runtime(), call.printed_self(),
                       call.runtime().list(std::move(given.positional), Sequence::Kind::kTuple));
  if (!given.positional.empty()) return call.fail("takes values with names or without, not both");
  DictItems items;
  for (auto &[name, value] : given.named) items.emplace_back(make_text(name, Origin::kTemplate), std::move(value));
  return fill_places(call.runtime(), call.printed_self(), call.runtime().dict(std::move(items)));
}

// To a length in characters with the end that says so, at a space if there is one.
Value truncate(Call &call) {
  const TracedText text = call.printed_self();
  const TracedText end = call.has(2) ? to_text(call.runtime(), call[2]) : TracedText("...", Origin::kTemplate);
  const int64_t length = call.integer(0, 255), leeway = call.integer(3, 5);
  const auto end_length = static_cast<int64_t>(count_characters(end.bytes()));
  if (length < end_length) return call.fail("the length is less than that of the end");
  if (leeway < 0) return call.fail("the leeway is less than 0");
  const auto n = static_cast<int64_t>(count_characters(text.bytes()));
  if (n <= length || n - length <= leeway) return text;
  size_t cut = moved_by(text.bytes(), 0, length - end_length);
  if (const size_t space = text.bytes().substr(0, cut).rfind(' '); !call.flag(1, false) && space != text.bytes().npos)
    cut = space;
  TextBuilder out(call.runtime());
  out.append(text, {0, cut});
  out.append(end);
  return out.take();
}

// RFC 3986's unreserved characters stay; the others' bytes are spelled out.
void append_percent_encoded(TextBuilder &out, const TracedText &text, bool in_query) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text.bytes()[i];
    const bool is_plain =
        is_digit_or_letter(c) || c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !in_query);
    if (is_plain)
      out.append(text, {i, i + 1});
    else if (c == ' ' && in_query)
      out.append("+", Origin::kInput);
    else
      out.append(fmt::format("%{:02X}", static_cast<uint8_t>(c)), Origin::kInput);
  }
}

// A text, or a query of a mapping's items or of pairs.
Value urlencode(Call &call) {
  TextBuilder out(call.runtime());
  const Dict *dict = call.self().dict();
  if (dict == nullptr && call.self().sequence() == nullptr) {
    append_percent_encoded(out, call.printed_self(), false);
    return out.take();
  }
  std::vector<Value> pairs;
  if (dict == nullptr) pairs = items_of(call.runtime(), call.self());
  for (size_t i = 0; dict != nullptr && i < dict->items.size(); ++i)
    pairs.push_back(call.runtime().list({dict->items[i].first, dict->items[i].second}));
  for (const Value &pair : pairs) {
    const std::vector<Value> parts = items_of(call.runtime(), pair);
    if (parts.size() != 2) return call.fail("expected pairs of a name and a value");
    if (!out.text().empty()) out.append("&", Origin::kInput);
    append_percent_encoded(out, to_text(call.runtime(), parts[0]), true);
    out.append("=", Origin::kInput);
    append_percent_encoded(out, to_text(call.runtime(), parts[1]), true);
  }
  return out.take();
}

Value wordcount(Call &call) {
  const TracedText text = call.printed_self();
  const auto is_word = [](char c) { return c == '_' || is_digit_or_letter(c) || (c & 0x80); };
  int64_t n = 0;
  for (size_t i = 0; i < text.size(); ++i)
    n += is_word(text.bytes()[i]) && (i == 0 || !is_word(text.bytes()[i - 1])) ? 1 : 0;
  return n;
}

Value to_integer(Call &call) {
  if (call.self().is_undefined()) return call.runtime().fail_undefined(call.self());
  if (const auto number = call.self().as_integer()) return *number;
  std::optional<double> real = call.self().as_real();
  if (const TracedText *text = call.self().text()) {
    if (!call.runtime().spend(text->size())) return {};
    const int64_t base = call.integer(1, 10);
    if (base != 0 && (base < 2 || base > 36)) return call.fail("'base': expected 0 or 2 to 36, found {}", base);
    const auto number = read_integer_text(text->bytes(), static_cast<int>(base));
    if (number && !number->is_too_large) return number->value;
    if (number) return call.fail("expected an integer of at most 64 bits");
    real = read_real_text(text->bytes());
  }
  if (real && std::abs(*real) < 0x1p63) return static_cast<int64_t>(*real);
  if (real && std::isfinite(*real)) return call.fail("expected an integer of at most 64 bits");
  if (call.has(0)) return call[0];
  return int64_t{0};
}

Value to_real(Call &call) {
  if (call.self().is_undefined()) return call.runtime().fail_undefined(call.self());
  std::optional<double> number = call.self().as_real();
  if (const TracedText *text = call.self().text(); text != nullptr && call.runtime().spend(text->size()))
    number = read_real_text(text->bytes());
  if (number) return *number;
  if (call.has(0)) return call[0];
  return 0.0;
}

Value absolute(Call &call) {
  const auto number = call.self().as_real();
  if (!number) return call.fail("expected a number, found {}", type_name(call.self()));
  if (*number >= 0 && call.self().boolean() == nullptr) return call.self();
  const auto integer = call.self().as_integer();
  if (integer && *integer >= 0) return *integer;
  return integer ? negate(call.runtime(), Unary::Operator::kMinus, call.self()) : Value(std::abs(*number));
}

// The digits of an integer without the last `n_dropped`, rounded to the nearest; of two as near, to the even one.
// `has_fraction`: the number is a little more than its digits say. Precondition: n_dropped > 0.
std::string rounded_digits(std::string digits, bool has_fraction, size_t n_dropped) {
  if (digits.size() < n_dropped) return "0";
  const size_t n_kept = digits.size() - n_dropped;
  const std::string dropped = digits.substr(n_kept);
  std::string half(n_dropped, '0');
  half[0] = '5';
  digits.resize(n_kept);
  digits.insert(0, 1, '0');
  const bool is_odd = (digits.back() - '0') % 2 != 0;
  if (dropped > half || (dropped == half && (has_fraction || is_odd))) {
    size_t at = digits.size() - 1;
    for (; digits[at] == '9'; --at) digits[at] = '0';
    ++digits[at];
  }
  return digits + std::string(n_dropped, '0');
}

// No number that Python has floating point or 64 bits for has so many digits before the point, or behind it.
constexpr int64_t kMostPlaces = 400;

Value round_integer(Call &call, int64_t number, int64_t precision) {
  if (precision >= 0) return number;
  if (precision < -kMostPlaces) return int64_t{0};
  const uint64_t magnitude = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  std::string digits = rounded_digits(std::to_string(magnitude), false, static_cast<size_t>(-precision));
  if (number < 0) digits.insert(0, 1, '-');
  int64_t rounded = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), rounded).ec != std::errc())
    return call.fail("an integer exceeds 64 bits");
  return rounded;
}

// To the nearest number with `precision` decimals, going by all of the digits that the number has.
Value round_real(Call &call, double number, int64_t precision) {
  if (!std::isfinite(number) || precision > kMostPlaces) return number;
  if (precision < -kMostPlaces) return std::copysign(0.0, number);
  if (!call.runtime().spend_on_digits(static_cast<uint64_t>(std::abs(precision)))) return {};
  const double magnitude = std::abs(number), whole = std::trunc(magnitude);
  const std::string digits =
      precision < 0 ? rounded_digits(fmt::format("{:.0f}", whole), whole < magnitude, static_cast<size_t>(-precision))
                    : fmt::format("{:.{}f}", magnitude, precision);
  double rounded = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), rounded).ec == std::errc::result_out_of_range)
    return call.fail("the number is too large");
  return std::copysign(rounded, number);
}

Value round_up_or_down(Call &call, double number, int64_t precision, bool up) {
  if (call.self().as_integer() && precision >= 0) return number;
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = up ? std::ceil(number * unit) : std::floor(number * unit);
  if (unit == 0 || !std::isfinite(unit) || !std::isfinite(scaled)) return call.fail("the number is too large");
  return scaled / unit + 0.0;  // never -0
}

Value round(Call &call) {
  const auto number = call.self().as_real();
  if (!number) return call.fail("expected a number, found {}", type_name(call.self()));
  const int64_t precision = call.integer(0, 0);
  const std::string_view method = call.has(1) && call[1].text() != nullptr ? call[1].text()->bytes() : "common";
  if (method == "ceil" || method == "floor") return round_up_or_down(call, *number, precision, method == "ceil");
  if (method != "common") return call.fail("'method': expected common, ceil or floor");
  const auto integer = call.self().as_integer();
  return integer ? round_integer(call, *integer, precision) : round_real(call, *number, precision);
}

constexpr Builtin kTextFilters[] = {
    {"trim", "chars", 0, trim},
    {"replace", "old new count", 2, replace_filter},
    {"upper", "", 0, case_changed<Case::kUpper>},
    {"lower", "", 0, case_changed<Case::kLower>},
    {"capitalize", "", 0, case_changed<Case::kCapitalized>},
    {"title", "", 0, title},
    {"indent", "width first blank", 0, indent},
    {"escape", "", 0, escape},
    {"e", "", 0, escape},
    {"forceescape", "", 0, escape},
    {"safe", "", 0, string},
    {"string", "", 0, string},
    {"center", "width", 0, center},
    {"format", "*", 0, format},
    {"truncate", "length killwords end leeway", 0, truncate},
    {"urlencode", "", 0, urlencode},
    {"tojson", "ensure_ascii indent separators sort_keys", 0, tojson},
    {"wordcount", "", 0, wordcount},
};

constexpr Builtin kNumberFilters[] = {
    {"int", "default base", 0, to_integer},
    {"float", "default", 0, to_real},
    {"abs", "", 0, absolute},
    {"round", "precision method", 0, round},
};

}  // namespace

std::span<const Builtin> text_filters() { return kTextFilters; }
std::span<const Builtin> number_filters() { return kNumberFilters; }

}  // namespace bonsai::jinja
