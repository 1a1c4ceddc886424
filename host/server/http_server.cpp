#include "host/server/http_server.h"

#include <utility>  // which Asio's coroutines forget

#include <fmt/format.h>
#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <string_view>

#include "core/base/utf8.h"
#include "host/server/http_connection.h"

namespace bonsai::server {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds kRetryAccepting{100};
constexpr std::chrono::seconds kLastWords{1};  // that clients have to take what they are told at the end
// For a place: one that has been answered may be about to go; and with a new one, whose request may be about to come.
constexpr std::chrono::milliseconds kPatience{50};
constexpr size_t kMostTurnedAway = 64;  // that are told so at once; more wait in the kernel for their turn

}  // namespace

class HttpServer::Impl {
 public:
  explicit Impl(HttpOptions options) : options_(std::move(options)), acceptor_(io_), grace_(io_) { bind(); }

  uint16_t port() const { return acceptor_.local_endpoint().port(); }

  void listen() {
    error_code error;
    // Connections have it from here, and the next server may bind while the kernel remembers them. Not before: whoever
    // came second could have bound as well. Nobody can where somebody listens.
    acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
    if (error) fail(error);
  }

  void run(const HttpEvents &events, std::stop_token stop) {
    service_.emplace(Connection::Service{options_, events});
    const std::stop_callback on_stop(std::move(stop), [this] { asio::post(io_, [this] { begin_to_stop(); }); });
    asio::co_spawn(io_, accept(), asio::detached);
    while (!has_run()) {
    }
  }

 private:
  [[noreturn]] void fail(const error_code &error, std::string_view expected = "") const {
    throw std::runtime_error(fmt::format("cannot listen on {} port {}: {}{}", bonsai::printable(options_.host),
                                         options_.port, error.message(), expected));
  }

  // Whoever binds second is refused, also while neither listens; but connections of a server before, which the kernel
  // remembers for a while, are no reason.
  void bind() {
    error_code error;
    tcp::resolver resolver(io_);
    const auto found = resolver.resolve(options_.host, std::to_string(options_.port), tcp::resolver::passive, error);
    if (error) fail(error, "; expected an address of this machine or a name of one, not a socket's path");
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (error == asio::error::address_in_use) {
      acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
      if (!error) acceptor_.bind(endpoint, error);
    }
    if (error) fail(error);
  }

  // What is thrown on the way between two coroutines is for want of memory: the server goes on without that client.
  bool has_run() {
    try {
      io_.run();
      return true;
    } catch (const std::exception &) {
      return false;
    }
  }

  // Without descriptors or memory for another client it waits for one to go; with too many that are to be told that
  // there is no place, for these.
  asio::awaitable<void> accept() {
    while (acceptor_.is_open()) {
      error_code error;
      if (turned_away_.size() >= kMostTurnedAway && !has_place()) {
        asio::steady_timer timer(io_, kPatience);
        co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
        continue;
      }
      tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (!acceptor_.is_open()) co_return;
      if (!error && take(std::move(socket))) continue;
      asio::steady_timer timer(io_, kRetryAccepting);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, error));
    }
  }

  // False: there is no memory for another client.
  bool take(tcp::socket socket) {
    try {
      const auto connection = std::make_shared<Connection>(std::move(socket), *service_);
      if (make_place())
        begin(connection);
      else
        turn_away(connection);
      return true;
    } catch (const std::exception &) {
      return false;
    }
  }

  bool has_place() const { return connections_.size() < options_.max_connections || longest_idle() != nullptr; }

  // False: all have something to do.
  bool make_place() {
    if (connections_.size() < options_.max_connections) return true;
    const auto longest = longest_idle();
    if (longest != nullptr) longest->stop();
    return longest != nullptr;
  }

  // Unless it has a place after all.
  void turn_away(const std::shared_ptr<Connection> &connection) {
    turned_away_.insert(connection);
    const auto tell = [this, connection]() -> asio::awaitable<void> {
      error_code ignored;
      asio::steady_timer timer(io_, kPatience);
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
      if (service_->is_stopping) co_return;
      if (make_place())
        begin(connection);
      else
        co_await connection->turn_away();
    };
    asio::co_spawn(io_, tell, [this, connection](const std::exception_ptr &) { turned_away_.erase(connection); });
  }

  // Null: there is none.
  std::shared_ptr<Connection> longest_idle() const {
    std::shared_ptr<Connection> longest;
    auto earliest = Connection::Clock::time_point::max();
    const auto patient_until = Connection::Clock::now() - kPatience;
    for (const auto &connection : connections_) {
      const auto since = connection->idle_since();
      if (!since || *since >= earliest || (!connection->has_answered() && *since > patient_until)) continue;
      earliest = *since;
      longest = connection;
    }
    return longest;
  }

  void begin(const std::shared_ptr<Connection> &connection) {
    connections_.insert(connection);
    const auto serve = [connection] { return connection->serve(); };
    asio::co_spawn(io_, serve, [this, connection](const std::exception_ptr &) {
      connection->cut();
      connections_.erase(connection);
      if (service_->is_stopping && connections_.empty()) grace_.cancel();
    });
  }

  void begin_to_stop() {
    service_->is_stopping = true;
    error_code ignored;
    acceptor_.close(ignored);
    for (const auto &connection : connections_) connection->stop();
    for (const auto &connection : turned_away_) connection->stop();
    if (connections_.empty()) return;
    const bool is_busy = std::any_of(connections_.begin(), connections_.end(),
                                     [](const auto &connection) { return connection->is_answering(); });
    if (is_busy && service_->events.stopping) service_->events.stopping();
    after(options_.grace, &Connection::give_up, [this] { after(kLastWords, &Connection::cut, [] {}); });
  }

  // Does that to every connection that is still there then.
  template <class Next>
  void after(std::chrono::milliseconds time, void (Connection::*end)(), Next next) {
    grace_.expires_after(time);
    grace_.async_wait([this, end, next](error_code stopped) {
      if (stopped) return;
      for (const auto &connection : connections_) (connection.get()->*end)();
      next();
    });
  }

  asio::io_context io_{1};
  const HttpOptions options_;
  tcp::acceptor acceptor_;
  asio::steady_timer grace_;
  std::optional<Connection::Service> service_;
  std::set<std::shared_ptr<Connection>> connections_, turned_away_;
};

HttpServer::HttpServer(const HttpOptions &options) : impl_(std::make_unique<Impl>(options)) {}
HttpServer::~HttpServer() = default;
uint16_t HttpServer::port() const { return impl_->port(); }
void HttpServer::listen() { impl_->listen(); }
void HttpServer::run(const HttpEvents &events, std::stop_token stop) { impl_->run(events, std::move(stop)); }

}  // namespace bonsai::server
