#include "host/server/api_error.h"

#include <nlohmann/json.hpp>

namespace bonsai::server {
namespace {

std::string_view openai_type(int status) {
  if (status == 401) return "authentication_error";
  return status < 500 ? "invalid_request_error" : "server_error";
}

std::string_view anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
    case 529:
      return "overloaded_error";
    default:
      return status < 500 ? "invalid_request_error" : "api_error";
  }
}

}  // namespace

std::string error_json(const ApiError &error, ErrorTypes types) {
  using Json = nlohmann::ordered_json;
  const int status = error.status();
  Json json = {{"type", "error"},
               {"error",
                {{"message", error.what()},
                 {"type", types == ErrorTypes::kAnthropic ? anthropic_type(status) : openai_type(status)},
                 {"param", error.field().empty() ? Json() : Json(error.field())},
                 {"code", error.code().empty() ? Json() : Json(error.code())}}}};
  if (!error.code().empty()) json["error"]["details"] = {{"error_code", error.code()}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpReply error_reply(const ApiError &error, ErrorTypes types) {
  HttpReply reply{.status = error.status(), .body = error_json(error, types) + "\n"};
  if (error.status() == 503) reply.headers.emplace_back("Retry-After", "1");
  if (error.status() == 401) reply.headers.emplace_back("WWW-Authenticate", "Bearer");
  return reply;
}

ErrorTypes error_types_of(std::string_view path) {
  const bool is_messages = path == "/v1/messages" || path.starts_with("/v1/messages/");
  return is_messages ? ErrorTypes::kAnthropic : ErrorTypes::kOpenAi;
}

ApiError to_api_error(const std::exception &error) {
  if (const auto *known = dynamic_cast<const ApiError *>(&error)) return *known;
  const auto *engine = dynamic_cast<const EngineError *>(&error);
  if (engine == nullptr) return ApiError(error.what(), 500);
  switch (engine->kind()) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kModel:  // it lacks what was asked for: a chat template
      return ApiError(error.what());
    case ErrorKind::kContextFull:
      return ApiError(error.what(), 400, "context_length_exceeded");
    case ErrorKind::kBackend:
      break;
  }
  return ApiError(error.what(), 500);
}

}  // namespace bonsai::server
