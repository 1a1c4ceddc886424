// A JSON schema on its way to become rules: what the parts of the translation share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/grammar/expression.h"
#include "core/grammar/language.h"
#include "core/grammar/listed_values.h"
#include "core/grammar/schema_error.h"
#include "core/grammar/schema_merge.h"

namespace bonsai::grammar {

// A schema's place in the document.
struct Place {
  std::string pointer;  // RFC 6901
  uint32_t depth = 0;   // how many schemas it lies in, or was unfolded from

  Place below(std::string_view name) const;
  Place at(size_t index) const { return below(std::to_string(index)); }
};

class Translator {
 public:
  // `lossy`: the document's numbers that are not what it says.
  Translator(const Json &document, std::map<double, std::string> lossy);

  Result<RuleSet> translate();

  // What a schema allows. Errors: one line with the keyword and the place.
  SchemaResult<Expression> schema(const Json &json, const Place &place);
  // An expression that is used several times.
  SchemaResult<Expression> as_rule(Expression body, const std::string &pointer);
  // All values that a schema allows, where it says so: by enum, const, boolean, null, or whole numbers from one bound
  // to another. nullopt: it does not, or they are more than 1,000.
  SchemaResult<std::optional<Json>> finite_values(const Json &json, const Place &place) const;
  // A value of "enum" or "const" as it is written, for so many parts of the grammar that have it each.
  Expression listed(const Json &value, size_t n_copies);
  // What is left for the languages of all its parts.
  Effort &effort() { return effort_; }

 private:
  struct Open {
    const Json *schema;
    std::string pointer;
    uint32_t rule;
  };

  SchemaResult<uint32_t> add_rule(std::string name);
  SchemaResult<const Json *> resolve(const Json &reference, const std::string &pointer) const;
  SchemaResult<Json> without_reference(const Json &json, const std::string &pointer) const;
  SchemaResult<void> count_joined(size_t n, const std::string &pointer) const;
  SchemaResult<Json> merge(const Json &a, const Json &b, const std::string &pointer) const;
  SchemaResult<Json> joined(const Json &bare, const std::string &pointer) const;

  SchemaResult<void> check_exact(const Json &value, const char *keyword, const std::string &pointer) const;
  SchemaResult<Json> listed_values(const Json &bare, const std::string &pointer) const;
  SchemaResult<std::optional<Json>> values_of_any(const Json &bare, const char *keyword, const Place &place) const;

  SchemaResult<Expression> reference(const Json &bare, const Place &place);
  SchemaResult<Expression> any_of(const Json &bare, const std::string &keyword, const Place &place);
  SchemaResult<Expression> by_type(const Json &bare, const Place &place);
  SchemaResult<Expression> string(const Json &bare, const Place &place);
  SchemaResult<Expression> number(const Json &bare, bool whole_numbers, const Place &place);
  SchemaResult<Expression> of_type(const std::string &type, const Json &bare, const Place &place);

  const Json &document_;
  std::map<double, std::string> lossy_;
  RuleSet set_;
  std::map<std::string, uint32_t> referenced_;  // rules by pointer
  std::map<std::string, uint32_t> formats_;     // rules by format
  std::deque<Open> open_;
  size_t n_schemas_ = 0;
  Effort effort_;
  SpacingBudget spacing_;
  mutable size_t n_joined_ = 0;  // a limit on work, which changes no answer
};

// Schemas of arrays and of objects.
SchemaResult<Expression> array_schema(Translator &translator, const Json &bare, const Place &place);
SchemaResult<Expression> object_schema(Translator &translator, const Json &bare, const Place &place);

}  // namespace bonsai::grammar
