#include "host/server/given_schemas.h"

#include <fmt/format.h>

#include <string_view>

namespace bonsai::server {
namespace {

// Of a message of the engine's about that place in a schema, or one within it, what it says behind the place; empty: it
// speaks of another.
std::string_view said_behind(std::string_view message, const std::string &place) {
  const std::string begin = "JSON schema, '" + place;
  if (!message.starts_with(begin)) return "";
  const std::string_view rest = message.substr(begin.size());
  return rest.starts_with('/') || rest.starts_with('\'') ? rest : "";
}

}  // namespace

std::vector<GivenSchema> schemas_of(const TextRequest &request) {
  if (request.schema_field.empty()) return {};
  return {{request.schema_field, {"#"}}};
}

std::vector<GivenSchema> schemas_of(const ChatRequest &request) {
  if (!request.call_schema.empty()) return request.parameters;
  std::vector<GivenSchema> given = schemas_of(static_cast<const TextRequest &>(request));
  if (!request.options.call_schema.empty())
    given.insert(given.end(), request.parameters.begin(), request.parameters.end());
  return given;
}

// The schema of the answer, whose place is the root, comes first, and is not what is said of calls.
std::string said_of(const std::vector<GivenSchema> &given, const std::string &message) {
  constexpr std::string_view kOfCalls = "calls of tools: ";
  const bool is_of_calls = message.starts_with(kOfCalls);
  const std::string_view said = std::string_view(message).substr(is_of_calls ? kOfCalls.size() : 0);
  for (const GivenSchema &one : given) {
    for (const std::string &place : one.places) {
      const std::string_view rest = is_of_calls && place == "#" ? "" : said_behind(said, place);
      if (!rest.empty()) return fmt::format("{}: JSON schema, '#{}", one.field, rest);
    }
  }
  const bool is_of_that_one = given.size() == 1 && !(is_of_calls && given.front().places.front() == "#");
  return is_of_that_one ? fmt::format("{}: {}", given.front().field, message) : message;
}

}  // namespace bonsai::server
