// Ranges of characters as ranges of bytes: how an automaton over bytes reads UTF-8.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/grammar/expression.h"

namespace bonsai::grammar {

// Every combination of one byte out of each range, in order.
struct ByteSequence {
  struct Range {
    uint8_t first, last;
  };
  std::array<Range, 4> ranges;
  uint32_t length;
};

// Appends sequences that together spell each character of the range, in UTF-8, exactly once. Precondition: the range
// holds no surrogates.
void append_utf8_sequences(CodePoints range, std::vector<ByteSequence> &out);

}  // namespace bonsai::grammar
