// What parsers of answers that come in pieces have in common.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace bonsai::host {

// How many bytes at the end of `text` may be the beginning of `tag`, which is not in it as a whole.
inline size_t begun_tag(std::string_view text, std::string_view tag) {
  for (size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n) {
    if (text.ends_with(tag.substr(0, n))) return n;
  }
  return 0;
}

// `end`, without the line ends ahead of it.
inline size_t without_line_ends(std::string_view text, size_t end) {
  while (end > 0 && text[end - 1] == '\n') --end;
  return end;
}

}  // namespace bonsai::host
