// JSON schemas (https://json-schema.org/draft/2020-12) as grammars of the JSON texts that satisfy them.
#pragma once

#include <string_view>

#include "core/base/result.h"
#include "core/grammar/expression.h"

namespace bonsai::grammar {

// What comes out satisfies the schema; not everything that satisfies it can come out, as a model has to come to an end:
//
// - Properties come in the schema's order, those that are not required may be left out. Others appear only where
//   additionalProperties (true, or a schema) or patternProperties asks for them, behind the listed ones; likewise array
//   items behind prefixItems. Those that are not listed count once for minProperties, as they may be the same.
// - Items of uniqueItems are in any order where few sets of them can have come, else in the order of the values.
// - White space: behind `{`, `[`, `,` and in front of `}`, `]` nothing, one space, or a line end with at most 32 spaces
//   or 8 tabs; behind `:` nothing or one space. Long lists in enum and const have less.
// - Numbers: at most 16 digits in front of the point and behind it, exponents of at most 2; none of these where a range
//   or a divisor is given. Strings of any length unless the schema limits it.
//
// Known: true, {}, type (one or several), enum, const, properties, required, additionalProperties, patternProperties,
// propertyNames, minProperties, maxProperties, items, prefixItems, minItems, maxItems, uniqueItems (of finitely many
// values), minLength, maxLength, pattern, format (date, time, date-time, uuid, ipv4, email), minimum, maximum,
// exclusiveMinimum, exclusiveMaximum, multipleOf, anyOf, oneOf (taken as anyOf), allOf, $ref within the document (below
// an $id: within its schema). Of several alternatives those that allow nothing are left out; elsewhere, and behind a
// $ref, that is an error. Where no type is given, the first keyword that belongs to one decides. Every other keyword
// that could exclude something is an error that names it and its place as a JSON pointer (RFC 6901); what excludes
// nothing (title, description, default ...) is skipped.
Result<RuleSet> parse_json_schema(std::string_view json);

}  // namespace bonsai::grammar
