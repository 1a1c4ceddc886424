#pragma once

#include <cstddef>

namespace bonsai::text {

// Bytes [begin, end) of a text.
struct ByteRange {
  size_t begin = 0;
  size_t end = 0;

  friend bool operator==(const ByteRange &, const ByteRange &) = default;
};

}  // namespace bonsai::text
