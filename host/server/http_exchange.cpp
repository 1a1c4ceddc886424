#include "host/server/http_exchange.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>

namespace bonsai::server {
namespace {

namespace asio = boost::asio;

// Every answer is of its moment, and no browser may take a text for a script.
std::string head(int status, const HttpReply &reply, const AnswerForm &form) {
  const auto reason = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nDate: {:%a, %d %b %Y %H:%M:%S GMT}\r\nServer: bonsai\r\nContent-Type: {}\r\n"
      "Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\nConnection: {}\r\n",
      status, std::string_view(reason.data(), reason.size()), fmt::gmtime(std::time(nullptr)), reply.content_type,
      form.keep_alive ? "keep-alive" : "close");
  for (const auto &[name, value] : reply.headers) head += fmt::format("{}: {}\r\n", name, value);
  if (!form.allowed_origin.empty())
    head +=
        fmt::format("Access-Control-Allow-Origin: {}\r\nAccess-Control-Expose-Headers: Retry-After\r\nVary: Origin\r\n",
                    form.allowed_origin);
  return head;
}

}  // namespace

std::string whole_answer(const HttpReply &reply, const AnswerForm &form) {
  std::string answer = head(reply.status, reply, form);
  if (reply.status != 204) answer += fmt::format("Content-Length: {}\r\n", reply.body.size());
  answer += "\r\n";
  if (!form.is_head) answer += reply.body;
  return answer;
}

Exchange::Exchange(const asio::any_io_executor &server, AnswerForm form)
    : changes_(server), form_(std::move(form)), changed_(server) {}

std::shared_ptr<Responder> Exchange::responder() {
  return {static_cast<Responder *>(this), [self = shared_from_this()](Responder *) { self->abandon(); }};
}

// What is to be done is done by the server's thread, in the order in which it was said, and the connection looks at it
// after that. (What that thread posts to itself, others' later posts would overtake, but for the strand.) Without
// memory for it the client is cut off.
template <class Change>
void Exchange::change(Change what) {
  asio::post(changes_, [self = shared_from_this(), what = std::move(what)]() mutable {
    if (self->has_ended_) return;
    try {
      what(*self);
    } catch (const std::exception &) {
      self->client_has_gone();
    }
    self->changed_.cancel();
  });
}

void Exchange::reply(HttpReply reply) {
  change([reply = std::move(reply)](Exchange &exchange) {
    if (exchange.is_stream_) return exchange.client_has_gone();  // there is no other way to say that something failed
    exchange.status_ = reply.status;
    exchange.waiting_ = whole_answer(reply, exchange.form_);
    exchange.has_ended_ = true;
  });
}

void Exchange::begin_events(FailStream fail) {
  change([fail = std::move(fail)](Exchange &exchange) mutable {
    exchange.status_ = 200;
    exchange.is_stream_ = true;
    exchange.fail_stream_ = std::move(fail);
    // Proxies such as nginx would collect events otherwise.
    const HttpReply reply{.content_type = "text/event-stream", .headers = {{"X-Accel-Buffering", "no"}}};
    if (exchange.form_.is_http_1_0) exchange.form_.keep_alive = false;  // the end of the connection is the stream's
    exchange.waiting_ = head(200, reply, exchange.form_);
    exchange.waiting_ += exchange.form_.is_http_1_0 ? "\r\n" : "Transfer-Encoding: chunked\r\n\r\n";
  });
}

void Exchange::event(std::string data) {
  change([data = std::move(data)](Exchange &exchange) { exchange.put(fmt::format("data: {}\n\n", data)); });
}

void Exchange::named_event(std::string_view name, std::string data) {
  change([name = std::string(name), data = std::move(data)](Exchange &exchange) {
    exchange.put(fmt::format("event: {}\ndata: {}\n\n", name, data));
  });
}

void Exchange::end() {
  change([](Exchange &exchange) { exchange.finish(); });
}

void Exchange::put(std::string_view data) {
  waiting_ += form_.is_http_1_0 ? std::string(data) : fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

void Exchange::finish() {
  if (!form_.is_http_1_0) waiting_ += "0\r\n\r\n";
  has_ended_ = true;
}

// A stream is cut off, so that nobody takes it for whole. Called where nothing may be thrown.
void Exchange::abandon() noexcept try {
  change([](Exchange &exchange) {
    exchange.form_.keep_alive = false;
    exchange.has_ended_ = true;
    exchange.is_abandoned_ = exchange.is_stream_;
    if (exchange.is_stream_) return;
    exchange.status_ = 500;
    const HttpReply reply = error_reply(ApiError("the request was dropped", 500), exchange.form_.errors);
    exchange.waiting_ = whole_answer(reply, exchange.form_);
  });
} catch (const std::exception &) {
}

asio::awaitable<std::string> Exchange::next(std::chrono::milliseconds ping) {
  while (waiting_.empty() && !has_ended_ && !is_gone()) {
    if (is_stream_)
      changed_.expires_after(ping);
    else
      changed_.expires_at(asio::steady_timer::time_point::max());
    boost::system::error_code stopped;
    co_await changed_.async_wait(asio::redirect_error(asio::use_awaitable, stopped));
    if (!stopped && is_stream_ && waiting_.empty() && !has_ended_) put(": waiting\n\n");
  }
  if (is_gone()) co_return std::string();
  co_return std::exchange(waiting_, std::string());
}

bool Exchange::is_handed_out() const { return has_ended_ && !is_abandoned_ && waiting_.empty(); }

void Exchange::give_up(const ApiError &why) {
  if (has_ended_) return;
  form_.keep_alive = false;
  if (is_stream_ && fail_stream_) {
    fail_stream_(why);  // what it says comes next, and then the end
  } else if (is_stream_) {
    put(fmt::format("data: {}\n\n", error_json(why, form_.errors)));
    finish();
  } else {
    status_ = why.status();
    waiting_ = whole_answer(error_reply(why, form_.errors), form_);
    has_ended_ = true;
  }
  gone_.request_stop();
  changed_.cancel();
}

void Exchange::client_has_gone() {
  is_gone_ = true;
  gone_.request_stop();
  changed_.cancel();
}

void Exchange::close_afterwards() { form_.keep_alive = false; }

}  // namespace bonsai::server
