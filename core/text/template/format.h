// Python's two ways to fill the places of a text with values
// (https://docs.python.org/3/library/stdtypes.html#printf-style-string-formatting and
// https://docs.python.org/3/library/string.html#formatspec).
#pragma once

#include "core/text/template/runtime.h"

namespace bonsai::jinja {

// '%s is %d' % ('a', 3): a tuple has a value for each place, and a mapping for those with names. Errors: places without
// a value, values without a place, and what Python refuses; a width of '*', the type 'a' and '#' for numbers with
// decimals are not supported.
Value fill_places(Runtime &runtime, const TracedText &format, const Value &values);

// '{} is {name:>5}'.format('a', name=3). Errors: likewise; fields within a field's format, '_' between digits, '#' for
// numbers with decimals and decimals without a type are not supported.
Value fill_fields(Runtime &runtime, const TracedText &format, const CallArguments &values);

}  // namespace bonsai::jinja
