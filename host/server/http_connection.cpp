#include "host/server/http_connection.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/read.hpp>
#include <limits>

#include "core/base/utf8.h"
#include "host/server/api_error.h"

namespace bonsai::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr uint32_t kMaxHeadBytes = 32 << 10;
// The head of a request with what was read behind it; also the trailers and the extensions of chunks.
constexpr size_t kMaxBufferBytes = 128 << 10;
constexpr size_t kReadBytes = 4 << 10;
constexpr size_t kMostAhead = 16 << 10;    // bytes of requests that are read while one is answered
constexpr size_t kPieceBytes = 256 << 10;  // of an answer, at most, before others have their turn
constexpr int kLooksAtProgress = 8;        // in the time that a client has to take something
constexpr std::chrono::seconds kLinger{2};

auto into(beast::error_code &error) { return asio::redirect_error(asio::use_awaitable, error); }

// What a page of another site asks before it sends anything: it may use the headers that it names, as OpenAI's client
// has some of its own. https://fetch.spec.whatwg.org/#cors-preflight-fetch
HttpReply preflight_reply(const std::string &headers) {
  HttpReply reply{
      .status = 204,
      .headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"}, {"Access-Control-Max-Age", "3600"}}};
  if (!headers.empty()) reply.headers.emplace_back("Access-Control-Allow-Headers", headers);
  return reply;
}

}  // namespace

Connection::Connection(asio::ip::tcp::socket socket, const Service &service)
    : stream_(std::move(socket)),
      buffer_(kMaxBufferBytes),
      watch_ended_(stream_.get_executor()),
      idle_ended_(stream_.get_executor()),
      progress_looked_at_(stream_.get_executor()),
      service_(service) {
  beast::error_code ignored;
  stream_.socket().set_option(asio::ip::tcp::no_delay(true), ignored);  // tokens are small, and each counts
}

// (GCC 12's code of `while (a && co_await b)` traps, and it frees twice what `co_await f({})` makes.)
asio::awaitable<void> Connection::serve() {
  for (bool goes_on = true; goes_on && !service_.is_stopping;) goes_on = co_await read_and_answer();
  co_await close();
}

asio::awaitable<void> Connection::turn_away() {
  const HttpHead unknown;
  co_await refuse(503, "too many connections: try again later", unknown);
  co_await close();
}

// Bytes that have come are a request's, also while nobody has had the time to read them.
std::optional<Connection::Clock::time_point> Connection::idle_since() const {
  beast::error_code error;
  if (!idle_since_ || stream_.socket().available(error) > 0) return std::nullopt;
  return idle_since_;
}

// False: it was the last.
asio::awaitable<bool> Connection::read_and_answer() {
  HttpParser parser;
  parser.header_limit(kMaxHeadBytes);
  parser.body_limit(std::numeric_limits<uint64_t>::max());  // which read_body() sets, as its errors know the head
  std::optional<HttpHead> head = co_await read_head_of(parser);
  if (!head) co_return false;
  if (!co_await read_body(parser, *head)) co_return false;
  co_return co_await exchange(*std::move(head), std::move(parser.get().body()));
}

// Until there is a byte of a request: empty lines ahead of one count as nothing, which old clients put behind bodies
// (RFC 9112, 2.2).
asio::awaitable<beast::error_code> Connection::wait_for_request() {
  const auto since = Clock::now();
  beast::error_code error;
  while (!error) {
    const std::string_view ahead(static_cast<const char *>(buffer_.data().data()), buffer_.size());
    if (ahead.starts_with("\r\n")) {
      buffer_.consume(2);
    } else if (ahead.empty() || ahead == "\r") {
      error = co_await wait_for_bytes(since);
      if (error) break;
      stream_.expires_after(service_.options.read);
      const size_t n = co_await stream_.async_read_some(buffer_.prepare(kReadBytes), into(error));
      buffer_.commit(n);
    } else {
      break;
    }
  }
  co_return error;
}

// Leaves them in the socket, where idle_since() sees them at once. A read could have taken them out before anybody here
// is told so.
asio::awaitable<beast::error_code> Connection::wait_for_bytes(Clock::time_point since) {
  idle_since_ = since;
  idle_ended_.expires_at(since + service_.options.idle);
  idle_ended_.async_wait([this, self = shared_from_this()](beast::error_code stopped) {
    beast::error_code ignored;
    if (!stopped && idle_since_) stream_.socket().cancel(ignored);
  });
  beast::error_code error;
  co_await stream_.socket().async_wait(asio::ip::tcp::socket::wait_read, into(error));
  idle_since_.reset();
  idle_ended_.cancel();
  co_return error;
}

asio::awaitable<std::optional<HttpHead>> Connection::read_head_of(HttpParser &parser) {
  const HttpHead unknown;
  beast::error_code error = co_await wait_for_request();
  stream_.expires_after(service_.options.read);
  if (!error) co_await http::async_read_header(stream_, buffer_, parser, into(error));
  if (error) {
    co_await refuse(error, unknown);
    co_return std::nullopt;
  }
  auto head = read_head(parser);
  if (head) co_return *std::move(head);
  co_await refuse(400, head.error().message, unknown);
  co_return std::nullopt;
}

asio::awaitable<bool> Connection::read_body(HttpParser &parser, const HttpHead &head) {
  beast::error_code error;
  stream_.expires_after(service_.options.read);
  parser.body_limit(service_.options.max_body_bytes);  // of chunks; a length was there before
  if (parser.content_length().value_or(0) > service_.options.max_body_bytes) error = http::error::body_limit;
  if (!error && head.wants_continue)
    co_await asio::async_write(stream_, asio::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n")), into(error));
  if (!error) co_await http::async_read(stream_, buffer_, parser, into(error));
  stream_.expires_never();
  if (error) co_await refuse(error, head);
  co_return !error;
}

AnswerForm Connection::form_of(const HttpHead &head) const {
  AnswerForm form = head.form;
  form.keep_alive = form.keep_alive && !service_.is_stopping;
  form.errors = error_types_of(head.path);
  if (judge_origin(head.page, service_.options.allowed_origins) == OriginVerdict::kAllowed)
    form.allowed_origin = head.page.origin;
  return form;
}

// Tells the client what is wrong with its request, where it is there to be told. `head`: what is known of it.
asio::awaitable<void> Connection::refuse(beast::error_code why, const HttpHead &head) {
  const bool is_of_http = why.category() == make_error_code(http::error::bad_target).category();
  if (!is_of_http || why == http::error::end_of_stream || why == http::error::partial_message) co_return;
  std::string message = fmt::format("not an HTTP/1.1 request: {}", why.message());
  int status = 400;
  if (why == http::error::body_limit) {
    message = fmt::format("the request's body is too long: expected at most {} bytes", service_.options.max_body_bytes);
    status = 413;
  } else if (why == http::error::header_limit || why == http::error::buffer_overflow) {
    message = fmt::format("the request's head is too long: expected at most {} bytes", kMaxHeadBytes);
    status = 431;
  }
  co_await refuse(status, message, head);
}

asio::awaitable<void> Connection::refuse(int status, const std::string &message, const HttpHead &head) {
  AnswerForm last = form_of(head);
  last.keep_alive = false;
  const std::string bytes = whole_answer(error_reply(ApiError(message, status), last.errors), last);
  const bool is_whole = co_await send(bytes);
  if (service_.events.served)
    service_.events.served({.method = head.method, .path = head.path, .status = status, .is_cut = !is_whole});
}

// False: the connection is to be closed.
asio::awaitable<bool> Connection::exchange(HttpHead head, std::string body) {
  const auto begun = Clock::now();
  const std::string method = head.method, path = head.path;
  exchange_ = std::make_shared<Exchange>(stream_.get_executor(), form_of(head));
  watch();
  hand_on(std::move(head), std::move(body));
  const bool is_whole = co_await send_answer();
  const auto done = std::exchange(exchange_, nullptr);
  has_answered_ = true;
  co_await end_watch();
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  if (service_.events.served)
    service_.events.served(
        {.method = method, .path = path, .status = done->status(), .is_cut = !is_whole, .seconds = seconds});
  co_return done->keep_alive() && !done->is_gone();
}

// Or refuses what comes from a page that may not ask.
void Connection::hand_on(HttpHead head, std::string body) {
  if (judge_origin(head.page, service_.options.allowed_origins) == OriginVerdict::kRefused)
    return exchange_->reply(
        error_reply(ApiError("pages of other sites may not use this server: --allow-origin lets them", 403),
                    exchange_->error_types()));
  if (head.method == "OPTIONS" && !head.page.origin.empty())
    return exchange_->reply(preflight_reply(head.asked_headers));
  if (!head.encoding.empty())
    return exchange_->reply(error_reply(
        ApiError(fmt::format("Content-Encoding: expected none, found {}", bonsai::quoted(head.encoding)), 415),
        exchange_->error_types()));
  service_.events.handler({.method = std::move(head.method),
                           .path = std::move(head.path),
                           .authorization = std::move(head.authorization),
                           .api_key = std::move(head.api_key),
                           .body = std::move(body)},
                          exchange_->responder());
}

// False: it was cut off.
asio::awaitable<bool> Connection::send_answer() {
  for (;;) {
    const std::string bytes = co_await exchange_->next(service_.options.ping);
    if (bytes.empty()) co_return exchange_->is_handed_out();
    if (co_await send(bytes)) continue;
    exchange_->client_has_gone();
    co_return false;
  }
}

asio::awaitable<bool> Connection::send(std::string_view bytes) {
  beast::error_code error;
  stream_.expires_never();
  look_at_progress(Clock::now(), n_taken());
  while (!bytes.empty() && !error) {
    const size_t n = co_await stream_.async_write_some(asio::buffer(bytes.substr(0, kPieceBytes)), into(error));
    n_sent_ += n;
    bytes.remove_prefix(n);
  }
  progress_looked_at_.expires_at(Clock::time_point::max());  // no more
  co_return !error;
}

// Bytes that have reached the client's machine. That the socket takes more says little: it does so only once a third of
// what the kernel holds for it has gone, which may be megabytes.
uint64_t Connection::n_taken() {
  int n_held = 0;
  if (ioctl(stream_.socket().native_handle(), TIOCOUTQ, &n_held) != 0) n_held = 0;
  return n_sent_ - std::min<uint64_t>(n_sent_, static_cast<uint64_t>(n_held));
}

// Closes once the client has taken nothing for too long, which had `n_taken_before` at `since`.
void Connection::look_at_progress(Clock::time_point since, uint64_t n_taken_before) {
  progress_looked_at_.expires_after(service_.options.write / kLooksAtProgress);
  progress_looked_at_.async_wait([=, this, self = shared_from_this()](beast::error_code stopped) {
    const auto now = Clock::now();
    if (stopped || progress_looked_at_.expiry() > now) return;  // it has all of it
    const uint64_t n = n_taken();
    if (n == n_taken_before && now - since >= service_.options.write) return stream_.close();
    try {
      look_at_progress(n == n_taken_before ? since : now, n);
    } catch (const std::exception &) {
      stream_.close();  // without memory for it, nothing would ever end the sending
    }
  });
}

// Finds out when the client goes while it waits, by reading ahead. What it sends meanwhile is its next request, and of
// one that sends much of that it is found out when it is written to.
void Connection::watch() {
  if (buffer_.size() >= kMostAhead) return;
  is_watching_ = true;
  stream_.socket().async_read_some(
      buffer_.prepare(kMostAhead - buffer_.size()),
      [this, self = shared_from_this(), exchange = exchange_](beast::error_code error, size_t n) {
        is_watching_ = false;
        buffer_.commit(n);
        watch_ended_.cancel();
        if (exchange != exchange_) return;  // it is over
        if (error)
          exchange->client_has_gone();
        else
          watch();
      });
}

// The buffer is free again.
asio::awaitable<void> Connection::end_watch() {
  beast::error_code ignored;
  if (is_watching_) stream_.socket().cancel(ignored);
  while (is_watching_) {
    watch_ended_.expires_at(Clock::time_point::max());
    co_await watch_ended_.async_wait(into(ignored));
  }
}

// With bytes that nobody has read, closing would tell the client of an error before it has read its answer: they are
// read away for a while, but where the server ends.
asio::awaitable<void> Connection::close() {
  beast::error_code error;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (service_.is_stopping) co_return stream_.close();
  stream_.expires_after(kLinger);
  std::array<char, 4096> rest;
  while (!error) co_await stream_.async_read_some(asio::buffer(rest), into(error));
  stream_.close();
}

void Connection::stop() {
  if (exchange_) return exchange_->close_afterwards();
  idle_since_.reset();
  stream_.close();
}

void Connection::give_up() try {
  if (exchange_) exchange_->give_up(ApiError("the server is ending: the answer took longer than it had left", 503));
} catch (const std::exception &) {
  cut();  // without memory for more
}

void Connection::cut() {
  if (exchange_) exchange_->client_has_gone();
  idle_ended_.cancel();
  progress_looked_at_.cancel();
  stream_.close();
}

}  // namespace bonsai::server
