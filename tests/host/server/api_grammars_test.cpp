// Grammars and schemas that are new, while the thread that reads them is busy: who waits for it, and who does not.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/host/server/service.h"

namespace bonsai::server {
namespace {

// Its answer keeps whoever brings it until it is let go.
class HoldingReply final : public Responder {
 public:
  void reply(HttpReply) override {
    has_come_.set_value();
    goes_on_.get_future().wait();
  }
  void begin_events(FailStream) override {}
  void event(std::string) override {}
  void named_event(std::string_view, std::string) override {}
  void end() override {}
  std::stop_token gone() const override { return {}; }

  void wait() { has_come_.get_future().wait(); }
  void let_go() { goes_on_.set_value(); }

 private:
  std::promise<void> has_come_, goes_on_;
};

json with_schema(const json &schema) { return {{"prompt", "The wolf"}, {"json_schema", schema}}; }

// A schema that is refused, and differs from those of other `i`.
json refused(int i) { return with_schema({{"not", {{"type", "boolean"}}}, {"title", std::to_string(i)}}); }

class Grammars : public Telling {
 protected:
  static ApiOptions eight_places() {
    ApiOptions options = greedy_options();
    options.batch.max_sequences = 4;
    options.max_waiting = 4;
    return options;
  }

  // Until let_go() the thread that reads grammars brings somebody that one is refused.
  void hold() {
    service_.handle({.method = "POST", .path = kComplete, .body = refused(-1).dump()}, holding_);
    holding_->wait();
  }
  void let_go() { holding_->let_go(); }
  std::shared_ptr<Keeping> ask(const json &body) { return asked(service_, kComplete, body); }

  const json known_ = with_schema({{"type", "boolean"}});

 private:
  std::shared_ptr<HoldingReply> holding_ = std::make_shared<HoldingReply>();
  ApiService service_{engine_, eight_places()};
};

TEST_F(Grammars, ThatAreNewWaitAndNobodyElseDoes) {
  EXPECT_EQ(ask(known_)->wait().status, 200);
  EXPECT_EQ(ask(refused(0))->wait().status, 400);
  hold();
  const auto bad = ask(refused(1)), good = ask(with_schema({{"type", "null"}}));
  EXPECT_EQ(ask({{"prompt", "The wolf"}, {"max_tokens", 1}})->wait().status, 200);
  EXPECT_EQ(ask(known_)->wait().status, 200);
  const HttpReply again = ask(refused(0))->wait();  // it would take as long to be refused again
  EXPECT_EQ(again.status, 400);
  EXPECT_EQ(json::parse(again.body)["error"]["message"],
            "json_schema: JSON schema, '#': keyword 'not' is not supported");
  EXPECT_FALSE(bad->has_reply() || good->has_reply());
  let_go();
  EXPECT_EQ(bad->wait().status, 400);
  const HttpReply read = good->wait();
  EXPECT_EQ(read.status, 200);
  EXPECT_EQ(json::parse(read.body)["choices"][0]["text"], "null");
}

// Half of the places are for answers that need none read. Whoever is being answered, as by hold(), has none any more.
TEST_F(Grammars, OfOnlySoManyAnswersAreWaitedFor) {
  hold();
  std::vector<std::shared_ptr<Keeping>> waiting;
  for (int i = 0; i < 5; ++i) waiting.push_back(ask(refused(i)));
  const auto has_reply = [](const std::shared_ptr<Keeping> &one) { return one->has_reply(); };
  ASSERT_TRUE(comes_true([&] { return std::ranges::any_of(waiting, has_reply); }));
  EXPECT_EQ(ask({{"prompt", "The wolf"}, {"max_tokens", 1}})->wait().status, 200);
  EXPECT_EQ(std::ranges::count_if(waiting, has_reply), 1);
  std::ranges::partition(waiting, has_reply);
  EXPECT_EQ(waiting[0]->wait().status, 503);
  let_go();
  for (size_t i = 1; i < waiting.size(); ++i) EXPECT_EQ(waiting[i]->wait().status, 400);
}

TEST_F(Grammars, OfOneRequestWithManyAnswersTakeNoMore) {
  json four = refused(0), seven = refused(1);
  four["n"] = 4;
  seven["n"] = 7;
  EXPECT_EQ(ask(seven)->wait().status, 400);  // alone, it has its half
  hold();
  const auto waiting = ask(four);
  EXPECT_EQ(ask({{"prompt", "The wolf"}, {"max_tokens", 1}})->wait().status, 200);
  const HttpReply more = ask(refused(2))->wait();
  EXPECT_EQ(more.status, 503);
  EXPECT_EQ(json::parse(more.body)["error"]["message"],
            "all 4 places of those whose grammar is new are taken: try again later");
  EXPECT_EQ(ask({{"prompt", "The wolf"}, {"max_tokens", 1}})->wait().status, 200);
  EXPECT_FALSE(waiting->has_reply());
  let_go();
  EXPECT_EQ(waiting->wait().status, 400);
}

}  // namespace
}  // namespace bonsai::server
