// One metadata value of a GGUF file.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/result.h"
#include "core/gguf/cursor.h"
#include "core/gguf/file.h"

namespace bonsai::gguf {

// Bytes of one element, or 0 for strings and arrays, whose elements differ in size.
uint64_t fixed_size(ValueType type);

// "uint32"; for an unknown number "type 77".
std::string type_name(ValueType type);

// Reads type and value. Arrays of arrays are refused: nothing uses them and a reader that recurses can be made to
// overflow its stack.
Result<Value> read_value(Cursor &cursor, std::string_view key);

}  // namespace bonsai::gguf
