// What the HTTP server and those who answer its requests have in common; neither knows what the other is made of.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bonsai::server {

class ApiError;

// By whose API errors are called what they are, where the two differ: clients know their own API's types alone.
enum class ErrorTypes { kOpenAi, kAnthropic };

struct HttpRequest {
  std::string method;              // "GET"
  std::string path;                // "/v1/models": what the target has ahead of '?'
  std::string authorization = {};  // the header of that name; empty: there is none
  std::string api_key = {};        // X-Api-Key, likewise
  std::string body = {};
};

struct HttpReply {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
};

// What the client gets: either reply(), or begin_events(), any number of event() and end(). Every method may be called
// from any thread, and does not wait. When the last reference goes without an end, the client is told of a failure.
class Responder {
 public:
  virtual ~Responder() = default;

  virtual void reply(HttpReply reply) = 0;

  // Says why a stream has failed, in its last event, and ends it. Does not wait.
  using FailStream = std::function<void(const ApiError &why)>;
  // A stream of server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html), of which each has
  // `data`, which is one line, and may have a name, too. `fail` is called on the server's thread where there is no more
  // time; without it the client is told in an event without a name.
  virtual void begin_events(FailStream fail = {}) = 0;
  virtual void event(std::string data) = 0;
  virtual void named_event(std::string_view name, std::string data) = 0;
  virtual void end() = 0;

  // Of the API that was asked.
  virtual ErrorTypes error_types() const { return ErrorTypes::kOpenAi; }

  // Stopped once the client has gone: nobody wants the rest.
  virtual std::stop_token gone() const = 0;
};

// Called on the server's only thread: what takes time belongs elsewhere.
using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<Responder> responder)>;

}  // namespace bonsai::server
