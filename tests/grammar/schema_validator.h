// Says whether a JSON value satisfies a schema: written apart from the grammars, to judge them by.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace bonsai::grammar {

// `schema` is a part of `document`, in which $ref looks. Knows type, enum, const, properties, required,
// additionalProperties, patternProperties, propertyNames, numbers of properties, items, prefixItems, uniqueItems,
// lengths, pattern, minimum and maximum, multipleOf, anyOf, oneOf (as anyOf), allOf, $ref into the document; ignores
// other keywords.
bool satisfies(const nlohmann::json &value, const nlohmann::json &schema, const nlohmann::json &document);

// Whether a text is JSON and satisfies the document.
bool is_document_of(const std::string &text, const nlohmann::json &document);

}  // namespace bonsai::grammar
