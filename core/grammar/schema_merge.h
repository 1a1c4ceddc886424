// Two JSON schemas that must both hold, as one.
#pragma once

#include <string>
#include <string_view>

#include "core/grammar/schema_document.h"
#include "core/grammar/schema_error.h"

namespace bonsai::grammar {

// Whether the keyword excludes nothing in this schema: an annotation, or one that only says more of another that it
// lacks.
bool excludes_nothing(std::string_view keyword, const Json &schema);
// What is left of a schema without those.
Json without_annotations(const Json &schema);

// A keyword of joined schemas: what must hold beside their "pattern" and "format", as a list of schemas that have one
// of the two each. No document has it, as it is no UTF-8.
inline constexpr const char *kFurtherTexts = "\xFFtexts";

// The values in a value, itself included.
size_t n_values(const Json &json);

// One schema that holds where both do. Properties that both have, and other subschemas, become an allOf of both, two of
// "multipleOf" their least common multiple; formats that exclude nothing are left out beside others; what cannot be
// joined is an error that names the keyword. Preconditions: both are objects without $ref.
SchemaResult<Json> merge_schemas(const Json &a, const Json &b);
// Values that the joined schema has more often than the two: "items" hold for each of the other's "prefixItems".
size_t n_repeated_values(const Json &a, const Json &b);

}  // namespace bonsai::grammar
