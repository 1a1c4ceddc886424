// Text that knows which of its bytes the template's author wrote and which came in from outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/byte_range.h"

namespace bonsai::jinja {

using text::ByteRange;

// kTemplate: literals of the template and values that the caller vouches for (the model's own BOS token). kInput:
// everything else, also what was computed from either and can no longer be told apart.
enum class Origin : uint8_t { kTemplate, kInput };

class TracedText {
 public:
  TracedText() = default;
  TracedText(std::string bytes, Origin origin);

  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }

  // What the template's author wrote: in order, not empty, and never touching one another.
  const std::vector<ByteRange> &template_ranges() const { return ranges_; }

  void append(std::string_view bytes, Origin origin);
  void append(const TracedText &other) { append(other, {0, other.size()}); }
  // Precondition: the range lies in `other`, which is not this text.
  void append(const TracedText &other, ByteRange range);
  TracedText slice(ByteRange range) const;

  // kTemplate if all of [begin, end) is.
  Origin origin(ByteRange range) const;

  std::pair<std::string, std::vector<ByteRange>> take() && { return {std::move(bytes_), std::move(ranges_)}; }

 private:
  void add_range(ByteRange range);

  std::string bytes_;
  std::vector<ByteRange> ranges_;
};

}  // namespace bonsai::jinja
