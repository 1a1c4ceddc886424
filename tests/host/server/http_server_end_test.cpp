// How the HTTP server begins and ends: where it listens, and what becomes of answers that are under way.
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "host/server/api_error.h"
#include "tests/host/server/running.h"

namespace bonsai::server {
namespace {

TEST(HttpServer, EndsAtOnceWhereNothingIsUnderWay) {
  Running server;
  Client idle(server.port());
  EXPECT_EQ(idle.get("/").status, 200);
  EXPECT_TRUE(comes_true([&] { return server.served().size() == 1; }));
  server.stop();
  EXPECT_TRUE(server.ends_within(10s));
  EXPECT_TRUE(idle.is_closed());
  EXPECT_FALSE(server.is_stopping());
}

TEST(HttpServer, LetsAnswersEndBeforeItDoes) {
  Keeper keeper;
  Running server(keeper.handler());
  Client client(server.port()), idle(server.port());
  client.request("GET", "/");
  const Responding responder = keeper.take();
  server.stop();
  EXPECT_TRUE(idle.is_closed());
  EXPECT_FALSE(server.ends_within(50ms));
  EXPECT_TRUE(server.is_stopping());
  EXPECT_FALSE(responder->gone().stop_requested());
  responder->reply({.body = "in time"});
  const Response response = client.response();
  EXPECT_EQ(response.body, "in time");
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_TRUE(server.ends_within(10s));
}

TEST(HttpServer, TellsClientsWhoseAnswersTakeLongerThanTheGracePeriod) {
  Keeper keeper;
  HttpOptions options = quick_options();
  options.grace = 30ms;
  Running server(keeper.handler(), options);
  Client whole(server.port()), stream(server.port()), other(server.port());
  whole.request("GET", "/");
  const Responding for_whole = keeper.take();
  stream.request("GET", "/");
  const Responding for_stream = keeper.take();
  for_stream->begin_events();
  for_stream->event("one");
  EXPECT_TRUE(stream.read_until("data: one"));
  other.request("GET", "/");  // which has words of its own for that
  const Responding for_other = keeper.take();
  for_other->begin_events([for_other = for_other.get()](const ApiError &why) {
    for_other->named_event("failed", why.what());
    for_other->end();
  });
  for_other->named_event("begin", "one");
  EXPECT_TRUE(other.read_until("event: begin\ndata: one\n\n"));
  server.stop();
  const std::string error =
      R"({"type":"error","error":{"message":"the server is ending: the answer took longer than it had left",)"
      R"("type":"server_error","param":null,"code":null}})";
  const Response refused = whole.response();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("connection"), "close");
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_EQ(refused.body, error + "\n");
  const Response streamed = stream.response();
  EXPECT_TRUE(streamed.is_complete);
  ASSERT_EQ(streamed.events().size(), 2u);
  EXPECT_EQ(streamed.events()[1], error);
  const Response others = other.response();
  EXPECT_TRUE(others.is_complete);
  EXPECT_TRUE(
      others.body.ends_with("event: failed\ndata: the server is ending: the answer took longer than it had left\n\n"))
      << others.body;
  EXPECT_TRUE(server.ends_within(10s));
  EXPECT_TRUE(for_whole->gone().stop_requested());
  EXPECT_TRUE(for_stream->gone().stop_requested());
  EXPECT_TRUE(for_other->gone().stop_requested());
  for_whole->reply({.body = "too late"});
  for_stream->event("too late");
  EXPECT_TRUE(whole.is_closed());
  EXPECT_TRUE(stream.is_closed());
}

TEST(HttpServer, CutsClientsThatDoNotTakeTheirAnswersInTheEnd) {
  Keeper keeper;
  HttpOptions options = quick_options();
  options.grace = 30ms;
  Running server(keeper.handler(), options);
  Client client(server.port());
  client.request("GET", "/");
  const Responding responder = keeper.take();
  responder->begin_events();
  for (int i = 0; i < 64; ++i) responder->event(std::string(1 << 20, 'x'));
  EXPECT_TRUE(client.read_until("data: x"));
  server.stop();
  EXPECT_TRUE(server.ends_within(10s));
}

TEST(HttpServer, SaysWhyItCannotListen) {
  Running server;
  HttpOptions options = quick_options();
  const auto said = [&] {
    try {
      HttpServer second(options);
      second.listen();
      return std::string("nothing");
    } catch (const std::runtime_error &error) {
      return std::string(error.what());
    }
  };
  options.port = server.port();
  EXPECT_EQ(said(), "cannot listen on 127.0.0.1 port " + std::to_string(server.port()) + ": Address already in use");
  options.port = 0;
  const HttpServer silent(options);  // which does not listen yet
  options.port = silent.port();
  EXPECT_TRUE(said().ends_with("Address already in use")) << said();
  options.host = "no such host";
  EXPECT_TRUE(said().starts_with("cannot listen on no such host port ")) << said();
  EXPECT_TRUE(said().ends_with("; expected an address of this machine or a name of one, not a socket's path"))
      << said();
  options.host = "8.8.8.8";
  EXPECT_TRUE(said().ends_with("Cannot assign requested address")) << said();
}

// The side that closes first remembers the connection for a minute.
TEST(HttpServer, StartsAgainWhereAnotherHasClosedConnections) {
  HttpOptions options = quick_options();
  for (int i = 0; i < 2; ++i) {
    Running server(tell_request, options);
    options.port = server.port();
    Client client(server.port());
    EXPECT_EQ(client.get("/").status, 200);
    server.stop();
    EXPECT_TRUE(server.ends_within(10s));
    EXPECT_TRUE(client.is_closed());
  }
}

}  // namespace
}  // namespace bonsai::server
