// `bonsai serve` on the seedling, from its start to its end.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/host/server/client.h"

namespace bonsai::cli {
namespace {

using nlohmann::json;
using server::Client;
using server::Response;

// A server on a free port, which says where.
class Server {
 public:
  explicit Server(std::vector<std::string> options = {}) : program_(arguments(std::move(options))) {
    program_.wait_for_output();
    said_ = json::parse(program_.read_some(1000));
  }

  const json &said() const { return said_; }
  uint16_t port() const { return said_["port"]; }
  RunningProgram &program() { return program_; }
  json ask(const std::string &path, const json &body, const std::string &headers = "") const {
    return json::parse(Client(port()).post(path, body.dump(), headers).body);
  }

 private:
  static std::vector<std::string> arguments(std::vector<std::string> options) {
    options.insert(options.begin(), {"serve", "-m", seedling(), "--port", "0", "--json"});
    return options;
  }

  RunningProgram program_;
  json said_;
};

// Whoever runs the tests may have a key of their own.
class Serve : public testing::Test {
 protected:
  Serve() { ::unsetenv("BONSAI_API_KEY"); }
};

TEST_F(Serve, AnswersAsRunDoes) {
  Server server({"--temp", "0", "--alias", "tales"});
  EXPECT_EQ(server.said()["model"], "tales");
  EXPECT_EQ(server.said()["url"], "http://127.0.0.1:" + std::to_string(server.port()));
  EXPECT_EQ(Client(server.port()).get("/health").status, 200);
  const json answer = server.ask("/v1/completions", {{"prompt", "Once upon a time"}, {"max_tokens", 12}});
  const Outcome run =
      run_program({"run", "-m", seedling(), "-p", "Once upon a time", "-n", "12", "--temp", "0", "--json"});
  EXPECT_EQ(answer["choices"][0]["text"], json::parse(run.out)["text"]);
  EXPECT_EQ(answer["model"], "tales");
  server.program().send_signal(SIGTERM);
  const Outcome outcome = server.program().finish();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("tales on cpu"), std::string::npos) << outcome.err;
}

TEST_F(Serve, LetsAnAnswerEndBeforeItDoesItself) {
  Server server({"--ignore-eos"});
  Client client(server.port());
  client.request("POST", "/v1/completions", R"({"prompt": "The wolf", "max_tokens": 200, "stream": true})");
  ASSERT_TRUE(client.read_until("data: "));
  server.program().send_signal(SIGINT);
  const Response response = client.response();
  EXPECT_TRUE(response.is_complete);
  EXPECT_EQ(response.events().back(), "[DONE]");
  const Outcome outcome = server.program().finish();
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_NE(outcome.err.find("ending: 1 text under way, for 30 s at most"), std::string::npos) << outcome.err;
}

TEST_F(Serve, ComputesAsManyTextsAtOnceAsItIsTold) {
  Server server({"--parallel", "300", "-c", "32"});
  const json properties = json::parse(Client(server.port()).get("/props").body);
  EXPECT_EQ(properties["total_slots"], 300);
}

TEST_F(Serve, TheKeyMayComeFromTheEnvironment) {
  ::setenv("BONSAI_API_KEY", "secret", 1);
  Server server;
  ::unsetenv("BONSAI_API_KEY");
  EXPECT_EQ(Client(server.port()).get("/v1/models").status, 401);
  EXPECT_EQ(Client(server.port()).get("/v1/models", "Authorization: Bearer secret\r\n").status, 200);
}

TEST_F(Serve, TellsOfEachRequestWhereAskedTo) {
  Server server({"--verbose"});
  EXPECT_EQ(Client(server.port()).get("/v1/models").status, 200);
  {
    Client client(server.port());
    client.request("POST", "/v1/completions",
                   R"({"prompt": "The wolf", "max_tokens": 1000, "ignore_eos": true, "stream": true})");
    EXPECT_TRUE(client.read_until("data: "));
  }
  server.program().send_signal(SIGTERM);
  const Outcome outcome = server.program().finish();
  EXPECT_NE(outcome.err.find("info: GET /v1/models 200 0."), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("info: POST /v1/completions 200, cut off, "), std::string::npos) << outcome.err;
}

TEST(ServeRefuses, InOneLine) {
  const auto said = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"serve", "-m", seedling()});
    const Outcome outcome = run_program(arguments);
    return std::to_string(outcome.exit_code) + " " + outcome.err;
  };
  const std::string hint = " (see 'bonsai serve --help')\n";
  EXPECT_EQ(said({"--port", "70000"}),
            "2 bonsai serve: --port: expected a whole number from 0 to 65535, found '70000'" + hint);
  for (const std::string origin : {"chat.example", "https://", "https://chat.example/", "https://Chat.example",
                                   "https://chat.example:443", "http://chat.example:80", "https://chat example"})
    EXPECT_EQ(said({"--allow-origin", origin}),
              "2 bonsai serve: --allow-origin: expected https://SITE as browsers send it (small letters, no path, no "
              "default port) or *, found '" +
                  origin + "'" + hint);
  EXPECT_EQ(said({"--host", ""}), "2 bonsai serve: --host: expected an address, found an empty text" + hint);
  EXPECT_EQ(said({"--api-key", ""}), "2 bonsai serve: --api-key: expected a key, found an empty text" + hint);
  const std::string visible = ": expected visible ASCII characters alone, as a header has them" + hint;
  EXPECT_EQ(said({"--api-key", "k "}), "2 bonsai serve: --api-key" + visible);
  ::setenv("BONSAI_API_KEY", "k\n", 1);  // a file's
  EXPECT_EQ(said({}), "2 bonsai serve: BONSAI_API_KEY" + visible);
  ::setenv("BONSAI_API_KEY", "", 1);  // a secret that was not there
  EXPECT_EQ(said({}), "2 bonsai serve: BONSAI_API_KEY: expected a key, found an empty text" + hint);
  ::unsetenv("BONSAI_API_KEY");
  EXPECT_EQ(said({"--pooling", "max"}), "2 bonsai serve: --pooling: expected mean or last, found 'max'" + hint);
  EXPECT_EQ(said({"--port", "0", "--parallel", "8", "--batch-tokens", "4"}),
            "2 bonsai serve: --batch-tokens: expected at least --parallel (8), found 4" + hint);
  EXPECT_EQ(said({"--kv-tokens", "1"}),
            "2 bonsai serve: --kv-tokens: expected a whole number from 2 to 4294967295, found '1'" + hint);
  EXPECT_EQ(said({"--batch-tokens", "1048577"}),
            "2 bonsai serve: --batch-tokens: expected a whole number from 1 to 1048576, found '1048577'" + hint);
  EXPECT_EQ(said({"--port", "0", "--logit-bias", "99999=3"}),
            "1 bonsai serve: logit bias: token 99999 is outside the vocabulary of 4096\n");
  Server server;
  const std::string port = std::to_string(server.port());
  EXPECT_EQ(said({"--port", port}),
            "1 bonsai serve: cannot listen on 127.0.0.1 port " + port + ": Address already in use\n");
}

}  // namespace
}  // namespace bonsai::cli
