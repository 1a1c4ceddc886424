// Methods of strings, as Python's str has them (https://docs.python.org/3/library/stdtypes.html#string-methods).
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "core/text/template/builtins.h"
#include "core/text/template/characters.h"
#include "core/text/template/format.h"
#include "core/text/template/numeric_characters.h"
#include "core/text/template/operators.h"
#include "core/text/template/text_operations.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

const TracedText &self(Call &call) { return *call.self().text(); }
std::string_view bytes(Call &call) { return self(call).bytes(); }

Value strip_sides(Call &call, bool left, bool right) {
  Strip which{.left = left, .right = right};
  if (call.has(0) && !call[0].is_none()) {
    const TracedText *characters = call.text(0);
    if (characters == nullptr) return {};
    if (!call.runtime().spend(characters->size())) return {};
    which.characters = characters->bytes();
  }
  return strip(self(call), which);
}

Value split_from(Call &call, bool from_right) {
  Split how{.most = call.integer(1, -1), .from_right = from_right};
  if (call.has(0) && !call[0].is_none()) {
    how.separator = call.text(0);
    if (how.separator == nullptr) return {};
    if (how.separator->empty()) return call.fail("the separator is empty");
  }
  return call.runtime().list(split(call.runtime(), self(call), how));
}

Value splitlines(Call &call) {
  const std::vector<ByteRange> ranges = lines_of(call.runtime(), bytes(call), call.flag(0, false));
  if (!call.runtime().spend_on_parts(ranges.size())) return {};
  std::vector<Value> lines;
  for (const ByteRange &line : ranges) lines.emplace_back(self(call).slice(line));
  return call.runtime().list(std::move(lines));
}

// What the arguments `start` and `end`, if there are any, leave of the text.
struct Window {
  size_t begin;  // in characters
  std::string_view text;
};

// nullopt where there is nothing, not even an empty text: then nothing is found.
std::optional<Window> window(Call &call) {
  if (!call.has(1) && !call.has(2)) return Window{0, bytes(call)};
  if (!call.runtime().spend_on_items(bytes(call).size())) return std::nullopt;
  const auto [begin, end] = call.range(1, static_cast<int64_t>(count_characters(bytes(call))));
  if (begin > end) return std::nullopt;
  const size_t first = moved_by(bytes(call), 0, begin), last = moved_by(bytes(call), first, end - begin);
  return Window{static_cast<size_t>(begin), bytes(call).substr(first, last - first)};
}

// startswith and endswith take a string or a tuple of them.
template <class Fits>
Value fits_any(Call &call, Fits fits) {
  const auto within = window(call);
  const auto fits_here = [&](const Value &part) {
    if (part.text() == nullptr) call.fail("expected a string or a tuple of strings, found {}", type_name(part));
    return part.text() != nullptr && within && fits(within->text, part.text()->bytes());
  };
  const Sequence *several = call[0].sequence();
  if (several == nullptr || several->kind != Sequence::Kind::kTuple) return fits_here(call[0]);
  return std::ranges::any_of(several->items, fits_here);
}

template <Case kTo>
Value case_changed(Call &call) {
  return change_case(call.runtime(), self(call), kTo);
}

Value replace_method(Call &call) {
  const TracedText *from = call.text(0), *to = call.text(1);
  if (from == nullptr || to == nullptr) return {};
  return replace(call.runtime(), self(call), *from, *to, call.integer(2, -1));
}

Value join_method(Call &call) {
  TextBuilder out(call.runtime());
  bool first = true;
  for (const Value &item : items_of(call.runtime(), call[0])) {
    if (item.text() == nullptr) return call.fail("expected strings, found {}", type_name(item));
    if (!std::exchange(first, false)) out.append(self(call));
    out.append(*item.text());
  }
  return out.take();
}

// The byte offset of the argument in a text, or npos.
size_t find_argument(Call &call, std::string_view text, bool last) {
  const TracedText *part = call.text(0);
  if (part == nullptr) return std::string_view::npos;
  return last ? text.rfind(part->bytes()) : find_bytes(text, part->bytes());
}

Value find_method(Call &call, bool last) {
  const auto within = window(call);
  const size_t at = within ? find_argument(call, within->text, last) : std::string_view::npos;
  if (at == std::string_view::npos) return int64_t{-1};
  return static_cast<int64_t>(within->begin + count_characters(within->text.substr(0, at)));
}

Value index_method(Call &call, bool last) {
  const Value at = find_method(call, last);
  return at.as_integer() == -1 ? call.fail("the string is not found") : at;
}

Value count_method(Call &call) {
  const TracedText *part = call.text(0);
  const auto within = window(call);
  if (part == nullptr || !within) return int64_t{0};
  if (part->empty()) return static_cast<int64_t>(count_characters(within->text)) + 1;
  int64_t n = 0;
  for (size_t at = 0; (at = find_bytes(within->text, part->bytes(), at)) != std::string_view::npos; at += part->size())
    if (++n; !call.runtime().spend(1)) break;
  return n;
}

Value partition(Call &call, bool last) {
  const size_t at = find_argument(call, bytes(call), last);
  const TracedText &text = self(call);
  if (call.runtime().failed()) return {};
  const TracedText &separator = *call[0].text();
  if (separator.empty()) return call.fail("the separator is empty");
  std::vector<Value> parts;
  if (at == std::string_view::npos) {
    parts = last ? std::vector<Value>{TracedText(), TracedText(), text}
                 : std::vector<Value>{text, TracedText(), TracedText()};
  } else {
    parts = {text.slice({0, at}), separator, text.slice({at + separator.size(), text.size()})};
  }
  return call.runtime().list(std::move(parts), Sequence::Kind::kTuple);
}

Value without_affix(Call &call, bool at_start) {
  const TracedText *affix = call.text(0);
  if (affix == nullptr) return {};
  const bool there = at_start ? bytes(call).starts_with(affix->bytes()) : bytes(call).ends_with(affix->bytes());
  if (!there) return self(call);
  const size_t rest = self(call).size() - affix->size();
  return at_start ? self(call).slice({affix->size(), self(call).size()}) : self(call).slice({0, rest});
}

Value justify(Call &call, Side side) {
  TracedText with(" ", Origin::kInput);
  if (call.has(1)) {
    const TracedText *fill = call.text(1);
    if (fill == nullptr) return {};
    if (count_characters(fill->bytes()) != 1) return call.fail("'fillchar': expected one character");
    with = *fill;
  }
  return padded(call.runtime(), self(call), {.width = call.integer(0, 0), .side = side, .with = with});
}

Value zfill(Call &call) {
  const bool is_signed = bytes(call).starts_with('-') || bytes(call).starts_with('+');
  const int64_t width = std::max<int64_t>(call.integer(0, 0), 0);
  const int64_t missing = width - static_cast<int64_t>(count_characters(bytes(call)));
  TextBuilder out(call.runtime());
  const size_t sign = is_signed ? 1 : 0;
  out.append(self(call), {0, sign});
  for (int64_t i = 0; i < missing && !call.runtime().failed(); ++i) out.append("0", Origin::kInput);
  out.append(self(call), {sign, self(call).size()});
  return out.take();
}

bool is_letter(char32_t c) {
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

// Unicode's full case folding, which makes several characters of some.
Value casefold(Call &call) {
  TextBuilder out(call.runtime());
  for (size_t at = 0; at < bytes(call).size() && !call.runtime().failed();) {
    const size_t begin = at;
    const auto c = static_cast<utf8proc_int32_t>(text::next_code_point(bytes(call), at));
    std::array<utf8proc_int32_t, 8> folded{};
    const auto n = utf8proc_decompose_char(c, folded.data(), static_cast<utf8proc_ssize_t>(folded.size()),
                                           UTF8PROC_CASEFOLD, nullptr);
    std::string changed;
    for (utf8proc_ssize_t i = 0; i < n; ++i)
      text::append_utf8(changed, static_cast<char32_t>(folded[static_cast<size_t>(i)]));
    out.append(changed, self(call).origin({begin, at}));
  }
  return out.take();
}

// Whether the text is not empty and every character is `kind`.
template <class Kind>
Value all_are(Call &call, Kind kind) {
  if (!call.runtime().spend(bytes(call).size() / 8)) return {};
  for (size_t at = 0; at < bytes(call).size();)
    if (!kind(text::next_code_point(bytes(call), at))) return false;
  return !bytes(call).empty();
}

// Some character has a case, and all that have one are in case `to`.
Value in_case(Call &call, Case to, Case opposite) {
  const TracedText same = change_case(call.runtime(), self(call), to);
  const TracedText other = change_case(call.runtime(), self(call), opposite);
  return same.bytes() == bytes(call) && other.bytes() != bytes(call);
}

constexpr Builtin kMethods[] = {
    {"strip", "chars", 0, [](Call &call) { return strip_sides(call, true, true); }},
    {"lstrip", "chars", 0, [](Call &call) { return strip_sides(call, true, false); }},
    {"rstrip", "chars", 0, [](Call &call) { return strip_sides(call, false, true); }},
    {"split", "sep maxsplit", 0, [](Call &call) { return split_from(call, false); }},
    {"rsplit", "sep maxsplit", 0, [](Call &call) { return split_from(call, true); }},
    {"splitlines", "keepends", 0, splitlines},
    {"startswith", "prefix start end", 1,
     [](Call &call) { return fits_any(call, [](auto a, auto b) { return a.starts_with(b); }); }},
    {"endswith", "suffix start end", 1,
     [](Call &call) { return fits_any(call, [](auto a, auto b) { return a.ends_with(b); }); }},
    {"upper", "", 0, case_changed<Case::kUpper>},
    {"lower", "", 0, case_changed<Case::kLower>},
    {"title", "", 0, case_changed<Case::kTitle>},
    {"capitalize", "", 0, case_changed<Case::kCapitalized>},
    {"swapcase", "", 0, case_changed<Case::kSwapped>},
    {"casefold", "", 0, casefold},
    {"replace", "old new count", 2, replace_method},
    {"join", "iterable", 1, join_method},
    {"find", "sub start end", 1, [](Call &call) { return find_method(call, false); }},
    {"rfind", "sub start end", 1, [](Call &call) { return find_method(call, true); }},
    {"index", "sub start end", 1, [](Call &call) { return index_method(call, false); }},
    {"rindex", "sub start end", 1, [](Call &call) { return index_method(call, true); }},
    {"count", "sub start end", 1, count_method},
    {"partition", "sep", 1, [](Call &call) { return partition(call, false); }},
    {"rpartition", "sep", 1, [](Call &call) { return partition(call, true); }},
    {"removeprefix", "prefix", 1, [](Call &call) { return without_affix(call, true); }},
    {"removesuffix", "suffix", 1, [](Call &call) { return without_affix(call, false); }},
    {"ljust", "width fillchar", 1, [](Call &call) { return justify(call, Side::kLeft); }},
    {"rjust", "width fillchar", 1, [](Call &call) { return justify(call, Side::kRight); }},
    {"center", "width fillchar", 1, [](Call &call) { return justify(call, Side::kCenter); }},
    {"format", "*", 0, [](Call &call) { return fill_fields(call.runtime(), self(call), call.rest()); }},
    {"zfill", "width", 1, zfill},
    {"isspace", "", 0, [](Call &call) { return all_are(call, is_space); }},
    {"isalpha", "", 0, [](Call &call) { return all_are(call, is_letter); }},
    {"isdigit", "", 0, [](Call &call) { return all_are(call, is_digit); }},
    {"isdecimal", "", 0, [](Call &call) { return all_are(call, is_decimal); }},
    {"isnumeric", "", 0, [](Call &call) { return all_are(call, is_numeric); }},
    {"isalnum", "", 0,
     [](Call &call) { return all_are(call, [](char32_t c) { return is_letter(c) || is_numeric(c); }); }},
    {"isupper", "", 0, [](Call &call) { return in_case(call, Case::kUpper, Case::kLower); }},
    {"islower", "", 0, [](Call &call) { return in_case(call, Case::kLower, Case::kUpper); }},
};

}  // namespace

const Builtin *find_text_method(std::string_view name) { return find_in(kMethods, name); }

}  // namespace bonsai::jinja
