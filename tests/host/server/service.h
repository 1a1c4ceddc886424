// A server of OpenAI's API as its tests use it, over a real connection.
#pragma once

#include <bonsai/engine.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "host/server/api_service.h"
#include "host/server/http_server.h"
#include "tests/host/engine/seedling.h"
#include "tests/host/server/client.h"

namespace bonsai::server {

using nlohmann::json;

inline Engine load(const std::string &file) {
  EngineOptions options;
  options.model = file;
  return Engine::load(options);
}

inline ApiOptions greedy_options() {
  ApiOptions options;
  options.model_name = "it";
  options.defaults = greedy(24);
  options.batch = {.max_sequences = 4, .batch_tokens = 32};
  return options;
}

// A server of one model.
class Service {
 public:
  explicit Service(const Engine &engine, const ApiOptions &options = greedy_options(),
                   const HttpOptions &http = {.port = 0})
      : server_(http), service_(engine, options) {
    server_.listen();
    thread_ = std::jthread([this](const std::stop_token &stop) {
      server_.run({.handler =
                       [this](HttpRequest request, std::shared_ptr<Responder> responder) {
                         service_.handle(std::move(request), std::move(responder));
                       },
                   .served = [this](const Served &served) { service_.served(served); }},
                  stop);
    });
  }

  uint16_t port() const { return server_.port(); }
  void stop() { thread_.request_stop(); }
  Response get(const std::string &path, const std::string &headers = "") const {
    return Client(port()).get(path, headers);
  }
  Response post(const std::string &path, const json &body, const std::string &headers = "") const {
    return Client(port()).post(path, body.is_string() ? body.get<std::string>() : body.dump(), headers);
  }
  // The answer as JSON; a failure where it is an error.
  json ask(const std::string &path, const json &body) const {
    const Response response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    return json::parse(response.body);
  }
  // The events but for the last, which has to be [DONE].
  std::vector<json> stream(const std::string &path, json body) const {
    body["stream"] = true;
    const Response response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_TRUE(response.is_complete);
    std::vector<std::string> events = response.events();
    if (events.empty() || events.back() != "[DONE]") {
      ADD_FAILURE() << response.body;
      return {};
    }
    events.pop_back();
    std::vector<json> parsed;
    for (const std::string &event : events) parsed.push_back(json::parse(event));
    return parsed;
  }
  // Of a stream whose events have the name that their data has as its "type".
  std::vector<json> named_stream(const std::string &path, json body) const {
    body["stream"] = true;
    const Response response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_TRUE(response.is_complete);
    std::vector<json> parsed;
    for (const std::string &data : response.events()) {
      parsed.push_back(json::parse(data));
      const std::string named = "event: " + parsed.back()["type"].get<std::string>() + "\ndata: " + data + "\n";
      EXPECT_NE(response.body.find(named), std::string::npos) << data;
    }
    return parsed;
  }
  // "400 message".
  std::string refused(const std::string &path, const json &body) const {
    const Response response = post(path, body);
    const json error = json::parse(response.body)["error"];
    return std::to_string(response.status) + " " + error["message"].get<std::string>();
  }
  uint64_t metric(const std::string &name) const {
    const std::string text = "\n" + get("/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    EXPECT_NE(at, text.npos) << name;
    return std::stoull(text.substr(at + name.size() + 2));
  }

 private:
  HttpServer server_;
  ApiService service_;
  std::jthread thread_;  // stops first
};

// Keeps the answer to a request that comes without a connection.
class Keeping final : public Responder {
 public:
  void reply(HttpReply reply) override { reply_.set_value(std::move(reply)); }
  void begin_events(FailStream) override {}
  void event(std::string) override {}
  void named_event(std::string_view, std::string) override {}
  void end() override {}
  std::stop_token gone() const override { return {}; }

  bool has_reply() const { return answer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready; }
  HttpReply wait() { return answer_.get(); }

 private:
  std::promise<HttpReply> reply_;
  std::future<HttpReply> answer_ = reply_.get_future();
};

inline std::shared_ptr<Keeping> asked(ApiService &service, const std::string &path, const json &body) {
  auto keeping = std::make_shared<Keeping>();
  service.handle({.method = "POST", .path = path, .body = body.dump()}, keeping);
  return keeping;
}

class Telling : public testing::Test {
 protected:
  const Engine engine_ = load_seedling();
};

inline constexpr const char *kChat = "/v1/chat/completions", *kComplete = "/v1/completions", *kEmbed = "/v1/embeddings";

inline json user(const std::string &text) { return {{{"role", "user"}, {"content", text}}}; }
// Has the model say exactly this.
inline std::string only(const std::string &text) { return "root ::= " + json(text).dump(); }

inline json tools(const std::string &name) { return {{{"type", "function"}, {"function", {{"name", name}}}}}; }

}  // namespace bonsai::server
