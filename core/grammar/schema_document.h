// JSON schemas as values: read from a text and written as one. The library's reader and writer are large templates;
// this is the one place that makes code of them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace bonsai::grammar {

using Json = nlohmann::ordered_json;

// The schema's document; errors for texts that are too long, nested too deep or no JSON.
Result<Json> parse_schema_document(std::string_view json);

// A value as JSON without white space.
std::string text_of(const Json &value);

// Comparisons of values, which are as JSON Schema has them: 1 is 1.0, and the members of objects have no order. The
// library's own take whole numbers above 2^63 for negative ones.
bool is_same(const Json &a, const Json &b);
// Precondition: both are numbers.
bool is_less(const Json &a, const Json &b);
// Whether `values`, a list, has it.
bool has_value(const Json &values, const Json &value);
// A number as it is: the type holds each double and each whole number of 64 bits.
long double number_of(const Json &number);

}  // namespace bonsai::grammar
