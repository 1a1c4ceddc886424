#include "host/server/given_schemas.h"

#include "core/grammar/grammar.h"

namespace bonsai::server {

std::vector<GivenSchema> schemas_of(const TextRequest &request) {
  if (request.schema_field.empty()) return {};
  return {{request.schema_field, request.options.json_schema}};
}

std::vector<GivenSchema> schemas_of(const ChatRequest &request) {
  if (!request.call_schema.empty()) return request.parameters;
  std::vector<GivenSchema> given = schemas_of(static_cast<const TextRequest &>(request));
  if (!request.options.call_schema.empty())
    given.insert(given.end(), request.parameters.begin(), request.parameters.end());
  return given;
}

void check_each(const std::vector<GivenSchema> &given) {
  for (const auto &[field, schema] : given) {
    if (const auto made = grammar::Grammar::from_json_schema(schema); !made)
      throw EngineError(ErrorKind::kInvalidArgument, field + ": " + made.error().message);
  }
}

}  // namespace bonsai::server
