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

// A value with the members of its objects in the order of their names: two are equal where JSON Schema says so.
nlohmann::json without_order(const Json &value);

}  // namespace bonsai::grammar
