// Schemas of strings and numbers, and how errors name a place in a schema.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "core/base/result.h"
#include "core/base/utf8.h"
#include "core/grammar/expression.h"
#include "core/grammar/language.h"
#include "core/grammar/schema_merge.h"

namespace bonsai::grammar {

// An error at a JSON pointer (RFC 6901) in the schema.
template <class... Args>
tl::unexpected<Error> fail_at(const std::string &pointer, fmt::format_string<Args...> format, Args &&...args) {
  return fail("JSON schema, {}: {}", bonsai::quoted("#" + pointer), fmt::format(format, std::forward<Args>(args)...));
}

// Two keywords that count: the least and the most, 0 and no limit where they are missing.
Result<std::pair<uint32_t, uint32_t>> read_counts(const Json &schema, const char *least_keyword,
                                                  const char *most_keyword, const std::string &pointer);

// The texts that a schema of strings allows, spelled in one way each (plain_char()).
Result<Language> string_language(const Json &schema, const std::string &pointer);

Result<Expression> string_schema(const Json &schema, const std::string &pointer);
Result<Expression> number_schema(const Json &schema, bool whole_numbers, const std::string &pointer);

}  // namespace bonsai::grammar
