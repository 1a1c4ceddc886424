// How texts of OpenAI's API end before their time, or at it: with their client, with the service, when there is no more
// time; and when their place is free.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "host/server/api_error.h"
#include "tests/host/server/service.h"

namespace bonsai::server {
namespace {

TEST_F(Telling, ATextEndsWhenItsClientGoes) {
  ApiOptions options = greedy_options();
  options.batch.max_sequences = 1;
  options.max_waiting = 0;
  options.defaults.ignore_eos = true;
  const Service service(engine_, options);
  const json endless = {{"prompt", "The wolf"}, {"max_tokens", 900}, {"stream", true}};
  Client client(service.port());
  client.request("POST", kComplete, endless.dump());
  EXPECT_TRUE(client.read_until("data: "));
  EXPECT_EQ(service.refused(kComplete, {{"prompt", "x"}}), "503 all 1 places are taken: try again later");
  const Response message = service.post("/v1/messages", {{"messages", user("hi")}});
  EXPECT_EQ(message.status, 503);
  EXPECT_EQ(json::parse(message.body)["error"]["type"], "overloaded_error");
  EXPECT_EQ(service.post(kEmbed, {{"input", "The wolf"}}).status, 200);
  client.close();
  EXPECT_TRUE(comes_true([&] { return service.post(kComplete, {{"prompt", "x"}, {"max_tokens", 1}}).status == 200; }));
  EXPECT_EQ(service.metric("bonsai_texts_running"), 0u);
  EXPECT_LT(service.metric("bonsai_generated_tokens_total"), 900u);
  const std::string cut = "bonsai_http_requests_total{route=\"/v1/completions\",status=\"0\"} 1\n";
  EXPECT_TRUE(comes_true([&] { return service.get("/metrics").body.find(cut) != std::string::npos; }));
}

// Whoever asks one text after the other, with one place for all of them, is never told that it is taken.
TEST_F(Telling, APlaceIsFreeOnceItsAnswerIsThere) {
  ApiOptions options = greedy_options();
  options.batch.max_sequences = 1;
  options.max_waiting = 0;
  const Service service(engine_, options);
  Client client(service.port());
  json request = {{"prompt", "The wolf"}, {"max_tokens", 1}};
  for (int i = 0; i < 300; ++i) {
    request["stream"] = i % 3 == 1;
    if (i % 3 == 2) request["logprobs"] = 1;
    ASSERT_EQ(client.post(kComplete, request.dump()).status, 200) << i;
    request.erase("logprobs");
  }
}

// Tells of nothing, but that it is no longer needed.
class Silent final : public Responder {
 public:
  explicit Silent(std::shared_ptr<int> held) : held_(std::move(held)) {}
  void reply(HttpReply) override {}
  void begin_events(FailStream) override {}
  void event(std::string) override {}
  void named_event(std::string_view, std::string) override {}
  void end() override {}
  std::stop_token gone() const override { return {}; }

 private:
  std::shared_ptr<int> held_;
};

TEST_F(Telling, WhatIsUnderWayEndsWithTheService) {
  const auto held = std::make_shared<int>();
  {
    ApiOptions options = greedy_options();
    options.batch.max_sequences = 2;  // others wait
    ApiService service(engine_, options);
    const json body = {{"prompt", "The wolf"}, {"max_tokens", 900}, {"ignore_eos", true}};
    for (int i = 0; i < 6; ++i) {
      json request = body;
      request["stream"] = i % 2 == 0;
      service.handle({.method = "POST", .path = kComplete, .body = request.dump()}, std::make_shared<Silent>(held));
    }
    service.handle({.method = "POST", .path = kEmbed, .body = R"({"input": "The wolf"})"},
                   std::make_shared<Silent>(held));
    EXPECT_TRUE(comes_true([&] { return service.n_under_way() > 0; }));
  }
  EXPECT_EQ(held.use_count(), 1);
}

TEST_F(Telling, WhatIsEmbeddedEndsWithTheService) {
  std::shared_ptr<Keeping> keeping;
  {
    ApiService service(engine_, greedy_options());
    const json text(std::vector<int32_t>(500, 5));
    keeping = asked(service, kEmbed, {{"input", json(std::vector<json>(300, text))}});
    asked(service, kComplete, {{"prompt", "The wolf"}})->wait();  // meanwhile it has begun
  }
  EXPECT_FALSE(keeping->has_reply());
}

// Takes a stream's events, the last of which it holds up until it is told to go on.
class HoldingUp final : public Responder {
 public:
  void reply(HttpReply) override {}
  void begin_events(FailStream fail) override { fail_ = std::move(fail); }
  void event(std::string data) override {
    last_ = std::move(data);
    if (last_ != "[DONE]") return;
    has_come_.set_value();
    goes_on_.get_future().wait();
  }
  void named_event(std::string_view, std::string) override {}
  void end() override { ended_.set_value(last_); }
  std::stop_token gone() const override { return {}; }

  void wait_for_last() { has_come_.get_future().wait(); }
  void fail() const { fail_(ApiError("no more time", 503)); }
  void go_on() { goes_on_.set_value(); }
  // The event that the stream ended with.
  std::string end_of_stream() { return ended_.get_future().get(); }

 private:
  FailStream fail_;
  std::string last_;
  std::promise<void> has_come_, goes_on_;
  std::promise<std::string> ended_;
};

// The server's only thread gives up, while others write what is long.
TEST_F(Telling, GivingUpDoesNotWaitForAnEndThatIsBeingWritten) {
  ApiService service(engine_, greedy_options());
  const auto responder = std::make_shared<HoldingUp>();
  const json request = {{"prompt", "The wolf"}, {"max_tokens", 2}, {"stream", true}, {"logprobs", 1}};
  service.handle({.method = "POST", .path = kComplete, .body = request.dump()}, responder);
  responder->wait_for_last();
  const auto given_up = std::async(std::launch::async, [&] { responder->fail(); });
  EXPECT_TRUE(comes_true([&] { return given_up.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }));
  responder->go_on();
  EXPECT_EQ(responder->end_of_stream(), "[DONE]");
}

}  // namespace
}  // namespace bonsai::server
