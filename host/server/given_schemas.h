// Which of the JSON schemas in a request is to blame.
#pragma once

#include <string>
#include <vector>

#include "host/server/api_request.h"

namespace bonsai::server {

// Those that the answer has to satisfy: the one of its form, and what calls of tools, which may or have to be in its
// place, pass to them.
std::vector<GivenSchema> schemas_of(const TextRequest &request);
std::vector<GivenSchema> schemas_of(const ChatRequest &request);

// What the engine says against what was put together from them, of the field and the place within the schema as it
// came. As it is where it speaks of none, or of several together.
std::string said_of(const std::vector<GivenSchema> &given, const std::string &message);

// Does what makes a grammar of the schemas.
template <class Action>
void naming_schemas(const std::vector<GivenSchema> &given, Action action) {
  try {
    action();
  } catch (const EngineError &error) {
    if (error.kind() != ErrorKind::kInvalidArgument) throw;
    throw EngineError(error.kind(), said_of(given, error.what()));
  }
}

}  // namespace bonsai::server
