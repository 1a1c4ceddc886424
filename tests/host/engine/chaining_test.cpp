// Where a device chooses tokens by itself, the pass over the next one is submitted before the host knows it. Nobody can
// tell from the text: wherever it ends, what was begun behind the end is forgotten; and where a pass fails, the CPU
// goes on as it does elsewhere.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>

#include "tests/host/engine/failing.h"

namespace bonsai {
namespace {

constexpr const char *kPrompt = "Once upon a time";
constexpr uint32_t kTokens = 14;

EngineOptions elsewhere(Journal &journal, Failure failure = {}) {
  failure.backend = "elsewhere";
  return failing_options(failure, journal);
}

// All that a generation leaves behind.
struct Seen {
  std::string text, next_text;
  std::vector<int32_t> tokens;
  FinishReason finish{};
  uint32_t prompt_tokens = 0, decode_steps = 0, decode_passes = 0;
  std::vector<char> saved;  // the session's file
  std::vector<float> logits;
  bool operator==(const Seen &) const = default;
};

std::vector<char> file_of(const Session &session) {
  const std::string path = testing::TempDir() + "/bonsai-chaining-" + std::to_string(getpid()) + ".session";
  session.save(path);
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
  std::filesystem::remove(path);
  return bytes;
}

// One generation in a new session, and what can be told from that.
using Tell = std::function<Generation(Session &session)>;

Seen see(const Engine &engine, const Tell &tell) {
  Session session = engine.new_session();
  session.append(kPrompt);
  const Generation generation = tell(session);
  Seen seen;
  seen.text = generation.text;
  seen.tokens = generation.tokens;
  seen.finish = generation.finish;
  seen.prompt_tokens = generation.stats.prompt_tokens;
  seen.decode_steps = generation.stats.decode_steps;
  seen.decode_passes = generation.stats.decode_passes;
  seen.saved = file_of(session);
  seen.logits = session.logits();
  if (session.room() > 0) seen.next_text = session.generate(greedy(6)).text;
  return seen;
}

class Chaining : public testing::Test {
 protected:
  // On a device that chains, and on the CPU, which does not.
  Seen expect_the_same(const Tell &tell) {
    EngineOptions on_cpu = seedling_options();
    on_cpu.backend = "cpu";
    on_cpu.context = 64;
    if (!cpu_) cpu_.emplace(Engine::load(on_cpu));
    if (!chaining_) chaining_.emplace(Engine::load(elsewhere(journal)));
    const Seen expected = see(*cpu_, tell);
    EXPECT_EQ(see(*chaining_, tell), expected);
    return expected;
  }
  // Closes the device, and says how many passes were submitted ahead of time.
  uint64_t n_chained() {
    chaining_.reset();
    journal.expect_nothing_left();
    return journal.outputs().chained;
  }

  Journal journal;

 private:
  std::optional<Engine> cpu_, chaining_;
};

TEST_F(Chaining, EndsAfterAnyNumberOfTokens) {
  for (uint32_t n = 1; n <= kTokens; ++n) {
    SCOPED_TRACE(n);
    EXPECT_EQ(expect_the_same([&](Session &session) { return session.generate(greedy(n)); }).tokens.size(), n);
  }
  EXPECT_GT(n_chained(), 0u);
}

TEST_F(Chaining, EndsWhereTheCallbackOrTheStopTokenSaysSo) {
  for (uint32_t n = 1; n <= kTokens; ++n) {
    for (const bool refuses : {true, false}) {
      SCOPED_TRACE(n);
      const Seen seen = expect_the_same([&](Session &session) {
        std::stop_source stop;
        GenerateOptions options = greedy(40);
        options.cancel = stop.get_token();
        uint32_t n_texts = 0;
        return session.generate(options, [&](std::string_view) {
          if (++n_texts == n && !refuses) stop.request_stop();
          return n_texts < n || !refuses;
        });
      });
      EXPECT_EQ(seen.finish, FinishReason::kCancelled);
    }
  }
  EXPECT_GT(n_chained(), 0u);
}

TEST_F(Chaining, EndsBeforeAStopString) {
  const std::string text = expect_the_same([](Session &session) { return session.generate(greedy(kTokens)); }).text;
  for (size_t at = 0; at + 3 <= text.size(); ++at) {
    GenerateOptions options = greedy(40);
    options.stop = {text.substr(at, 3)};
    const Seen seen = expect_the_same([&](Session &session) { return session.generate(options); });
    EXPECT_EQ(seen.finish, FinishReason::kStopString);
  }
  EXPECT_GT(n_chained(), 0u);
}

// The likelier the end is made, the sooner it comes.
TEST_F(Chaining, EndsWhereTheModelEndsItsText) {
  std::set<size_t> lengths;
  for (float bias = 0; bias < 24; bias += 0.5f) {
    GenerateOptions options = greedy(40);
    options.sampling.logit_bias = {{4093, bias}};
    const Seen seen = expect_the_same([&](Session &session) { return session.generate(options); });
    if (seen.finish == FinishReason::kEndOfText) lengths.insert(seen.tokens.size());
  }
  EXPECT_GE(lengths.size(), 3u);
  EXPECT_GT(n_chained(), 0u);
}

TEST_F(Chaining, EndsWhereTheContextIsFull) {
  const Seen seen = expect_the_same([](Session &session) { return session.generate(greedy(100)); });
  EXPECT_EQ(seen.finish, FinishReason::kContextFull);
  EXPECT_EQ(seen.tokens.size(), 59u);
  EXPECT_EQ(n_chained(), 57u);
}

// The first token comes from the prompt's row; a pass for each but the last follows, and none behind that.
TEST_F(Chaining, CostsNoPassBehindAnEndThatIsKnown) {
  Engine::load(elsewhere(journal, {.function = "forward_submit"})).generate(kPrompt, greedy(10));
  journal.expect_nothing_left();
  EXPECT_EQ(journal.n_calls(), 10u);
  EXPECT_EQ(journal.outputs().chained, 8u);
}

TEST_F(Chaining, IsForChoicesThatTheDeviceMakesAlone) {
  const auto n_chained_with = [](const std::string &backend, const GenerateOptions &options) {
    Journal journal;
    Engine::load(failing_options({.backend = backend}, journal)).generate(kPrompt, options);
    return journal.outputs().chained;
  };
  GenerateOptions options = greedy(8);
  EXPECT_EQ(n_chained_with("failing", options), 0u) << "a processor of this host";
  EXPECT_EQ(n_chained_with("elsewhere", options), 6u);
  options.ignore_eos = true;
  EXPECT_EQ(n_chained_with("elsewhere", options), 6u);
  options.sampling.presence_penalty = 1;
  EXPECT_EQ(n_chained_with("elsewhere", options), 0u);
  options = greedy(8);
  options.grammar = "root ::= .*";
  EXPECT_EQ(n_chained_with("elsewhere", options), 0u);
  options = greedy(8);
  options.logprobs = 1;
  EXPECT_EQ(n_chained_with("elsewhere", options), 0u);
  options = greedy(8);
  options.lookup = true;
  EXPECT_EQ(n_chained_with("elsewhere", options), 0u);
  EXPECT_EQ(n_chained_with("elsewhere", GenerateOptions{.max_tokens = 8}), 0u);
}

class ChainingFails : public testing::TestWithParam<std::string> {};

// Until a run has no call left that could fail.
TEST_P(ChainingFails, AtAnyCallTheTextIsThatOfTheUndisturbedRun) {
  EngineOptions on_cpu = seedling_options();
  on_cpu.context = 64;
  const Generation expected = Engine::load(on_cpu).generate(kPrompt, greedy(kTokens));
  size_t n_failed = 0;
  for (bool failed = true; failed; n_failed += failed) {
    SCOPED_TRACE("failure at call " + std::to_string(n_failed + 1));
    Journal journal;
    {
      const Engine engine = Engine::load(elsewhere(journal, {.at = n_failed + 1, .status = GetParam()}));
      Session session = engine.new_session();
      session.append(kPrompt);
      std::string streamed;
      const Generation generation = session.generate(greedy(kTokens), [&](std::string_view text) {
        streamed += text;
        return true;
      });
      EXPECT_EQ(generation.text, expected.text);
      EXPECT_EQ(streamed, expected.text);
      EXPECT_EQ(generation.stats.decode_steps, expected.stats.decode_steps);
      failed = engine.backend().name == "cpu";
    }
    journal.expect_nothing_left();
    ASSERT_EQ(journal.warnings().size(), failed ? 1u : 0u);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_failed, 2 * kTokens);
}

// What fails behind the end of a text is not missed: the session goes on, on the device or on the CPU.
TEST_P(ChainingFails, BehindTheEndAndTheSessionGoesOn) {
  for (const char *function : {"forward_submit", "forward_wait"}) {
    for (size_t at = 2; at < 14; ++at) {
      SCOPED_TRACE(std::string(function) + " " + std::to_string(at));
      Journal journal;
      {
        const Engine engine = Engine::load(elsewhere(journal, {.at = at, .status = GetParam(), .function = function}));
        Session session = engine.new_session();
        session.append(kPrompt);
        std::string text;
        for (int i = 0; i < 6; ++i) {
          uint32_t n_texts = 0;
          text += session.generate(greedy(40), [&](std::string_view) { return ++n_texts < 4; }).text;
        }
        EXPECT_EQ(golden_greedy().text.rfind(kPrompt + text, 0), 0u) << text;
      }
      journal.expect_nothing_left();
    }
  }
}

TEST_P(ChainingFails, WhereTheCpuMayNotTakeOver) {
  for (const char *function : {"forward_submit", "forward_wait"}) {
    for (size_t at = 2; at < 8; ++at) {
      Journal journal;
      {
        EngineOptions options = elsewhere(journal, {.at = at, .status = GetParam(), .function = function});
        options.backend_strict = true;
        Session session = Engine::load(options).new_session();
        session.append(kPrompt);
        const Thrown thrown = thrown_by([&] { session.generate(greedy(kTokens)); });
        EXPECT_NE(thrown.message.find("elsewhere: injected into " + std::string(function)), std::string::npos);
        if (GetParam() != "lost") {
          std::vector<int32_t> expected = golden_greedy().tokens;
          expected.resize(5 + kTokens);
          session.generate(greedy(5 + kTokens - session.length()));
          EXPECT_EQ(std::vector<int32_t>(session.tokens().begin(), session.tokens().end()), expected);
        }
      }
      journal.expect_nothing_left();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryStatus, ChainingFails, testing::Values("oom", "lost", "internal"),
                         [](const auto &info) { return info.param; });

TEST(ChainingSessions, GenerateAtOnce) {
  Journal journal;
  std::string texts[3];
  {
    const Engine engine = Engine::load(elsewhere(journal));
    std::vector<std::jthread> threads;
    for (std::string &text : texts) threads.emplace_back([&] { text = engine.generate(kPrompt, greedy(40)).text; });
  }
  for (const std::string &text : texts) EXPECT_EQ(golden_greedy().text.rfind(kPrompt + text, 0), 0u) << text;
  journal.expect_nothing_left();
  EXPECT_EQ(journal.outputs().chained, 3 * 38u);
}

}  // namespace
}  // namespace bonsai
