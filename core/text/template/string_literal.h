#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"

namespace bonsai::jinja {

// What a string literal's inside stands for, with Python's escapes (\n, \x41, \u00e9, \101, ...); what is no escape
// stays as it is, backslash included. Errors name the escape: unfinished, beyond Unicode, a lone surrogate.
Result<std::string> decode_string_literal(std::string_view inside);

}  // namespace bonsai::jinja
