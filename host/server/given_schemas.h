// Which of the JSON schemas in a request is to blame.
#pragma once

#include <vector>

#include "host/server/api_request.h"

namespace bonsai::server {

// Those that the answer has to satisfy: the one of its form, and what calls of tools, which may or have to be in its
// place, pass to them.
std::vector<GivenSchema> schemas_of(const TextRequest &request);
std::vector<GivenSchema> schemas_of(const ChatRequest &request);

// Throws what there is to say against the first of them that is refused by itself, an EngineError that names the field,
// and the place within the schema as it came.
void check_each(const std::vector<GivenSchema> &given);

// Does what makes a grammar of the schemas, of which the engine names the place in what was put together from them.
template <class Request, class Action>
void naming_schemas(const Request &request, Action action) {
  try {
    action();
  } catch (const EngineError &error) {
    if (error.kind() == ErrorKind::kInvalidArgument) check_each(schemas_of(request));
    throw;
  }
}

}  // namespace bonsai::server
