// Requests that share batches: each says what it says alone, whatever goes on around it.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <limits>
#include <map>
#include <mutex>
#include <random>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/host/engine/seedling.h"

namespace bonsai {
namespace {

using Futures = std::vector<std::future<Generation>>;

const std::vector<std::string> &prompts() {
  static const std::vector<std::string> all = {
      "Once upon a time",
      "Once upon a time there was a king who had three daughters, and the youngest",
      "Once upon a time there was a king who had three daughters, and the eldest of them said to her father",
      "The wolf",
      "",
      "\"What does that matter to you?\" asked the old woman. \"I have",
      "In the middle of the forest stood a little house, and in it lived",
      "The fisherman went to the sea",
      "the King said to the King said to the King said",
      "a b c a b c a b c a b c"};
  return all;
}

EngineOptions options_for(const std::string &backend) {
  EngineOptions options = seedling_options();
  options.backend = backend;
  options.backend_strict = true;
  options.threads = backend == "cpu" ? 1 : 0;
  options.context = 256;
  return options;
}

// A request as alone in a session, computed once for each backend.
struct Wish {
  size_t prompt = 0;
  GenerateOptions options;
  bool operator<(const Wish &other) const { return key() < other.key(); }
  std::tuple<size_t, uint32_t, float, uint64_t> key() const {
    return {prompt, options.max_tokens, options.sampling.temperature,
            options.sampling.seed.value_or(0)};  // not: lookup
  }
};

class Alone {
 public:
  explicit Alone(const Engine &engine) : engine_(engine) {}
  const std::vector<int32_t> &operator()(const Wish &wish) {
    auto [found, added] = known_.try_emplace(wish);
    if (!added) return found->second;
    GenerateOptions options = wish.options;
    options.lookup = false;
    return found->second = engine_.generate(prompts()[wish.prompt], options).tokens;
  }

 private:
  const Engine &engine_;
  std::map<Wish, std::vector<int32_t>> known_;
};

Wish random_wish(std::mt19937 &random, uint32_t most_tokens) {
  Wish wish{.prompt = random() % prompts().size(), .options = greedy(1 + random() % most_tokens)};
  if (random() % 3 == 0) {
    wish.options.sampling = SamplingOptions();
    wish.options.sampling.seed = random() % 3;
  }
  wish.options.lookup = random() % 3 > 0;
  return wish;
}

TEST(BatchEngine, SaysWhatTheEngineSays) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine);
  const GoldenGreedy golden = golden_greedy();
  std::string streamed;
  const Generation generation = batch
                                    .submit("Once upon a time", greedy(static_cast<uint32_t>(golden.tokens.size()) - 5),
                                            [&](std::string_view text) {
                                              streamed += text;
                                              return true;
                                            })
                                    .get();
  EXPECT_EQ(generation.tokens, std::vector<int32_t>(golden.tokens.begin() + 5, golden.tokens.end()));
  EXPECT_EQ(streamed, generation.text);
  EXPECT_EQ(generation.finish, FinishReason::kLength);
  EXPECT_EQ(generation.stats.prompt_tokens, 5u);
  EXPECT_EQ(generation.stats.decode_steps, generation.tokens.size() - 1);
  EXPECT_GT(generation.stats.prompt_seconds, 0);
  EXPECT_GT(generation.stats.decode_seconds, 0);
}

TEST(BatchEngine, ContinuesAListOfPrompts) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine, {.max_sequences = 3});
  const std::vector<Generation> all = batch.generate(prompts(), greedy(8));
  ASSERT_EQ(all.size(), prompts().size());
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].text, engine.generate(prompts()[i], greedy(8)).text);
  EXPECT_EQ(batch.stats().running + batch.stats().waiting, 0u);
  const std::vector<std::vector<int32_t>> tokens = {engine.tokenize("The wolf"), {4093}};
  const std::vector<Generation> of_tokens = batch.generate_tokens(tokens, greedy(8));
  ASSERT_EQ(of_tokens.size(), 2u);
  EXPECT_EQ(of_tokens[1].text, engine.generate("", greedy(8)).text);
}

// A block is one text's, and the tokens that four texts need would lie in half of one.
TEST(BatchEngine, RunsAsManyTextsAtOnceAsItsTokensHoldWhateverTheBlocksHold) {
  EngineOptions options = seedling_options();
  options.backend = BONSAI_BINARY_DIR "/tests/libbonsai_blocks_of_4096.so";
  options.backend_strict = true;
  options.context = 512;
  const Engine engine = Engine::load(options);
  BatchEngine batch(engine, {.max_sequences = 4});
  constexpr uint32_t kTokens = 8;
  batch.generate(std::vector<std::string>{"Once upon", "A king", "The girl", "In the wood"}, greedy(kTokens));
  EXPECT_LT(batch.stats().steps, 2 * kTokens);
}

TEST(BatchEngine, EndsTextsAsTheEngineDoes) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine);
  GenerateOptions stop = greedy(60);
  stop.stop = {"the"};
  GenerateOptions ignore_eos = greedy(60);
  ignore_eos.ignore_eos = true;
  for (const GenerateOptions &options : {stop, ignore_eos, greedy(60), greedy(2000)}) {
    const Generation expected = engine.generate("The wolf", options);
    const Generation found = batch.submit("The wolf", options).get();
    EXPECT_EQ(found.text, expected.text);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_EQ(found.finish, expected.finish);
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// The same bytes alone and in company

struct Company {
  const char *name;
  const char *backend;
  BatchOptions options;
};

class InCompany : public testing::TestWithParam<Company> {};

// Some in one thread, some in another, some cancelled in the middle.
TEST_P(InCompany, EveryTextIsThatOfTheRequestAlone) {
  const Engine engine = Engine::load(options_for(GetParam().backend));
  Alone alone(engine);
  const bool slow = std::string(GetParam().name) == "ComposedByTheHost";
  const uint32_t n_requests = slow ? 12 : 60, most_tokens = slow ? 12 : 50;
  BatchEngine batch(engine, GetParam().options);
  std::mt19937 random(5);
  std::vector<std::pair<Wish, std::future<Generation>>> wanted;
  Futures cancelled;
  for (uint32_t i = 0; i < n_requests; ++i) {
    Wish wish = random_wish(random, most_tokens);
    if (i % 5 == 4) {
      const size_t most = random() % 40;
      cancelled.push_back(batch.submit(prompts()[wish.prompt], wish.options,
                                       [most, n = size_t{0}](std::string_view) mutable { return ++n < most; }));
    } else {
      wanted.emplace_back(wish, batch.submit(prompts()[wish.prompt], wish.options));
    }
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 10));
  }
  for (auto &[wish, future] : wanted) {
    const Generation generation = future.get();
    EXPECT_EQ(generation.tokens, alone(wish));
    EXPECT_EQ(generation.stats.decode_steps + (generation.finish != FinishReason::kEndOfText),
              generation.tokens.size());
    EXPECT_LE(generation.stats.decode_passes, generation.stats.decode_steps);
    EXPECT_TRUE(wish.options.lookup || generation.stats.proposed_tokens == 0);
  }
  for (auto &generation : cancelled) generation.get();
  const BatchStats stats = batch.stats();
  EXPECT_EQ(stats.preemptions > 0, GetParam().options.kv_tokens == 96);
  EXPECT_EQ(stats.reused_tokens > 0, GetParam().options.share_prefixes);
  EXPECT_EQ(stats.kv_blocks_free + stats.kv_blocks_kept, stats.kv_blocks);
}

INSTANTIATE_TEST_SUITE_P(
    BatchEngine, InCompany,
    testing::Values(Company{"OfMany", "cpu", {.max_sequences = 16}},
                    Company{"OfFew", "cpu", {.max_sequences = 3, .batch_tokens = 7}},
                    Company{"WithHardlyAnyCache", "cpu", {.max_sequences = 8, .batch_tokens = 24, .kv_tokens = 96}},
                    Company{"WithoutSharing", "cpu", {.max_sequences = 8, .kv_tokens = 512, .share_prefixes = false}},
                    Company{"ComposedByTheHost",
                            BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_template.so",
                            {.max_sequences = 4, .batch_tokens = 9, .kv_tokens = 256}},
                    Company{"LayerByLayer",
                            BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing_layers.so",
                            {.max_sequences = 4, .batch_tokens = 9, .kv_tokens = 96}}),
    [](const auto &info) { return info.param.name; });

// Each its own, and one none.
TEST(BatchEngine, GrammarsHoldInCompany) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine);
  const std::vector<std::string> grammars = {"root ::= \"yes\" | \"no\"", "", "root ::= [a-z ]+ \".\"",
                                             "root ::= \"yes\" | \"no\""};
  Futures all;
  std::vector<GenerateOptions> options;
  for (const std::string &grammar : grammars) {
    options.push_back(greedy(30));
    options.back().grammar = grammar;
    all.push_back(batch.submit("The wolf said", options.back()));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const Generation alone = engine.generate("The wolf said", options[i]), found = all[i].get();
    EXPECT_EQ(found.text, alone.text);
    EXPECT_EQ(found.finish, alone.finish);
  }
}

TEST(BatchEngine, ASharedPromptIsComputedOnce) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine, {.max_sequences = 4, .batch_tokens = 64});
  std::vector<int32_t> tokens(200);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((i * 7919 + 13) % 4000);
  Futures all;
  for (int32_t i = 0; i < 4; ++i) {
    std::vector<int32_t> own = tokens;
    own.push_back(100 + i);
    all.push_back(batch.submit_tokens(own, greedy(4)));
  }
  uint32_t computed = 0;
  for (auto &generation : all) computed += generation.get().stats.prompt_tokens;
  EXPECT_LT(computed, 201u + 3 * 33);  // the others at most a block and what comes behind it
  const Generation later = batch.submit_tokens(tokens, greedy(4)).get();
  EXPECT_LT(later.stats.prompt_tokens, 32u);
  Session session = engine.new_session();
  session.append_tokens(tokens);
  EXPECT_EQ(later.tokens, session.generate(greedy(4)).tokens);
}

// ---------------------------------------------------------------------------------------------------------------------
// Cancelling, and what goes wrong

TEST(BatchEngine, ACancelledRequestIsInNoFurtherStep) {
  BatchEngine batch(load_seedling(), {.max_sequences = 2});
  std::stop_source stop;
  GenerateOptions options = greedy(500);
  options.cancel = stop.get_token();
  size_t n_pieces = 0;
  const Generation generation = batch
                                    .submit("Once upon a time", options,
                                            [&](std::string_view) {
                                              if (++n_pieces == 3) stop.request_stop();
                                              return true;
                                            })
                                    .get();
  EXPECT_EQ(generation.finish, FinishReason::kCancelled);
  EXPECT_EQ(n_pieces, 3u);
  EXPECT_EQ(batch.stats().steps, generation.tokens.size());
}

TEST(BatchEngine, ARequestThatWaitsIsCancelledToo) {
  BatchEngine batch(load_seedling(), {.max_sequences = 1});
  std::stop_source stop_first, stop_second;
  GenerateOptions first = greedy(1000), second = greedy(1000);
  first.ignore_eos = true;
  first.cancel = stop_first.get_token();
  second.cancel = stop_second.get_token();
  auto running = batch.submit("The wolf", first);
  auto waiting = batch.submit("The wolf", second);
  stop_second.request_stop();
  const Generation generation = waiting.get();
  EXPECT_EQ(generation.finish, FinishReason::kCancelled);
  EXPECT_TRUE(generation.tokens.empty());
  stop_first.request_stop();
  EXPECT_EQ(running.get().finish, FinishReason::kCancelled);
}

// Whenever that is: before they come, while they wait, and while another is being cancelled.
TEST(BatchEngine, AnyNumberOfThoseThatWaitAreCancelled) {
  BatchEngine batch(load_seedling(), {.max_sequences = 1});
  GenerateOptions endless = greedy(1000);
  endless.ignore_eos = true;
  std::stop_source stop_first;
  endless.cancel = stop_first.get_token();
  auto running = batch.submit("The wolf", endless);
  std::vector<std::stop_source> stops(40);
  Futures waiting;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (i % 4 == 0) stops[i].request_stop();
    endless.cancel = stops[i].get_token();
    waiting.push_back(batch.submit("The wolf", endless));
    if (i % 4 == 1) stops[i].request_stop();
  }
  for (size_t i = 2; i < stops.size(); i += 4) stops[i].request_stop();
  for (size_t i = 0; i < stops.size(); ++i) {
    if (i % 4 == 3) continue;
    const Generation generation = waiting[i].get();
    EXPECT_EQ(generation.finish, FinishReason::kCancelled);
    EXPECT_TRUE(generation.tokens.empty());
  }
  stop_first.request_stop();
  EXPECT_EQ(running.get().finish, FinishReason::kCancelled);
  for (size_t i = 3; i < stops.size(); i += 4) {
    stops[i].request_stop();
    EXPECT_EQ(waiting[i].get().finish, FinishReason::kCancelled);
  }
}

TEST(BatchEngine, RequestsEndAsCancelledWithIt) {
  Futures all;
  {
    BatchEngine batch(load_seedling(), {.max_sequences = 2});
    GenerateOptions options = greedy(1000);
    options.ignore_eos = true;
    for (int i = 0; i < 5; ++i) all.push_back(batch.submit("The wolf", options));
  }
  for (auto &generation : all) EXPECT_EQ(generation.get().finish, FinishReason::kCancelled);
}

TEST(BatchEngine, ACallbackThatThrowsHarmsItsOwnRequestOnly) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine);
  auto other = batch.submit("The wolf", greedy(20));
  auto throwing = batch.submit("The wolf", greedy(20), [](std::string_view) -> bool { throw 7; });
  EXPECT_THROW(throwing.get(), int);
  EXPECT_EQ(other.get().text, engine.generate("The wolf", greedy(20)).text);
}

// Promise: who waits for many and gets an error has left nothing behind that still computes. The first prompt is a
// long one, in steps of few tokens; a bias makes the choice behind the second fail.
TEST(BatchEngine, OneThatFailsStopsTheOthersOfItsList) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine, {.max_sequences = 2, .batch_tokens = 4});
  const std::vector<std::vector<int32_t>> prompts = {std::vector<int32_t>(900, 7), {5, 5}};
  GenerateOptions options = greedy(20);
  constexpr float kMost = std::numeric_limits<float>::max();
  options.sampling.frequency_penalty = -kMost;
  options.sampling.logit_bias = {{5, kMost}};
  const Thrown failed = thrown_by([&] { batch.generate_tokens(prompts, options); });
  EXPECT_EQ(failed.message, "the model produced infinite logits, with the penalties and biases asked for");
  const BatchStats stats = batch.stats();
  EXPECT_EQ(stats.running + stats.waiting, 0u);
  EXPECT_LT(stats.computed_tokens, 900u);
}

TEST(BatchEngine, ManyThreadsMaySubmit) {
  const Engine engine = load_seedling();
  const std::string expected = engine.generate("The wolf", greedy(10)).text;
  BatchEngine batch(engine, {.max_sequences = 4});
  std::atomic<int> n_right = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int j = 0; j < 5; ++j) {
          n_right += batch.submit("The wolf", greedy(10)).get().text == expected;
          batch.stats();
        }
      });
    }
  }
  EXPECT_EQ(n_right, 20);
}

TEST(BatchEngine, AHigherPriorityGoesFirst) {
  BatchEngine batch(load_seedling(), {.max_sequences = 1});
  std::mutex mutex;
  std::string order;
  const auto note = [&](char who) {
    return [&, who](std::string_view) {
      const std::lock_guard lock(mutex);
      if (order.empty() || order.back() != who) order += who;
      return true;
    };
  };
  GenerateOptions ten = greedy(10);
  ten.ignore_eos = true;
  std::future<Generation> urgent, late;
  auto first = batch.submit("The wolf", ten, [&](std::string_view text) {
    if (!urgent.valid()) {
      late = batch.submit("The fisherman", ten, note('l'));
      urgent = batch.submit("The king", ten, note('u'), 1);
    }
    return note('f')(text);
  });
  first.get();
  late.get();
  urgent.get();
  EXPECT_EQ(order, "fufl");
}

TEST(BatchEngineRefuses, WhatCanNeverBeServed) {
  EngineOptions options = seedling_options();
  options.context = 100;
  const Engine engine = Engine::load(options);
  BatchEngine batch(engine, {.max_sequences = 1, .kv_tokens = 64});
  const Thrown full = thrown_by([&] { batch.submit_tokens(std::vector<int32_t>(64, 1)); });
  EXPECT_EQ(full.kind, ErrorKind::kContextFull);
  EXPECT_EQ(full.message,
            "context full: a prompt of 64 tokens leaves no room to continue (context 100, KV cache for 64)");
  EXPECT_EQ(batch.submit_tokens(std::vector<int32_t>(63, 1), greedy(5)).get().finish, FinishReason::kContextFull);
  EXPECT_EQ(thrown_by([&] { batch.submit_tokens(std::vector<int32_t>{4096}); }).message,
            "token id 4096 is outside the vocabulary of 4096");
  EXPECT_EQ(thrown_by([&] { batch.submit_tokens({}); }).message, "no tokens: expected at least one");
  EXPECT_EQ(thrown_by([&] { batch.submit("x", greedy(0)); }).message, "max_tokens: expected at least 1, found 0");
  EXPECT_EQ(thrown_by([&] { batch.submit("\xff"); }).kind, ErrorKind::kInvalidArgument);
  // One bad prompt, and none is taken.
  EXPECT_EQ(thrown_by([&] {
              batch.generate(std::vector<std::string>{"good", "\xff"});
            }).kind,
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(batch.stats().running + batch.stats().waiting, 0u);
}

TEST(BatchEngineRefuses, OptionsThatMeanNothing) {
  const Engine engine = load_seedling();
  EXPECT_EQ(thrown_by([&] { BatchEngine(engine, {.max_sequences = 0}); }).message,
            "max_sequences: expected at least 1, found 0");
  EXPECT_EQ(thrown_by([&] { BatchEngine(engine, {.max_sequences = 8, .batch_tokens = 7}); }).message,
            "batch_tokens: expected at least one for each of max_sequences (8), found 7");
  EXPECT_EQ(thrown_by([&] { BatchEngine(engine, {.kv_tokens = 1}); }).message,
            "kv_tokens: expected 0 or at least 2, a prompt's and one behind it, found 1");
}

// Promise: whatever numbers come, what is thrown is an EngineError that says which of them is too large; or how much
// memory there would have to be.
TEST(BatchEngineRefuses, SizesThatNoMachineHas) {
  constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
  const Engine engine = load_seedling();
  const Thrown too_many = thrown_by([&] { BatchEngine(engine, {.max_sequences = kMost, .batch_tokens = kMost}); });
  EXPECT_EQ(too_many.kind, ErrorKind::kInvalidArgument);
  EXPECT_EQ(too_many.message, "batch_tokens: expected at most 1048576, found 4294967295");
  const std::string message = thrown_by([&] { BatchEngine(engine, {.kv_tokens = kMost}); }).message;
  EXPECT_TRUE(message.starts_with("cpu: host memory: ")) << message;
}

TEST(BatchEngine, TellsOfTheEndWhereNobodyWaits) {
  const Engine engine = Engine::load(options_for("cpu"));
  const std::vector<int32_t> prompt = engine.tokenize("The wolf");
  std::string text;
  std::vector<std::string> texts_at_the_end;
  std::vector<Generation> generations;
  {
    BatchEngine batch(engine);
    const auto done = [&](Generation generation, std::exception_ptr error) {
      EXPECT_FALSE(error);
      texts_at_the_end.push_back(text);
      generations.push_back(std::move(generation));
    };
    const auto callback = [&](std::string_view piece) {
      text += piece;
      return true;
    };
    std::promise<void> first;
    batch.start_tokens(prompt, greedy(6), callback, [&](Generation generation, std::exception_ptr error) {
      done(std::move(generation), error);
      first.set_value();
    });
    first.get_future().wait();
    GenerateOptions endless = greedy(1000);
    endless.ignore_eos = true;
    batch.start_tokens(prompt, endless, {}, done);
  }
  ASSERT_EQ(generations.size(), 2u);  // the second ended with the engine
  EXPECT_EQ(texts_at_the_end[0], generations[0].text);
  EXPECT_EQ(generations[0].tokens.size(), 6u);
  EXPECT_EQ(generations[1].finish, FinishReason::kCancelled);
}

TEST(BatchEngine, TellsOfAnErrorWhereNobodyWaits) {
  const Engine engine = Engine::load(options_for("cpu"));
  BatchEngine batch(engine);
  std::promise<std::string> said;
  const auto callback = [](std::string_view) -> bool { throw std::runtime_error("enough"); };
  batch.start_tokens(engine.tokenize("The wolf"), greedy(6), callback, [&](Generation, std::exception_ptr error) {
    try {
      if (error) std::rethrow_exception(error);
      said.set_value("no error");
    } catch (const std::runtime_error &thrown) {
      said.set_value(thrown.what());
    }
  });
  EXPECT_EQ(said.get_future().get(), "enough");
  EXPECT_EQ(thrown_by([&] { batch.start_tokens({}, {}, {}, {}); }).kind, ErrorKind::kInvalidArgument);
}

// ---------------------------------------------------------------------------------------------------------------------
// A backend that fails in the middle

struct Failure {
  size_t at;
  const char *status, *function;
};

class BatchFailOver : public testing::TestWithParam<Failure> {};

TEST_P(BatchFailOver, AllRequestsGoOnWithTheCpu) {
  const Engine undisturbed = Engine::load(options_for("cpu"));
  EngineOptions options = options_for(BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so");
  options.backend_strict = false;
  options.threads = 1;
  options.backend_options = {{"fail.at", std::to_string(GetParam().at)},
                             {"fail.status", GetParam().status},
                             {"fail.function", GetParam().function}};
  std::mutex mutex;
  std::vector<std::string> warnings;
  std::string last_words;
  options.log = [&](LogLevel level, std::string_view line) {
    const std::lock_guard lock(mutex);
    if (level == LogLevel::kWarning) warnings.emplace_back(line);
    if (line.find("left behind") != line.npos) last_words = line;
  };
  {
    const Engine engine = Engine::load(options);
    BatchEngine batch(engine, {.max_sequences = 4, .batch_tokens = 32, .kv_tokens = 512});
    for (int round = 0; round < 2; ++round) {  // the second shares what the first has computed
      const std::vector<Generation> all = batch.generate(prompts(), greedy(12));
      for (size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(all[i].text, undisturbed.generate(prompts()[i], greedy(12)).text);
    }
    EXPECT_EQ(engine.backend().name, "cpu");
  }
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("going on with the CPU"), std::string::npos) << warnings[0];
  EXPECT_TRUE(last_words.ends_with("left behind: 0 weights, 0 sessions; rules broken: 0")) << last_words;
}

INSTANTIATE_TEST_SUITE_P(Anywhere, BatchFailOver,
                         testing::Values(Failure{1, "internal", "forward_wait"}, Failure{9, "lost", "forward_wait"},
                                         Failure{14, "oom", "forward_submit"}, Failure{2, "internal", "session_create"},
                                         Failure{1, "lost", "kv_copy"}, Failure{2, "internal", "kv_copy"}),
                         [](const auto &info) {
                           return std::string(info.param.function) + std::to_string(info.param.at) + info.param.status;
                         });

TEST(BatchFailOver, OfAStrictBackendFailsTheRequests) {
  EngineOptions options = options_for(BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so");
  options.backend_options = {{"fail.at", "3"}, {"fail.function", "forward_wait"}};
  const Engine engine = Engine::load(options);
  BatchEngine batch(engine);
  const Thrown thrown = thrown_by([&] { batch.generate(prompts(), greedy(20)); });
  EXPECT_EQ(thrown.kind, ErrorKind::kBackend);
  EXPECT_EQ(thrown.message,
            "failing: injected into forward_wait (internal error); the CPU may not take over from a "
            "strictly chosen backend");
  EXPECT_EQ(batch.stats().running + batch.stats().waiting, 0u);
  EXPECT_EQ(batch.submit("The wolf", greedy(5)).get().tokens.size(), 5u);  // it failed once
}

// A copy that failed has left its block as it was: nobody may take it for what should be in it. The prompts differ
// behind their first 62 tokens, and there is room for one of them: the block that is copied from has to go.
TEST(BatchFailOver, KeepsNothingThatWasNotCopied) {
  const Engine right = Engine::load(options_for("cpu"));
  std::vector<int32_t> first = right.tokenize(
      "Once upon a time there was a king who had three daughters, and the youngest of them was so fair that the sun "
      "itself, which has seen so much, was astonished whenever it shone on her face. Close by the castle lay a great "
      "dark forest, and under an old lime tree in the forest was a well");
  ASSERT_GE(first.size(), 63u);
  first.resize(63);
  std::vector<int32_t> second(first.begin(), first.begin() + 62);
  for (int32_t i = 0; i < 40; ++i) second.push_back(100 + 7 * i);
  const BatchOptions narrow = {.max_sequences = 2, .batch_tokens = 64, .kv_tokens = 128};
  GenerateOptions options = greedy(24);
  options.logprobs = 1;
  const auto say = [&](BatchEngine &batch) {
    const Generation generation = batch.submit_tokens(second, options).get();
    return std::pair(generation.tokens, generation.logprobs.at(0).chosen.logprob);
  };
  BatchEngine undisturbed(right, narrow);
  const auto expected = say(undisturbed);

  EngineOptions failing = options_for(BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so");
  failing.threads = 1;
  failing.backend_options = {{"fail.at", "2"}, {"fail.function", "kv_copy"}};  // the first is the batch's own trial
  const Engine engine = Engine::load(failing);
  BatchEngine batch(engine, narrow);
  batch.submit_tokens(first, greedy(1)).get();
  EXPECT_EQ(thrown_by([&] { say(batch); }).kind, ErrorKind::kBackend);
  EXPECT_EQ(batch.stats().kv_blocks_kept, 0u);
  EXPECT_EQ(say(batch), expected);
  EXPECT_EQ(say(batch), expected);
}

}  // namespace
}  // namespace bonsai
