// What the references of a JSON schema lead to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/grammar/schema_document.h"
#include "core/grammar/schema_error.h"

namespace bonsai::grammar {

// A URI's fragment as it was before it was escaped.
std::string without_percents(std::string_view text);
// The names of a JSON pointer (RFC 6901), which is empty or begins with '/'.
std::vector<std::string> names_of_pointer(std::string_view pointer);
// The reverse, for one name: with the '/' in front.
std::string as_pointer(std::string_view name);
// The member or item of that name, or nullptr.
const Json *part_of(const Json &value, const std::string &name);

// Subschemas with an "$id" are documents of their own, wherever they stand: in "$ref"s below them '#' is their root
// (https://json-schema.org/draft/2020-12/json-schema-core, section 8.2.1). Makes these "$ref"s begin at the document's
// root, likewise those with the document's or their own URI in front; all others stay as they are. "$schema" of drafts
// 3 and 4 says "id" instead, and up to draft 7 an "$id" beside a "$ref" counts for nothing. Errors: a "$ref" leads
// through an "$id" where it is not clear whether that is one, as under a keyword that is not known; "$ref"s become too
// long.
SchemaResult<void> begin_references_at_root(Json &document);

}  // namespace bonsai::grammar
