// What the HTTP server promises to clients, good ones and others.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/host/server/running.h"

namespace bonsai::server {
namespace {

TEST(HttpServer, AnswersOneRequestAfterTheOtherOnAConnection) {
  Running server;
  Client client(server.port());
  EXPECT_EQ(client.get("/a?b=c").body, "GET /a ");
  const Response second = client.post("/d", "body");
  EXPECT_EQ(second.body, "POST /d body");
  EXPECT_EQ(second.status, 200);
  EXPECT_EQ(second.header("connection"), "keep-alive");
  EXPECT_EQ(second.header("content-type"), "text/plain");
  EXPECT_TRUE(second.header("date").ends_with(" GMT"));
}

TEST(HttpServer, AnswersRequestsThatWereSentAhead) {
  Running server;
  Client client(server.port());
  for (const char *path : {"/1", "/2", "/3"}) client.request("GET", path);
  for (const char *path : {"/1", "/2", "/3"}) EXPECT_EQ(client.response().body, std::string("GET ") + path + " ");
}

TEST(HttpServer, TakesBodiesInChunks) {
  Running server;
  Client client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.response().body, "POST / abcde");
}

TEST(HttpServer, TellsClientsThatAskToSendTheirBody) {
  Running server;
  Client client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.response().status, 100);
  client.send("ab");
  EXPECT_EQ(client.response().body, "POST / ab");
}

TEST(HttpServer, ClosesWhereTheClientWantsThat) {
  Running server;
  Client client(server.port());
  EXPECT_EQ(client.get("/", "Connection: close\r\n").header("connection"), "close");
  EXPECT_TRUE(client.is_closed());
  Client old(server.port());
  old.send("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.response().body, "GET / ");
  EXPECT_TRUE(old.is_closed());
}

TEST(HttpServer, SendsNoBodyToHead) {
  Running server;
  Client client(server.port());
  client.request("HEAD", "/x");
  EXPECT_EQ(client.response(false).header("content-length"), "8");
  EXPECT_EQ(client.get("/y").body, "GET /y ");
}

TEST(HttpServer, StreamsEventsAsTheyCome) {
  Keeper keeper;
  Running server(keeper.handler());
  Client client(server.port());
  client.request("GET", "/");
  const Responding responder = keeper.take();
  responder->begin_events();
  responder->event("one");
  EXPECT_TRUE(client.read_until("data: one\n\n"));
  responder->event("two");
  responder->end();
  const Response response = client.response();
  EXPECT_TRUE(response.is_complete);
  EXPECT_EQ(response.header("content-type"), "text/event-stream");
  EXPECT_EQ(response.events(), (std::vector<std::string>{"one", "two"}));
  client.request("GET", "/");  // and the connection goes on
  keeper.take()->reply({.body = "whole"});
  EXPECT_EQ(client.response().body, "whole");
}

TEST(HttpServer, StreamsToOldClientsUntilItCloses) {
  Keeper keeper;
  Running server(keeper.handler());
  Client client(server.port());
  client.send("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  const Responding responder = keeper.take();
  responder->begin_events();
  responder->event("one");
  responder->end();
  const Response response = client.response();
  EXPECT_EQ(response.header("connection"), "close");
  EXPECT_EQ(response.header("transfer-encoding"), "");
  EXPECT_EQ(response.body, "data: one\n\n");
}

TEST(HttpServer, ShowsThatAStreamLivesWhichHasNothingToSay) {
  Keeper keeper;
  HttpOptions options = quick_options();
  options.ping = 5ms;
  Running server(keeper.handler(), options);
  Client client(server.port());
  client.request("GET", "/");
  const Responding responder = keeper.take();
  responder->begin_events();
  EXPECT_TRUE(client.read_until(": waiting\n\n"));
  responder->event("one");
  responder->end();
  EXPECT_EQ(client.response().events(), std::vector<std::string>{"one"});
}

TEST(HttpServer, NoticesThatTheClientHasGone) {
  Keeper keeper;
  Running server(keeper.handler());
  Client client(server.port()), other(server.port());
  client.request("GET", "/");
  const Responding responder = keeper.take();
  other.request("GET", "/");
  const Responding others = keeper.take();
  EXPECT_FALSE(responder->gone().stop_requested());
  client.close();
  EXPECT_TRUE(comes_true([&] { return responder->gone().stop_requested(); }));
  responder->reply({});  // nobody hears it, and it does no harm
  EXPECT_FALSE(others->gone().stop_requested());
  others->reply({.body = "there"});
  EXPECT_EQ(other.response().body, "there");
  EXPECT_TRUE(comes_true([&] { return server.served().size() == 2; }));
  EXPECT_EQ(server.served(), (std::vector<std::string>{"GET / 0 cut", "GET / 200"}));
}

TEST(HttpServer, GivesUpOnAClientThatReadsNothing) {
  Keeper keeper;
  HttpOptions options = quick_options();
  options.write = 50ms;
  Running server(keeper.handler(), options);
  Client client(server.port());
  client.request("GET", "/");
  const Responding responder = keeper.take();
  responder->begin_events();
  responder->event(std::string(64 << 20, 'x'));  // more than the kernel takes for it
  EXPECT_TRUE(comes_true([&] { return responder->gone().stop_requested(); }));
  EXPECT_TRUE(comes_true([&] { return server.served().size() == 1; }));
  EXPECT_EQ(server.served().front(), "GET / 200 cut");
}

// The answer does not count as one.
TEST(HttpServer, TellsWhetherAnAnswerWasCutOff) {
  Keeper keeper;
  Running server(keeper.handler());
  {
    Client client(server.port());
    client.request("GET", "/1");
    const Responding responder = keeper.take();
    responder->begin_events();
    responder->event("one");
    EXPECT_TRUE(client.read_until("data: one\n\n"));
  }
  EXPECT_TRUE(comes_true([&] { return server.served().size() == 1; }));
  Client client(server.port());
  client.request("GET", "/2");
  keeper.take()->begin_events();  // and nothing more
  EXPECT_FALSE(client.response().is_complete);
  EXPECT_TRUE(comes_true([&] { return server.served().size() == 2; }));
  EXPECT_EQ(server.served(), (std::vector<std::string>{"GET /1 200 cut", "GET /2 200 cut"}));
}

TEST(HttpServer, TellsOfAnAnswerThatNeverCame) {
  Keeper keeper;
  Running server(keeper.handler());
  Client client(server.port());
  client.request("GET", "/");
  keeper.take();
  const Response response = client.response();
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.header("connection"), "close");
  Client other(server.port());
  other.request("GET", "/");
  keeper.take()->begin_events();
  EXPECT_FALSE(other.response().is_complete);  // a stream that is cut off can be told from a whole one
}

TEST(HttpServer, RefusesWhatIsTooLongOrNoRequest) {
  HttpOptions options = quick_options();
  options.max_body_bytes = 10;
  Running server(tell_request, options);
  const auto refused = [&](const std::string &bytes) {
    Client client(server.port());
    client.send(bytes);
    const Response response = client.response();
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(client.is_closed());
    return std::to_string(response.status) + " " + response.body;
  };
  const std::string begin = R"({"type":"error","error":{"message":")",
                    end = "\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":null}}\n";
  EXPECT_EQ(refused("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\n\r\n0123456789a"),
            "413 " + begin + "the request's body is too long: expected at most 10 bytes" + end);
  EXPECT_EQ(refused("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n0123456789a\r\n0\r\n\r\n"),
            "413 " + begin + "the request's body is too long: expected at most 10 bytes" + end);
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(40'000, 'x') + "\r\n\r\n"),
            "431 " + begin + "the request's head is too long: expected at most 32768 bytes" + end);
  EXPECT_EQ(refused("hello\r\n\r\n").substr(0, 3), "400");
  EXPECT_EQ(refused("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n").substr(0, 3), "400");
  EXPECT_EQ(refused(std::string("\x16\x03\x01\x00\r\n\r\n", 8)).substr(0, 3), "400");
}

// Else somebody in front of this server may take the bytes behind a request for its body, or the other way round.
TEST(HttpServer, RefusesBodiesWhoseLengthCanBeReadInAnotherWay) {
  Running server;
  const auto status = [&](const std::string &head) {
    Client client(server.port());
    client.send(head + "\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    const int found = client.response().status;
    EXPECT_TRUE(found == 200 || client.is_closed());
    return found;
  };
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: ";
  EXPECT_EQ(status(post + "chunked"), 200);
  EXPECT_EQ(status(post + "Chunked"), 200);
  EXPECT_EQ(status(post + "gzip"), 400);
  EXPECT_EQ(status(post + "xchunked"), 400);
  EXPECT_EQ(status(post + "chunked, identity"), 400);
  EXPECT_EQ(status(post + "gzip, chunked"), 400);
  EXPECT_EQ(status(post + "chunked\r\nTransfer-Encoding: chunked"), 400);
  EXPECT_EQ(status(post + "chunked\r\nContent-Length: 3"), 400);
  EXPECT_EQ(status(post + "gzip\r\nContent-Length: 3"), 400);
  EXPECT_EQ(status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked"), 400);
}

TEST(HttpServer, TakesOneHostAndTargetsOfBothForms) {
  Running server;
  const auto answer = [&](const std::string &head) {
    Client client(server.port());
    client.send(head + "\r\n\r\n");
    const Response response = client.response();
    return response.status == 200 ? response.body : std::to_string(response.status);
  };
  EXPECT_EQ(answer("GET / HTTP/1.1"), "400");
  EXPECT_EQ(answer("GET / HTTP/1.1\r\nHost: a\r\nHost: b"), "400");
  EXPECT_EQ(answer("GET /x HTTP/1.0"), "GET /x ");
  EXPECT_EQ(answer("GET http://a/x/y?z HTTP/1.1\r\nHost: a"), "GET /x/y ");
  EXPECT_EQ(answer("GET http://a HTTP/1.1\r\nHost: a"), "GET / ");
}

TEST(HttpServer, SkipsALineThatOldClientsPutBehindABody) {
  Running server;
  Client client(server.port());
  client.request("POST", "/", "ab");
  client.send("\r\n");
  client.request("GET", "/next");
  EXPECT_EQ(client.response().body, "POST / ab");
  EXPECT_EQ(client.response().body, "GET /next ");
  for (const char *bytes : {"\r", "\n\r\n", "G", "ET /later HTTP/1.1\r\nHost: h\r\n\r\n"}) {
    client.send(bytes);
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_EQ(client.response().body, "GET /later ");
}

// What comes behind a body is not of the head: no proxy has looked at it.
TEST(HttpServer, TakesNothingFromTrailers) {
  Running server([](const HttpRequest &request, const Responding &responder) {
    responder->reply({.body = "[" + request.authorization + "]"});
  });
  Client client(server.port());
  client.send(
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "0\r\nAuthorization: Bearer k\r\nOrigin: http://evil\r\n\r\n");
  const Response response = client.response();
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "[]");
}

TEST(HttpServer, KeepsNoEndlessExtensionsOrTrailers) {
  Running server;
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string &begin : {std::string("1;"), std::string("0\r\nX: ")}) {
    Client client(server.port());
    client.send(head + begin);
    for (int i = 0; i < 16; ++i) client.send(std::string(64 << 10, 'a'));
    const int status = client.response().status;
    EXPECT_TRUE(status == 431 || status == 400) << status;
  }
}

TEST(HttpServer, NoticesThatAClientHasGoneThatSentMore) {
  Keeper keeper;
  Running server(keeper.handler());
  Client client(server.port());
  client.request("GET", "/");
  const Responding responder = keeper.take();
  client.send("\r\nGET /more");
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(responder->gone().stop_requested());
  client.close();
  EXPECT_TRUE(comes_true([&] { return responder->gone().stop_requested(); }));
}

TEST(HttpServer, HasPatienceWithASlowReaderThatReads) {
  Keeper keeper;
  HttpOptions options = quick_options();
  options.write = 1500ms;  // fifteen pauses
  Running server(keeper.handler(), options);
  Client client(server.port());
  client.request("GET", "/");
  const std::string body(24 << 20, 'x');  // more than the kernel takes for the client
  keeper.take()->reply({.body = body});
  for (int i = 0; i < 20; ++i) {  // longer than the server waits, in all
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(client.read_bytes(1 << 20));
  }
  EXPECT_EQ(client.response().body.size(), body.size());
}

// What it reads in the time that it has is far less than what makes the server's socket one that takes more.
TEST(HttpServer, HasPatienceWithAReaderHoweverSlow) {
  Keeper keeper;
  HttpOptions options = quick_options();
  options.write = 2s;  // forty pauses
  Running server(keeper.handler(), options);
  Client client(server.port(), 4096);
  client.request("GET", "/");
  const Responding responder = keeper.take();
  responder->reply({.body = std::string(24 << 20, 'x')});  // more than the kernel takes for the client
  for (int i = 0; i < 50; ++i) {                           // longer than the server waits, in all
    std::this_thread::sleep_for(50ms);
    EXPECT_TRUE(client.read_bytes(4096));
  }
  EXPECT_FALSE(responder->gone().stop_requested());
  EXPECT_TRUE(comes_true([&] { return responder->gone().stop_requested(); })) << "it reads nothing any more";
}

TEST(HttpServer, WaitsNoLongerThanItSays) {
  HttpOptions options = quick_options();
  options.idle = options.read = 30ms;
  Running server(tell_request, options);
  Client silent(server.port()), slow(server.port()), slower(server.port());
  slow.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nab");
  slower.send("POST / HT");
  EXPECT_TRUE(silent.is_closed());
  EXPECT_TRUE(slow.is_closed());
  EXPECT_TRUE(slower.is_closed());
}

TEST(HttpServer, TakesSoManyClientsAndNoMore) {
  Keeper keeper;
  HttpOptions options = quick_options();
  options.max_connections = 2;
  Running server(keeper.handler(), options);
  Client one(server.port()), two(server.port());
  one.request("GET", "/1");
  two.request("GET", "/2");
  const Responding first = keeper.take(), second = keeper.take();
  {
    Client three(server.port());
    three.request("POST", "/3", std::string(200'000, 'x'));  // which nobody reads: it reads the answer nevertheless
    const Response refused = three.response();
    EXPECT_EQ(refused.status, 503);
    EXPECT_EQ(refused.header("retry-after"), "1");
    EXPECT_NE(refused.body.find("too many connections: try again later"), std::string::npos) << refused.body;
  }
  first->reply({.body = "1"});
  EXPECT_EQ(one.response().body, "1");
  EXPECT_TRUE(comes_true([&] { return server.served().size() == 2; }));
  Client four(server.port());
  four.request("GET", "/4");
  keeper.take()->reply({.body = "4"});
  EXPECT_EQ(four.response().body, "4");
  EXPECT_TRUE(one.is_closed());  // it had been idle, and made room
  second->reply({.body = "2"});
  EXPECT_EQ(two.response().body, "2");
}

// However much comes at once: a request that is there is answered, or told that there is no place.
TEST(HttpServer, ClosesNoClientWhoseRequestIsThere) {
  constexpr size_t kClients = 150;  // more than are told at once that there is no place
  Keeper keeper;
  std::promise<void> all_have_sent;
  HttpOptions options = quick_options();
  options.max_connections = 5;
  Running server(
      [keep = keeper.handler(), sent = all_have_sent.get_future().share()](const HttpRequest &request,
                                                                           const Responding &responder) {
        sent.wait();  // with the server's thread: nothing is read meanwhile
        keep(request, responder);
      },
      options);
  std::vector<std::unique_ptr<Client>> clients;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->request("POST", "/", "body");
  }
  all_have_sent.set_value();
  std::vector<Responding> responders;
  for (size_t i = 0; i < options.max_connections; ++i) responders.push_back(keeper.take());
  std::map<int, size_t> n_by_status;
  const auto count = [&](const std::unique_ptr<Client> &client) { ++n_by_status[client->response().status]; };
  std::for_each(clients.begin() + options.max_connections, clients.end(), count);
  for (const Responding &responder : responders) responder->reply({});
  std::for_each(clients.begin(), clients.begin() + options.max_connections, count);
  EXPECT_EQ(n_by_status, (std::map<int, size_t>{{200, options.max_connections}, {503, kClients - 5}}));
}

TEST(HttpServer, ClosesNoClientInTheMiddleOfARequest) {
  HttpOptions options = quick_options();
  options.max_connections = 2;
  Running server(tell_request, options);
  Client one(server.port()), silent(server.port());
  one.send("GET /1 HT");
  std::this_thread::sleep_for(5ms);
  Client three(server.port());  // later than both, and silent, too
  EXPECT_TRUE(silent.is_closed());
  one.send("TP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(one.response().body, "GET /1 ");
}

TEST(HttpServer, ClosesClientsThatSayNothingForOthers) {
  HttpOptions options = quick_options();
  options.max_connections = 2;
  Running server(tell_request, options);
  Client one(server.port()), two(server.port());
  EXPECT_EQ(Client(server.port()).get("/3").body, "GET /3 ");
  EXPECT_TRUE(one.is_closed());
  EXPECT_EQ(two.get("/2").body, "GET /2 ");
}

// A connection that has been answered makes room, also where the next client comes before that is known.
TEST(HttpServer, AnswersOneClientAfterTheOtherWhereThereIsOnePlace) {
  HttpOptions options = quick_options();
  options.max_connections = 1;
  Running server(tell_request, options);
  for (int i = 0; i < 200; ++i) {
    const std::string headers = i % 2 == 0 ? "Connection: close\r\n" : "";
    ASSERT_EQ(Client(server.port()).get("/", headers).status, 200) << i;
  }
}

TEST(HttpServer, TakesNoCompressedBodiesAndSaysSo) {
  Running server(tell_request);
  Client client(server.port());
  const Response refused = client.post("/", "\x1f\x8b", "Content-Encoding: gzip\r\n");
  EXPECT_EQ(refused.status, 415);
  EXPECT_NE(refused.body.find("Content-Encoding: expected none, found 'gzip'"), std::string::npos) << refused.body;
  EXPECT_EQ(client.post("/", "{}", "Content-Encoding: Identity\r\n").status, 200);
}

TEST(HttpServer, LetsOnlyTheOwnPagesAndThoseNamedUseIt) {
  HttpOptions options = quick_options();
  options.allowed_origins = {"https://chat.example"};
  Running server(tell_request, options);
  Client client(server.port());
  EXPECT_EQ(client.get("/", "Origin: http://here\r\n").status, 200);
  const Response allowed = client.get("/", "Origin: https://chat.example\r\n");
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.header("access-control-allow-origin"), "https://chat.example");
  const Response refused = client.get("/", "Origin: https://evil.example\r\n");
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(refused.header("access-control-allow-origin"), "");
  EXPECT_EQ(client.get("/", "Origin: null\r\n").status, 403);
  EXPECT_EQ(client.get("/", "Origin: https://front.example\r\nSec-Fetch-Site: same-origin\r\n").status, 200);
  EXPECT_EQ(client.get("/", "Origin: https://evil.example\r\nSec-Fetch-Site: same-site\r\n").status, 403);
  client.request("OPTIONS", "/v1/x", "",
                 "Origin: https://chat.example\r\nAccess-Control-Request-Method: "
                 "POST\r\nAccess-Control-Request-Headers: content-type,x-own\r\n");
  const Response preflight = client.response();
  EXPECT_EQ(preflight.status, 204);
  EXPECT_EQ(preflight.header("access-control-allow-headers"), "content-type,x-own");
  EXPECT_EQ(preflight.header("access-control-allow-origin"), "https://chat.example");
}

// Else a page would see nothing but that its request has failed.
TEST(HttpServer, LetsPagesThatMayUseItReadThatTheirBodyIsRefused) {
  HttpOptions options = quick_options();
  options.allowed_origins = {"https://chat.example"};
  options.max_body_bytes = 10;
  Running server(tell_request, options);
  const auto answer = [&](const std::string &site, const std::string &behind) {
    Client client(server.port());
    client.send("POST / HTTP/1.1\r\nHost: h\r\nOrigin: https://" + site + "\r\n" + behind);
    const Response response = client.response();
    EXPECT_EQ(response.header("connection"), "close");
    EXPECT_TRUE(client.is_closed());
    return std::to_string(response.status) + " " + response.header("access-control-allow-origin");
  };
  const std::string chunked = "Transfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(answer("chat.example", "Content-Length: 11\r\n\r\n0123456789a"), "413 https://chat.example");
  EXPECT_EQ(answer("chat.example", chunked + "b\r\n0123456789a\r\n0\r\n\r\n"), "413 https://chat.example");
  EXPECT_EQ(answer("chat.example", chunked + "no number\r\n"), "400 https://chat.example");
  EXPECT_EQ(answer("evil.example", "Content-Length: 11\r\n\r\n0123456789a"), "413 ");
}

// It sends none where it is not told to.
TEST(HttpServer, RefusesABodyThatIsTooLongBeforeItIsSent) {
  HttpOptions options = quick_options();
  options.max_body_bytes = 10;
  Running server(tell_request, options);
  Client client(server.port());
  client.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.response().status, 413);
  EXPECT_TRUE(comes_true([&] { return server.served().size() == 1; }));
  EXPECT_EQ(server.served().front(), "POST / 413");
}

TEST(HttpServer, ManyClientsAtOnceEachGetTheirOwnAnswer) {
  Running server;
  std::atomic<int> right = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      Client client(server.port());
      for (int i = 0; i < 50; ++i) {
        const std::string body = std::to_string(t * 1000 + i);
        right += client.post("/", body).body == "POST / " + body;
      }
    });
  threads.clear();
  EXPECT_EQ(right, 400);
}

}  // namespace
}  // namespace bonsai::server
