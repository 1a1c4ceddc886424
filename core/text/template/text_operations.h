// What both filters and methods do with texts; every byte keeps its origin where that makes sense.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/text/template/runtime.h"

namespace bonsai::jinja {

// Characters that strip() takes away: spaces, or those of `characters`.
struct Strip {
  std::optional<std::string_view> characters = {};
  bool left = true, right = true;
};
TracedText strip(const TracedText &text, const Strip &which);

// The simple case mapping of Unicode, one character for one: Python's "ß".upper() is "SS", ours "ß".
enum class Case : uint8_t { kUpper, kLower, kTitle, kCapitalized, kSwapped };
TracedText change_case(Runtime &runtime, const TracedText &text, Case to);

// Filled up to a width in characters. What does not come out even in the middle is more on the right, but with
// str.center() on the left where the width is odd.
enum class Side : uint8_t { kLeft, kMiddle, kCenter, kRight };
struct Padding {
  int64_t width;
  Side side;  // where the text stands
  const TracedText &with;
};
TracedText padded(Runtime &runtime, const TracedText &text, const Padding &padding);

// The first `most` occurrences, or all where that is negative.
TracedText replace(Runtime &runtime, const TracedText &text, const TracedText &from, const TracedText &to,
                   int64_t most);

// split() and rsplit(): at runs of spaces without a separator. At most `most` cuts, from the left or the right; all if
// negative. Precondition: the separator is not empty.
struct Split {
  const TracedText *separator = nullptr;
  int64_t most = -1;
  bool from_right = false;
};
std::vector<Value> split(Runtime &runtime, const TracedText &text, const Split &how);

// Lines without their ends, or with them. Not all of them after an error.
std::vector<ByteRange> lines_of(Runtime &runtime, std::string_view text, bool keep_ends);

}  // namespace bonsai::jinja
