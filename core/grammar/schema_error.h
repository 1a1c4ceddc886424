// Why a JSON schema could not be translated, and where in it (a JSON pointer, RFC 6901).
#pragma once

#include <string>
#include <utility>

#include "core/base/result.h"
#include "core/base/utf8.h"

namespace bonsai::grammar {

struct SchemaError : Error {
  // The schema is a valid one that no value satisfies: the others of an "anyOf" stay.
  bool allows_nothing = false;

  SchemaError(Error error, bool nothing = false)  // NOLINT(google-explicit-constructor): any error can be one
      : Error(std::move(error)), allows_nothing(nothing) {}
};

template <class T>
using SchemaResult = tl::expected<T, SchemaError>;

template <class... Args>
tl::unexpected<SchemaError> fail_at(const std::string &pointer, fmt::format_string<Args...> format, Args &&...args) {
  return tl::unexpected<SchemaError>(SchemaError{{fmt::format("JSON schema, {}: {}", bonsai::quoted("#" + pointer),
                                                              fmt::format(format, std::forward<Args>(args)...))}});
}

// For a valid schema that no value satisfies.
template <class... Args>
tl::unexpected<SchemaError> nothing_at(const std::string &pointer, fmt::format_string<Args...> format, Args &&...args) {
  auto failed = fail_at(pointer, format, std::forward<Args>(args)...);
  failed.value().allows_nothing = true;
  return failed;
}

// The error of a part that may be left out. That it allows nothing is a mistake, and says nothing of the whole.
inline tl::unexpected<SchemaError> of_optional_part(SchemaError error) {
  error.allows_nothing = false;
  return tl::unexpected<SchemaError>(std::move(error));
}

}  // namespace bonsai::grammar
