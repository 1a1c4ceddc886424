// Says whether a JSON value satisfies a schema: written apart from the grammars, to judge them by.
#pragma once

#include <nlohmann/json.hpp>

namespace bonsai::grammar {

// `schema` is a part of `document`, in which $ref looks. Knows type, enum, const, properties, required,
// additionalProperties, items, prefixItems, lengths, minimum and maximum, anyOf, oneOf (as anyOf), allOf, $ref into the
// document; ignores other keywords.
bool satisfies(const nlohmann::json &value, const nlohmann::json &schema, const nlohmann::json &document);

}  // namespace bonsai::grammar
