// An HTTP/1.1 server (RFC 9112) for a machine behind a load balancer or on a desk: connections are kept, answers may be
// streams, and what one client does costs the others little.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "host/server/http.h"

namespace bonsai::server {

struct HttpOptions {
  std::string host = "127.0.0.1";                 // an address or a name of this machine
  uint16_t port = 8080;                           // 0: one that is free
  std::vector<std::string> allowed_origins = {};  // see origin.h
  uint32_t max_connections = 256;                 // for a further one the longest idle goes, or it is told to come back
  size_t max_body_bytes = size_t{4} << 20;

  std::chrono::milliseconds idle{75'000};   // for a request to begin: longer than load balancers wait
  std::chrono::milliseconds read{30'000};   // for its head to arrive, and then for its body
  std::chrono::milliseconds write{30'000};  // for a client's machine to acknowledge anything that was sent
  std::chrono::milliseconds ping{10'000};   // between signs of life in a stream that has nothing to say
  std::chrono::milliseconds grace{30'000};  // that answers have to end in when the server stops; then it is said
};

// An exchange that is over, for logs and metrics.
struct Served {
  std::string_view method, path;
  int status = 0;       // 0: the client had gone before there was one
  bool is_cut = false;  // not all of the answer was sent: the client had gone, or took nothing, or there was no more
  double seconds = 0;
};

// All are called on the server's thread; but for the handler they may be empty.
struct HttpEvents {
  HttpHandler handler;
  std::function<void(const Served &)> served = {};
  std::function<void()> stopping = {};  // no more requests are taken, and answers are still under way
};

class HttpServer {
 public:
  // Takes the address. Throws std::runtime_error, one line; so does listen().
  explicit HttpServer(const HttpOptions &options);
  // Every Responder has gone by then.
  ~HttpServer();
  HttpServer(const HttpServer &) = delete;
  HttpServer &operator=(const HttpServer &) = delete;

  uint16_t port() const;

  // Whoever connects before is refused, which tells a load balancer that the model is not there yet; whoever does
  // afterwards waits for run().
  void listen();

  // Serves on this thread until `stop`: takes no more requests then, lets those that have begun end within the grace
  // period, tells the clients of the others, and returns. Called once.
  void run(const HttpEvents &events, std::stop_token stop);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bonsai::server
