#pragma once

#include <cstddef>
#include <cstdint>

namespace bonsai::jinja {

// What one rendering may use. A template comes with a model file, and a file may be malicious.
struct Limits {
  uint32_t depth = 400;        // expressions, statements and macros within one another
  uint32_t value_depth = 100;  // containers within containers, in the variables and in what is made of them
  // Evaluations, list items, 16 bytes of text that is made or looked at; a text of its own that is made of a part of
  // another, of a character, say, is sixteen.
  uint64_t steps = 50'000'000;
  size_t text_bytes = size_t{64} << 20;  // of the output and of any text on the way there
};

}  // namespace bonsai::jinja
