#include "host/chat/tag_search.h"

#include <algorithm>

namespace bonsai::host {
namespace {

// How many bytes at the end of `text` may be the beginning of `tag`, which is not in it as a whole.
size_t begun_tag(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

}  // namespace

TagSearch::Found TagSearch::look(std::string_view text) {
  const size_t known = n_line_ends_;
  const size_t tag = text.find(tag_, known);
  const bool is_whole = tag != std::string_view::npos;
  const size_t line_ends_stop = is_whole ? tag : text.size() - begun_tag(text, tag_);
  size_t end = line_ends_stop;
  while (end > known && text[end - 1] == '\n') --end;
  if (end == known) end = 0;
  n_line_ends_ = is_whole ? 0 : line_ends_stop - end;
  return {end, is_whole ? std::optional(tag) : std::nullopt};
}

std::optional<size_t> JsonEndSearch::look(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const std::string_view rest = text.substr(at_);
    if (is_quoted_ && rest.front() == '\\') {
      if (rest.size() == 1) break;  // what it escapes is to come
      ++at_;
    } else if (rest.front() == '"') {
      is_quoted_ = !is_quoted_;
    } else if (!is_quoted_ && rest.starts_with(tag_)) {
      return at_;
    } else if (!is_quoted_ && tag_.starts_with(rest)) {
      break;  // it may be the tag's beginning
    }
  }
  return std::nullopt;
}

}  // namespace bonsai::host
