// The grammars that an engine keeps: who waits for whose, and what several get that ask at once.
#include "host/engine/constraint.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "host/engine/engine_state.h"
#include "tests/host/engine/seedling.h"

namespace bonsai::host {
namespace {

struct Asked {
  std::shared_ptr<grammar::TokenMasks> masks;
  std::string refused = "";
};

class TheConstraints : public ::testing::Test {
 protected:
  Asked ask(const GenerateOptions &options) {
    try {
      return {engine_->constraints.compile(options, engine_->require_tokenizer(), engine_->model.config.vocab)};
    } catch (const EngineError &error) {
      return {nullptr, error.what()};
    }
  }

  std::vector<Asked> asked_at_once(const GenerateOptions &options) {
    std::vector<Asked> asked(4);
    std::vector<std::thread> threads;
    for (Asked &one : asked) threads.emplace_back([&] { one = ask(options); });
    for (std::thread &thread : threads) thread.join();
    return asked;
  }

 private:
  std::shared_ptr<EngineState> engine_ = EngineState::load(seedling_options());
};

// `n` subschemas, each of which takes milliseconds; twenty or so are as many as a schema may have.
GenerateOptions slow_schema(int n) {
  nlohmann::json ways = nlohmann::json::array({{{"type", "null"}}});
  for (int i = 0; i < n; ++i) ways.push_back({{"pattern", "^(a|b)*a(a|b){14}$"}, {"maxLength", 3}});
  GenerateOptions options;
  options.json_schema = nlohmann::json{{"anyOf", ways}}.dump();
  return options;
}

TEST_F(TheConstraints, NobodyWaitsForTheReadingOfAnothersSchema) {
  GenerateOptions known;
  known.grammar = "root ::= \"known\"";
  ask(known);
  const GenerateOptions options = slow_schema(15);
  std::atomic<bool> begun = false, done = false;
  std::thread slow([&] {
    begun = true;
    EXPECT_EQ(ask(options).refused, "");
    done = true;
  });
  while (!begun) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // by now it reads
  int n_answered = 0;
  for (; !done; ++n_answered) {
    EXPECT_TRUE(ask(known).masks);
    GenerateOptions fresh;
    fresh.grammar = "root ::= \"" + std::to_string(n_answered) + "\"";
    EXPECT_TRUE(ask(fresh).masks);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // had it waited, the other would be done by then
  }
  slow.join();
  EXPECT_GT(n_answered, 10);
}

TEST_F(TheConstraints, WhoeverAsksForTheSameAtOnceGetsTheSame) {
  const GenerateOptions options = slow_schema(3);
  const std::vector<Asked> asked = asked_at_once(options);
  for (const Asked &one : asked) {
    EXPECT_TRUE(one.masks);
    EXPECT_EQ(one.masks, asked[0].masks);
  }
  EXPECT_EQ(ask(options).masks, asked[0].masks);
}

TEST_F(TheConstraints, WhoeverAsksForARefusedOneIsToldWhy) {
  GenerateOptions options = slow_schema(3);
  options.json_schema.insert(1, R"("not": {}, )");
  std::vector<Asked> asked = asked_at_once(options);
  asked.push_back(ask(options));  // a refusal is not kept
  for (const Asked &one : asked) {
    EXPECT_FALSE(one.masks);
    EXPECT_EQ(one.refused, "JSON schema, '#': keyword 'not' is not supported");
  }
}

}  // namespace
}  // namespace bonsai::host
