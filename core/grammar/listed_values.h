// The values of "enum" and "const" as they are written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/grammar/expression.h"
#include "core/grammar/schema_document.h"

namespace bonsai::grammar {

// White space in objects and arrays: each place of it takes some 50 states where it is as everywhere else.
enum class Spacing : uint8_t { kAny, kOneBehindColonsAndCommas, kNone };

Expression listed_value(const Json &value, Spacing spacing);
// The places where kAny allows white space.
size_t n_spaces(const Json &value);

// The widest spacing that there are still states for: of a long list's values, the later ones are written closer.
class SpacingBudget {
 public:
  // For a value that so many parts of the grammar have each.
  Spacing spend(const Json &value, size_t n_copies);

 private:
  size_t n_spent_ = 0;
};

}  // namespace bonsai::grammar
