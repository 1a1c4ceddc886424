// The HTTP server as its tests use it, with handlers of few words.
#pragma once

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/server/http_server.h"
#include "tests/host/server/client.h"

namespace bonsai::server {

using namespace std::chrono_literals;
using Responding = std::shared_ptr<Responder>;

// Answers what a request was.
inline void tell_request(const HttpRequest &request, const Responding &responder) {
  responder->reply({.body = request.method + " " + request.path + " " + request.body, .content_type = "text/plain"});
}

inline HttpOptions quick_options() {
  HttpOptions options;
  options.port = 0;
  return options;
}

// A server on a thread of its own, until the end of the test.
class Running {
 public:
  explicit Running(HttpHandler handler = tell_request, const HttpOptions &options = quick_options())
      : server_(options), handler_(std::move(handler)) {
    server_.listen();
    thread_ = std::jthread([this](const std::stop_token &stop) {
      server_.run({.handler = handler_,
                   .served = [this](const Served &served) { note(served); },
                   .stopping = [this] { is_stopping_ = true; }},
                  stop);
      has_ended_.set_value();
    });
  }
  ~Running() { stop(); }

  uint16_t port() const { return server_.port(); }
  void stop() { thread_.request_stop(); }
  bool is_stopping() const { return is_stopping_; }
  bool ends_within(std::chrono::milliseconds time) { return ended_.wait_for(time) == std::future_status::ready; }
  std::vector<std::string> served() const {
    const std::lock_guard lock(mutex_);
    return served_;
  }

 private:
  void note(const Served &served) {
    const std::lock_guard lock(mutex_);
    served_.push_back(std::string(served.method) + " " + std::string(served.path) + " " +
                      std::to_string(served.status) + (served.is_cut ? " cut" : ""));
  }

  HttpServer server_;
  const HttpHandler handler_;
  std::atomic<bool> is_stopping_ = false;
  std::promise<void> has_ended_;
  std::future<void> ended_ = has_ended_.get_future();
  mutable std::mutex mutex_;
  std::vector<std::string> served_;
  std::jthread thread_;
};

// Keeps what it is asked until the test answers.
class Keeper {
 public:
  HttpHandler handler() {
    return [this](const HttpRequest &, Responding responder) {
      const std::lock_guard lock(mutex_);
      kept_.push_back(std::move(responder));
    };
  }
  Responding take() {
    for (;; std::this_thread::sleep_for(1ms)) {
      const std::lock_guard lock(mutex_);
      if (kept_.empty()) continue;
      Responding first = std::move(kept_.front());
      kept_.erase(kept_.begin());
      return first;
    }
  }

 private:
  std::mutex mutex_;
  std::vector<Responding> kept_;
};

}  // namespace bonsai::server
