// The grammars that an engine keeps: who waits for whose, and what several get that ask at once.
#include "host/engine/constraint.h"

#include <algorithm>
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

// `n` subschemas, each of which takes milliseconds; twenty or so are as many as a schema may have.
GenerateOptions slow_schema(int n) {
  nlohmann::json ways = nlohmann::json::array({{{"type", "null"}}});
  for (int i = 0; i < n; ++i) ways.push_back({{"pattern", "^(a|b)*a(a|b){14}$"}, {"maxLength", 3}});
  GenerateOptions options;
  options.json_schema = nlohmann::json{{"anyOf", ways}}.dump();
  return options;
}

class TheConstraints : public ::testing::Test {
 protected:
  Asked ask(const GenerateOptions &options) {
    try {
      return {engine_->constraints.compile(options, engine_->require_tokenizer(), engine_->model.config.vocab)};
    } catch (const EngineError &error) {
      return {nullptr, error.what()};
    }
  }

  bool knows(const GenerateOptions &options) const { return engine_->constraints.knows(options); }

  std::vector<Asked> asked_at_once(const GenerateOptions &options) {
    std::vector<Asked> asked(4);
    std::vector<std::thread> threads;
    for (Asked &one : asked) threads.emplace_back([&] { one = ask(options); });
    for (std::thread &thread : threads) thread.join();
    return asked;
  }

  // How often both a grammar that is known and one that is new are there before another thread has read a schema, which
  // differs from those of other `i`.
  int n_answered_beside(int i) {
    GenerateOptions known, fresh, slow = slow_schema(15);
    known.grammar = "root ::= \"known\"";
    slow.json_schema += std::string(i, ' ');
    ask(known);
    std::atomic<bool> begun = false, done = false;
    std::thread reading([&] {
      begun = true;
      EXPECT_EQ(ask(slow).refused, "");
      done = true;
    });
    while (!begun) std::this_thread::yield();
    int n_answered = 0;
    while (!done) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // meanwhile it reads
      fresh.grammar = "root ::= \"" + std::to_string(i) + " " + std::to_string(n_answered) + "\"";
      EXPECT_TRUE(ask(known).masks);
      EXPECT_TRUE(ask(fresh).masks);
      n_answered += !done;
    }
    reading.join();
    return n_answered;
  }

 private:
  std::shared_ptr<EngineState> engine_ = EngineState::load(seedling_options());
};

// Where this thread gets little of the processor, it asks again beside another schema.
TEST_F(TheConstraints, NobodyWaitsForTheReadingOfAnothersSchema) {
  constexpr int kEnough = 3;  // whoever waits may be first once, before the other begins, and once more at its end
  int n_answered = 0;
  for (int i = 0; i < 20 && n_answered < kEnough; ++i) n_answered = n_answered_beside(i);
  EXPECT_GE(n_answered, kEnough);
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

TEST_F(TheConstraints, AreKnownOnceTheyAreRead) {
  GenerateOptions options;
  EXPECT_TRUE(knows(options)) << "there is none to be read";
  options.grammar = "root ::= \"a\"";
  EXPECT_FALSE(knows(options));
  ask(options);
  EXPECT_TRUE(knows(options));
  for (int i = 0; i < 16; ++i) {
    GenerateOptions other;
    other.grammar = "root ::= \"" + std::to_string(i) + "\"";
    ask(other);
  }
  EXPECT_FALSE(knows(options)) << "those that were used last are kept";
}

TEST_F(TheConstraints, WhoeverAsksForARefusedOneIsToldWhy) {
  GenerateOptions options = slow_schema(3);
  options.json_schema.insert(1, R"("not": {}, )");
  std::vector<Asked> asked = asked_at_once(options);
  EXPECT_TRUE(knows(options)) << "it is not read again to be refused";
  asked.push_back(ask(options));
  for (const Asked &one : asked) {
    EXPECT_FALSE(one.masks);
    EXPECT_EQ(one.refused, "JSON schema, '#': keyword 'not' is not supported");
  }
}

TEST_F(TheConstraints, RefusedOnesPushOutOneOtherAtMost) {
  std::vector<GenerateOptions> good(16), bad(20);
  for (size_t i = 0; i < good.size(); ++i) good[i].grammar = "root ::= \"" + std::to_string(i) + "\"";
  for (size_t i = 0; i < bad.size(); ++i) bad[i].grammar = "root ::= none" + std::to_string(i);
  for (const GenerateOptions &options : good) EXPECT_TRUE(ask(options).masks);
  for (const GenerateOptions &options : bad) EXPECT_NE(ask(options).refused, "");
  EXPECT_GE(std::ranges::count_if(good, [&](const GenerateOptions &options) { return knows(options); }), 15);
}

}  // namespace
}  // namespace bonsai::host
