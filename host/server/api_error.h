// What is wrong with a request, in the words and numbers of OpenAI's API and Anthropic's.
#pragma once

#include <bonsai/engine.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "host/server/http.h"

namespace bonsai::server {

// The message is one line that names the field.
class ApiError : public std::runtime_error {
 public:
  explicit ApiError(const std::string &message, int status = 400, std::string_view code = "")
      : std::runtime_error(message), status_(status), code_(code) {}

  // Of a field's value: `message` names it, too.
  static ApiError of_field(std::string_view field, const std::string &message) {
    ApiError error(message);
    error.field_ = field;
    return error;
  }

  int status() const { return status_; }
  const std::string &code() const { return code_; }    // "context_length_exceeded"; empty: there is none
  const std::string &field() const { return field_; }  // "messages[2].content"; empty: the message alone tells

 private:
  int status_;
  std::string code_, field_;
};

// {"type": "error", "error": {"message", "type", "param", "code", "details"}}, on one line: the form in which every
// failure is told. It is OpenAI's, https://platform.openai.com/docs/guides/error-codes, and Anthropic's, which has the
// first "type", and the code in "details", https://platform.claude.com/docs/en/api/errors. The inner "type" is one of
// those that `types` has.
std::string error_json(const ApiError &error, ErrorTypes types = ErrorTypes::kOpenAi);
HttpReply error_reply(const ApiError &error, ErrorTypes types = ErrorTypes::kOpenAi);

// Of the API that a path belongs to.
ErrorTypes error_types_of(std::string_view path);

// The ApiError that an exception of the engine's amounts to: a caller's mistakes are 400, all others 500.
ApiError to_api_error(const std::exception &error);

// Does something for the `i`-th of `n` texts of a field: what the engine says against it names the field, and that one
// where there are several.
template <class Action>
void naming(std::string_view field, size_t i, size_t n, Action action) {
  try {
    action();
  } catch (const EngineError &error) {
    const std::string place = n == 1 ? "" : "[" + std::to_string(i) + "]";
    throw EngineError(error.kind(), std::string(field) + place + ": " + error.what());
  }
}

}  // namespace bonsai::server
