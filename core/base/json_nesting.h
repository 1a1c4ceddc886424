// How deep JSON is nested, before anything recurses into it.
#pragma once

#include <cstddef>
#include <string_view>

namespace bonsai {

// Whether brackets and braces of a JSON text lie more than `most` deep in one another. The JSON library parses any
// depth, but what it does to values afterwards, such as copying, comparing and writing them, calls itself for each
// level and so would overflow the stack. Of a text that is not JSON either answer may come.
bool is_nested_deeper(std::string_view json, size_t most);

}  // namespace bonsai
