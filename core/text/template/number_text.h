// Numbers as Python's int() and float() read them from a text: spaces around them, a sign, underscores between digits,
// the decimal digits of any script.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace bonsai::jinja {

struct IntegerText {
  int64_t value = 0;
  bool is_too_large = false;  // for 64 bits
};
// nullopt: Python would not read it. `base` is 2 to 36, or 0 for what a prefix (0x, 0o, 0b) says; where the base is the
// prefix's, that may stand there too.
std::optional<IntegerText> read_integer_text(std::string_view text, int base);

// Infinity beyond what a double holds.
std::optional<double> read_real_text(std::string_view text);

}  // namespace bonsai::jinja
