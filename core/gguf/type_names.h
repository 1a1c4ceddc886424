// What the numbers in a tensor's type field mean, including those that cannot be read.
#pragma once

#include <cstdint>
#include <string>

namespace bonsai::gguf {

// "found 12 (Q4_K), ..., expected one of ...": why a type id has no format, and which have.
std::string explain_unreadable_type(uint32_t gguf_type);

}  // namespace bonsai::gguf
