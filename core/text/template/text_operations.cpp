#include "core/text/template/text_operations.h"

#include <utf8proc.h>

#include <algorithm>

#include "core/text/template/characters.h"
#include "core/text/utf8.h"

namespace bonsai::jinja {
namespace {

using text::append_utf8;
using text::next_code_point;

char32_t mapped(char32_t c, bool up) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  return static_cast<char32_t>(up ? utf8proc_toupper(code) : utf8proc_tolower(code));
}

bool is_cased(char32_t c) { return mapped(c, true) != c || mapped(c, false) != c; }

// `starts_word`: no cased character stands right before it.
char32_t change_case(char32_t c, Case to, bool is_first, bool starts_word) {
  switch (to) {
    case Case::kUpper:
      return mapped(c, true);
    case Case::kLower:
      return mapped(c, false);
    case Case::kTitle:
      return starts_word ? static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))) : mapped(c, false);
    case Case::kCapitalized:
      return is_first ? static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))) : mapped(c, false);
    default:
      return mapped(c, mapped(c, true) != c);
  }
}

// What a text is split into.
class Parts {
 public:
  Parts(Runtime &runtime, const TracedText &text, int64_t most) : runtime_(runtime), text_(text), most_(most) {}

  // Whether another cut is allowed.
  bool may_cut() const { return !runtime_.failed() && (most_ < 0 || static_cast<int64_t>(parts_.size()) < most_); }
  void add(size_t begin, size_t end) {
    if (runtime_.spend_on_parts(1)) parts_.emplace_back(text_.slice({begin, end}));
  }
  std::vector<Value> take() { return std::move(parts_); }
  std::vector<Value> take_reversed() {
    std::reverse(parts_.begin(), parts_.end());
    return take();
  }

 private:
  Runtime &runtime_;
  const TracedText &text_;
  const int64_t most_;
  std::vector<Value> parts_;
};

std::vector<Value> split_at_spaces(Parts parts, const TracedText &text) {
  std::string_view rest = without_leading_space(text.bytes());
  const auto offset = [&](std::string_view part) { return static_cast<size_t>(part.data() - text.bytes().data()); };
  while (!rest.empty()) {
    if (!parts.may_cut()) {
      parts.add(offset(rest), text.size());
      break;
    }
    size_t end = 0;
    for (size_t at = 0; at < rest.size(); end = at)
      if (is_space(next_code_point(rest, at))) break;
    parts.add(offset(rest), offset(rest) + end);
    rest = without_leading_space(rest.substr(end));
  }
  return parts.take();
}

// The end of `rest` without the word that ends it.
size_t last_word(std::string_view rest) {
  size_t begin = rest.size();
  while (begin > 0) {
    const std::string_view before = rest.substr(0, begin);
    if (without_trailing_space(before).size() != before.size()) break;
    begin = moved_by(rest, begin, -1);
  }
  return begin;
}

std::vector<Value> split_at_spaces_from_right(Parts parts, const TracedText &text) {
  const size_t lead = text.size() - without_leading_space(text.bytes()).size();
  std::string_view rest = without_trailing_space(text.bytes());
  while (rest.size() > lead) {
    const bool ends = !parts.may_cut();
    const size_t begin = ends ? 0 : last_word(rest);
    parts.add(begin, rest.size());
    if (ends) break;
    rest = without_trailing_space(rest.substr(0, begin));
  }
  return parts.take_reversed();
}

std::vector<Value> split_at(Parts parts, const TracedText &text, std::string_view separator) {
  size_t begin = 0;
  while (parts.may_cut()) {
    const size_t end = find_bytes(text.bytes(), separator, begin);
    if (end == std::string_view::npos) break;
    parts.add(begin, end);
    begin = end + separator.size();
  }
  parts.add(begin, text.size());
  return parts.take();
}

std::vector<Value> split_at_from_right(Parts parts, const TracedText &text, std::string_view separator) {
  size_t end = text.size();
  while (parts.may_cut()) {
    const size_t begin =
        end < separator.size() ? std::string_view::npos : text.bytes().rfind(separator, end - separator.size());
    if (begin == std::string_view::npos) break;
    parts.add(begin + separator.size(), end);
    end = begin;
  }
  parts.add(0, end);
  return parts.take_reversed();
}

}  // namespace

TracedText strip(const TracedText &text, const Strip &which) {
  std::u32string set;
  for (size_t at = 0; which.characters && at < which.characters->size();) set += next_code_point(*which.characters, at);
  std::sort(set.begin(), set.end());
  const auto goes = [&](char32_t c) {
    return which.characters ? std::binary_search(set.begin(), set.end(), c) : is_space(c);
  };
  const std::string_view bytes = text.bytes();
  size_t begin = 0, end = bytes.size();
  for (size_t at = 0; which.left && at < end; begin = at)
    if (!goes(next_code_point(bytes, at))) break;
  while (which.right && end > begin) {
    size_t last = end - 1;
    while ((static_cast<uint8_t>(bytes[last]) & 0xC0) == 0x80) --last;
    size_t at = last;
    if (!goes(next_code_point(bytes, at))) break;
    end = last;
  }
  return text.slice({begin, end});
}

TracedText change_case(Runtime &runtime, const TracedText &text, Case to) {
  TextBuilder out(runtime);
  bool starts_word = true;
  for (size_t at = 0; at < text.size() && !runtime.failed();) {
    const size_t begin = at;
    const char32_t c = next_code_point(text.bytes(), at);
    std::string changed;
    append_utf8(changed, change_case(c, to, begin == 0, starts_word));
    out.append(changed, text.origin({begin, at}));
    starts_word = !is_cased(c);
  }
  return out.take();
}

TracedText padded(Runtime &runtime, const TracedText &text, const Padding &padding) {
  const int64_t width = std::max<int64_t>(padding.width, 0);
  const int64_t missing = std::max<int64_t>(width - static_cast<int64_t>(count_characters(text.bytes())), 0);
  const int64_t odd = padding.side == Side::kCenter ? missing & width & 1 : 0;
  const int64_t before = padding.side == Side::kLeft ? 0 : padding.side == Side::kRight ? missing : missing / 2 + odd;
  TextBuilder out(runtime);
  for (int64_t i = 0; i < before && !runtime.failed(); ++i) out.append(padding.with);
  out.append(text);
  for (int64_t i = before; i < missing && !runtime.failed(); ++i) out.append(padding.with);
  return out.take();
}

TracedText replace(Runtime &runtime, const TracedText &text, const TracedText &from, const TracedText &to,
                   int64_t most) {
  TextBuilder out(runtime);
  size_t done = 0;  // what lies before has been given out
  for (int64_t i = 0; (most < 0 || i < most) && !runtime.failed(); ++i) {
    // An empty text stands before every character and at the end.
    if (from.empty() && i > 0 && done == text.size()) break;
    const size_t found = !from.empty() ? find_bytes(text.bytes(), from.bytes(), done)
                         : i == 0      ? 0
                                       : moved_by(text.bytes(), done, 1);
    if (found == std::string_view::npos) break;
    out.append(text, {done, found});
    out.append(to);
    done = found + from.size();
  }
  out.append(text, {done, text.size()});
  return out.take();
}

std::vector<Value> split(Runtime &runtime, const TracedText &text, const Split &how) {
  if (!runtime.spend(text.size())) return {};
  Parts parts(runtime, text, how.most);
  if (how.separator == nullptr)
    return how.from_right ? split_at_spaces_from_right(std::move(parts), text)
                          : split_at_spaces(std::move(parts), text);
  const std::string_view separator = how.separator->bytes();
  return how.from_right ? split_at_from_right(std::move(parts), text, separator)
                        : split_at(std::move(parts), text, separator);
}

std::vector<ByteRange> lines_of(Runtime &runtime, std::string_view text, bool keep_ends) {
  std::vector<ByteRange> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size() && !runtime.failed();) {
    const size_t end = at;
    const char32_t c = next_code_point(text, at);
    const bool breaks = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (!breaks) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    if (!runtime.spend(4)) break;
    lines.push_back({begin, keep_ends ? at : end});
    begin = at;
  }
  if (begin < text.size()) lines.push_back({begin, text.size()});
  return lines;
}

}  // namespace bonsai::jinja
