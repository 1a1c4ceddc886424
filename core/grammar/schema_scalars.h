// Schemas of strings and numbers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/grammar/expression.h"
#include "core/grammar/language.h"
#include "core/grammar/schema_error.h"
#include "core/grammar/schema_merge.h"

namespace bonsai::grammar {

// Two keywords that count: the least and the most, 0 and no limit where they are missing.
SchemaResult<std::pair<uint32_t, uint32_t>> read_counts(const Json &schema, const char *least_keyword,
                                                        const char *most_keyword, const std::string &pointer);

// The texts that a schema of strings allows, spelled in one way each (plain_char()).
Result<Language> string_language(const Json &schema, const std::string &pointer, Effort &effort);

SchemaResult<Expression> string_schema(const Json &schema, const std::string &pointer, Effort &effort);
SchemaResult<Expression> number_schema(const Json &schema, bool whole_numbers, const std::string &pointer,
                                       Effort &effort);

}  // namespace bonsai::grammar
