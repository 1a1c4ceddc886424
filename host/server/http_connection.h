// One client's connection: reads requests, has them answered one after the other, and sends what comes.
#pragma once

#include <utility>  // which Asio's coroutines forget

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "host/server/http_exchange.h"
#include "host/server/http_head.h"
#include "host/server/http_server.h"

namespace bonsai::server {

// All of it runs on the server's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;

  // What all connections share; it outlives them.
  struct Service {
    const HttpOptions &options;
    const HttpEvents &events;
    bool is_stopping = false;
  };

  Connection(boost::asio::ip::tcp::socket socket, const Service &service);

  // Until the client closes, does what it may not, or takes too long.
  boost::asio::awaitable<void> serve();
  // There is no place for this client: it is told so, whatever it asks.
  boost::asio::awaitable<void> turn_away();

  // Since when it has waited for a request of which there is not even a byte yet; nullopt: it does not.
  std::optional<Clock::time_point> idle_since() const;
  // Before, the first request may be on its way.
  bool has_answered() const { return has_answered_; }

  bool is_answering() const { return exchange_ != nullptr; }

  // The answer that is on its way is the last; without one the connection closes.
  void stop();
  // Nobody waits for that answer any more either, and the client is told.
  void give_up();
  // Whether or not it knows.
  void cut();

 private:
  boost::asio::awaitable<bool> read_and_answer();
  boost::asio::awaitable<boost::beast::error_code> wait_for_request();
  boost::asio::awaitable<boost::beast::error_code> wait_for_bytes(Clock::time_point since);
  boost::asio::awaitable<std::optional<HttpHead>> read_head_of(HttpParser &parser);
  boost::asio::awaitable<bool> read_body(HttpParser &parser, const HttpHead &head);
  boost::asio::awaitable<void> refuse(boost::beast::error_code why, const HttpHead &head);
  boost::asio::awaitable<void> refuse(int status, const std::string &message, const HttpHead &head);
  boost::asio::awaitable<bool> exchange(HttpHead head, std::string body);
  boost::asio::awaitable<bool> send_answer();
  boost::asio::awaitable<bool> send(std::string_view bytes);
  uint64_t n_taken();
  void look_at_progress(Clock::time_point since, uint64_t n_taken_before);
  boost::asio::awaitable<void> end_watch();
  boost::asio::awaitable<void> close();
  void watch();
  AnswerForm form_of(const HttpHead &head) const;
  void hand_on(HttpHead head, std::string body);

  boost::beast::tcp_stream stream_;
  boost::beast::flat_buffer buffer_;  // bytes behind the request that was read last
  boost::asio::steady_timer watch_ended_;
  boost::asio::steady_timer idle_ended_;  // the stream's own timer is for what reads
  boost::asio::steady_timer progress_looked_at_;
  const Service &service_;
  std::shared_ptr<Exchange> exchange_;  // null: between two
  uint64_t n_sent_ = 0;                 // bytes that the kernel has taken
  bool is_watching_ = false;
  bool has_answered_ = false;
  std::optional<Clock::time_point> idle_since_;  // that it waits for bytes
};

}  // namespace bonsai::server
