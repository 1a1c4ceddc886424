// What JSON Schema's "format" says of strings (https://json-schema.org/draft/2020-12/json-schema-validation,
// section 7.3).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/grammar/expression.h"

namespace bonsai::grammar {

// The text of a string in that format, where it is_format(): date, time, date-time, duration, uuid, ipv4, ipv6,
// hostname, email, uri. nullopt: another one, which is an annotation then, as the specification has it of formats that
// are not known. `length_counted`: its characters are counted elsewhere, up to fewer than most_characters(); without, a
// hostname has at most 8 labels and an email at most 8 behind its `@`, which are the shorter the more they are.
std::optional<Expression> format_text(std::string_view format, bool length_counted);
bool is_format(std::string_view name);
// As many as the format itself allows in all; kUnbounded: it does not count them.
uint32_t most_characters(std::string_view format);

}  // namespace bonsai::grammar
