// How deep JSON is nested, how many names stand side by side in it, and how many blocks of memory it will take, before
// anything goes into it.
#pragma once

#include <cstddef>
#include <string_view>

namespace bonsai {

// Whether brackets and braces of a JSON text lie more than `most` deep in one another. The JSON library parses any
// depth, but what it does to values afterwards, such as copying, comparing and writing them, calls itself for each
// level and so would overflow the stack. Of a text that is not JSON either answer may come.
bool is_nested_deeper(std::string_view json, size_t most);

// Whether an object in a JSON text has more than `most` names, in time that is linear in the text. (The library's
// parser with a callback could count them, but looks at all elements that came before behind each object in an array.)
// Of a text that is not JSON either answer may come.
bool has_more_names(std::string_view json, size_t most);

// Whether a JSON text has more than `most` objects, arrays and texts, names among these: the library gives each some
// fifty bytes and more, for as few as two of the text. (Numbers, true, false and null take 16.) Its destructor asks for
// memory, too, and where there is none the program ends. Of a text that is not JSON either answer may come.
bool has_more_parts(std::string_view json, size_t most);

}  // namespace bonsai
