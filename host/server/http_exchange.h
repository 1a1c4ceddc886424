// The answer to one request on its way to the client: written by any thread, sent by the connection.
#pragma once

#include <utility>  // which Asio's coroutines forget

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>

#include "host/server/api_error.h"
#include "host/server/http.h"

namespace bonsai::server {

// What the form of an answer depends on.
struct AnswerForm {
  bool is_http_1_0 = false;  // which knows no chunks
  bool is_head = false;      // the client wants no body
  bool keep_alive = true;
  std::string allowed_origin = {};  // that may read the answer; empty: no other site's page
  ErrorTypes errors = ErrorTypes::kOpenAi;
};

// Its methods may be called from any thread; what is marked [server] only from the server's, on which all the rest
// runs, too, so that nothing is locked.
class Exchange final : public Responder, public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(const boost::asio::any_io_executor &server, AnswerForm form);

  // For whoever answers: the failure is told when the last copy goes before the end.
  std::shared_ptr<Responder> responder();

  void reply(HttpReply reply) override;
  void begin_events(FailStream fail = {}) override;
  void event(std::string data) override;
  void named_event(std::string_view name, std::string data) override;
  void end() override;
  ErrorTypes error_types() const override { return form_.errors; }  // never changes
  std::stop_token gone() const override { return gone_.get_token(); }

  // Waits until there is something to send, or the end; in a stream also for a time without either, and gives a comment
  // then, which readers skip. Empty: the answer has ended, or the client has gone. [server]
  boost::asio::awaitable<std::string> next(std::chrono::milliseconds ping);

  void client_has_gone();  // [server]
  bool is_gone() const { return is_gone_; }
  // Whoever answers has no more time: the client is told so, in the way that is still open, and the answer ends.
  // [server]
  void give_up(const ApiError &why);
  int status() const { return status_; }                // 0: none yet [server]
  bool is_handed_out() const;                           // next() has given all of a whole answer [server]
  bool keep_alive() const { return form_.keep_alive; }  // [server]
  void close_afterwards();                              // unless the answer has begun, it says so [server]

 private:
  template <class Change>
  void change(Change what);
  void put(std::string_view data);
  void finish();
  void abandon() noexcept;

  const boost::asio::strand<boost::asio::any_io_executor> changes_;  // by the server's thread, one after the other
  AnswerForm form_;
  std::stop_source gone_;              // nobody wants the rest, also because there is no time for it
  boost::asio::steady_timer changed_;  // cancelled when something did
  std::string waiting_;                // to be sent
  int status_ = 0;
  FailStream fail_stream_;
  bool is_stream_ = false, has_ended_ = false, is_gone_ = false;
  bool is_abandoned_ = false;  // a stream that has no end
};

// As it goes over the wire, body included but for HEAD: with a connection that closes, unless `form` says otherwise.
std::string whole_answer(const HttpReply &reply, const AnswerForm &form);

}  // namespace bonsai::server
