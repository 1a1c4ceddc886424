// A backend that fails costs time and nothing else: the CPU goes on where it stopped, byte for byte, and nothing of the
// failed device is left behind. The backends that fail are built in tests/host/failing_backend.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <stop_token>
#include <thread>

#include "tests/host/backend/fake_directory.h"
#include "tests/host/engine/failing.h"

namespace bonsai {
namespace {

constexpr uint32_t kTokens = 12;

// Sampled with a fixed seed: a sampler that started anew in the middle would show.
GenerateOptions sampled(uint32_t max_tokens = kTokens) {
  GenerateOptions options;
  options.max_tokens = max_tokens;
  options.sampling.seed = 11;
  return options;
}

struct Story {
  std::string text, streamed;
  GenerationStats stats;
  BackendInfo backend;
};

Story tell(const EngineOptions &options) {
  const Engine engine = Engine::load(options);
  std::string streamed;
  const Generation generation = engine.generate("Once upon a time", sampled(), [&](std::string_view text) {
    streamed += text;
    return true;
  });
  return {generation.text, streamed, generation.stats, engine.backend()};
}

const Story &undisturbed() {
  static const Story story = [] {
    EngineOptions options = seedling_options();
    options.backend = "cpu";
    return tell(options);
  }();
  return story;
}

void expect_undisturbed(const Story &story) {
  EXPECT_EQ(story.text, undisturbed().text);
  EXPECT_EQ(story.streamed, undisturbed().text);
  EXPECT_EQ(story.stats.prompt_tokens, 5u);
  EXPECT_EQ(story.stats.decode_steps, kTokens - 1);
}

struct BackendAndStatus {
  const char *backend, *status;
};

class FailOver : public testing::TestWithParam<BackendAndStatus> {};

// Loading, uploading, making the session, the prompt, each step: until a run has no call left that could fail.
TEST_P(FailOver, AtAnyCallTheTextIsThatOfTheUndisturbedRun) {
  size_t n_failed = 0;
  for (bool failed = true; failed; n_failed += failed) {
    const size_t at = n_failed + 1;
    SCOPED_TRACE("failure at call " + std::to_string(at));
    Journal journal;
    const Story story =
        tell(failing_options({.at = at, .status = GetParam().status, .backend = GetParam().backend}, journal));
    failed = story.backend.name == "cpu";
    expect_undisturbed(story);
    journal.expect_nothing_left();
    ASSERT_EQ(journal.warnings().size(), failed ? 1u : 0u);
    for (const std::string &warning : journal.warnings())
      EXPECT_NE(warning.find("injected into "), warning.npos) << warning;
    if (HasFailure()) return;
  }
  EXPECT_GT(n_failed, 2 * kTokens);
}

INSTANTIATE_TEST_SUITE_P(EveryStatus, FailOver,
                         testing::Values(BackendAndStatus{"failing", "oom"}, BackendAndStatus{"failing", "lost"},
                                         BackendAndStatus{"failing", "internal"}),
                         [](const auto &info) { return std::string(info.param.status); });
INSTANTIATE_TEST_SUITE_P(LayerByLayer, FailOver, testing::Values(BackendAndStatus{"failing_layers", "lost"}),
                         [](const auto &info) { return std::string(info.param.status); });

// The surroundings may be others by then: the directory in which the program started, and what lies there.
TEST(FailOverLater, TheCpuIsTheOneThatWasThereWhenTheModelWasLoaded) {
  const test::FakeDirectory directory;
  const std::filesystem::path start = std::filesystem::current_path();
  std::filesystem::copy_file(BONSAI_BINARY_DIR "/lib/bonsai/libbonsai_cpu.so", directory.path() / "libbonsai_cpu.so");
  std::filesystem::current_path(directory.path());
  setenv("BONSAI_BACKEND_PATH", ".", 1);
  Journal journal;
  std::string used;
  EngineOptions options = failing_options({5, "lost", "forward_wait", "failing"}, journal);
  options.log = [&used](LogLevel, std::string_view line) {
    if (line.starts_with("using cpu ")) used = line;
  };
  const Engine engine = Engine::load(options);
  unsetenv("BONSAI_BACKEND_PATH");
  std::filesystem::current_path(start);
  std::filesystem::remove(directory.path() / "libbonsai_cpu.so");
  EXPECT_EQ(engine.generate("Once upon a time", sampled()).text, undisturbed().text);
  EXPECT_NE(used.find(" from " + directory.text() + "/libbonsai_cpu.so, "), used.npos) << used;
}

// Whatever status a backend thinks fit for it, and where it does not know that it failed.
TEST(FailOverWhy, AnyStatusAndNumbersThatAreNone) {
  struct Case {
    Failure failure;
    std::string reason;
  };
  const std::string spoilt = ": NaN or infinity among what it computed, expected numbers";
  const Case cases[] = {
      {{4, "invalid", "forward_wait", "failing"}, "failing: injected into forward_wait (invalid argument)"},
      {{4, "unsupported", "forward_submit", "failing"}, "failing: injected into forward_submit (unsupported)"},
      {{3, "invalid", "layer_encode", "failing_layers"},
       "failing_layers: injected into layer_encode (invalid argument)"},
      {{2, "spoilt", "session_create", "failing"}, "failing: session_create succeeded without a session"},
      {{1, "spoilt", "forward_wait", "failing"}, "failing" + spoilt},
      {{5, "spoilt", "forward_wait", "failing"}, "failing" + spoilt},
      {{5, "spoilt", "forward_wait", "elsewhere"}, "elsewhere" + spoilt},
      {{5, "spoilt", "forward_wait", "whole_rows"}, "whole_rows" + spoilt},
      {{5, "spoilt", "lm_head", "failing_layers"}, "failing_layers" + spoilt},
      {{5, "least", "forward_wait", "failing"}, "failing" + spoilt},
      {{5, "least", "forward_wait", "whole_rows"}, "whole_rows" + spoilt},
      {{5, "least", "lm_head", "failing_layers"}, "failing_layers" + spoilt},
      {{1, "idle", "lm_head", "failing_layers"}, "failing_layers" + spoilt},
      {{5, "idle", "lm_head", "failing_layers"},
       "failing_layers: selected token -1, which is outside the vocabulary of 4096"},
      {{5, "unscored", "lm_head", "failing_layers"}, "failing_layers" + spoilt},
      {{5, "unscored", "forward_submit", "failing"}, "failing" + spoilt},
      {{26, "idle", "gemv", "failing_gemv"}, "failing_gemv" + spoilt},
      {{150, "idle", "gemv", "failing_gemv"}, "failing_gemv" + spoilt},
      {{2, "thrown", "session_create", "failing"},
       "failing: session_create threw an exception: thrown by session_create"},
      {{4, "thrown", "forward_submit", "failing"},
       "failing: forward_submit threw an exception: thrown by forward_submit"},
      {{150, "thrown", "gemv", "failing_gemv"}, "failing_gemv: gemv threw an exception: thrown by gemv"}};
  for (const auto &[failure, reason] : cases) {
    SCOPED_TRACE(failure.backend + ": " + failure.status + " in " + failure.function);
    Journal journal;
    {
      const Engine engine = Engine::load(failing_options(failure, journal));
      Session first = engine.new_session();  // on the spare executor
      Session session = engine.new_session();
      session.append("Once upon a time");
      const Generation generation = session.generate(sampled());
      EXPECT_EQ(generation.text, undisturbed().text);
      EXPECT_EQ(engine.backend().name, "cpu");
      EXPECT_EQ(engine.backend().failed_over, reason);
    }
    journal.expect_nothing_left();
    ASSERT_EQ(journal.warnings().size(), 1u);
    EXPECT_EQ(journal.warnings()[0], "backend '" + failure.backend + "' failed, going on with the CPU: " + reason);
  }
}

// What the CPU says by itself.
std::string told_by_the_cpu(const GenerateOptions &options) {
  EngineOptions on_cpu = seedling_options();
  on_cpu.backend = "cpu";
  return Engine::load(on_cpu).generate("Once upon a time", options).text;
}

// Has a backend fail while it goes on with a text, which the CPU has to end as it would have begun it; why that took
// over.
std::string why_the_cpu_took_over(const Failure &failure, const GenerateOptions &options) {
  Journal journal;
  const Engine engine = Engine::load(failing_options(failure, journal));
  EXPECT_EQ(engine.generate("Once upon a time", options).text, told_by_the_cpu(options));
  return engine.backend().failed_over;
}

GenerateOptions under_a_grammar() {
  GenerateOptions options = sampled(40);
  options.grammar = "root ::= \" yes \" [a-z]{1,8} \".\"";
  return options;
}

// What is added to logits, but forbids none, is no reason for a row without a token; nor is a grammar, which leaves
// one.
TEST(FailOverWhy, NothingAboveMinusInfinityWhereNoTokenIsForbidden) {
  const std::string why = "failing: NaN or infinity among what it computed, expected numbers";
  GenerateOptions penalised = sampled();
  penalised.sampling.repetition_penalty = 1.1f;
  penalised.ignore_eos = false;
  EXPECT_EQ(why_the_cpu_took_over({5, "least", "forward_wait", "failing"}, penalised), why);
  EXPECT_EQ(why_the_cpu_took_over({3, "least", "forward_wait", "failing"}, under_a_grammar()), why);
}

// Against the rules, and at the end: nobody is there to be told.
TEST(FailOverWhy, NotForWhatIsThrownAtTheEnd) {
  for (const char *function : {"session_destroy", "weight_free", "device_close"}) {
    Journal journal;
    {
      const Engine engine = Engine::load(failing_options({1, "thrown", function, "failing"}, journal));
      EXPECT_EQ(engine.generate("Once upon a time", sampled()).text, undisturbed().text);
      Session first = engine.new_session(), second = engine.new_session();
    }
    journal.expect_nothing_left();
    EXPECT_EQ(journal.warnings().size(), 0u);
  }
}

// A grammar is kept, whatever a device makes of its mask.
TEST(FailOverWhy, ATokenThatTheGrammarExcludes) {
  for (const auto &[function, backend] : {std::pair("forward_wait", "failing"), {"lm_head", "failing_layers"}}) {
    const std::string why = why_the_cpu_took_over({3, "forbidden", function, backend}, under_a_grammar());
    EXPECT_EQ(why.find(std::string(backend) + ": selected token 0, which the mask excludes"), 0u) << why;
  }
}

// Nor is a token said that its bias forbids.
TEST(FailOverWhy, ATokenThatABiasExcludes) {
  GenerateOptions options = sampled();
  options.sampling.logit_bias = {{7, 1}, {300, -std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(why_the_cpu_took_over({3, "forbidden", "forward_wait", "failing"}, options),
            "failing: selected token 300, which an adjustment excludes");
}

// A token that stands twice among the likeliest would be chosen twice as often; and where their logits rise, top-p
// keeps the wrong ones.
TEST(FailOverWhy, TheLikeliestTokensThatAreNoSuchThing) {
  for (const auto &[function, backend] : {std::pair("forward_wait", "failing"), {"lm_head", "failing_layers"}}) {
    const std::string twice = why_the_cpu_took_over({3, "twice", function, backend}, sampled());
    EXPECT_TRUE(twice.starts_with(std::string(backend) + ": selected token ") && twice.ends_with(" twice")) << twice;
    const std::string rising = why_the_cpu_took_over({3, "rising", function, backend}, sampled());
    EXPECT_TRUE(rising.ends_with(" with logit 1.5 behind one with 1, expected falling logits")) << rising;
  }
}

// A device holds what a batch needs, if not a session in reserve beside it.
TEST(FailOverOfBatches, NotWhereRoomForASessionIsKept) {
  Journal journal;
  EngineOptions options = failing_options({}, journal);
  options.backend_options.emplace_back("fail.sessions", "1");
  {
    const Engine engine = Engine::load(options);
    {
      BatchEngine batch(engine);
      EXPECT_EQ(batch.backend().name, "failing");
      EXPECT_EQ(batch.backend().failed_over, "");
      EXPECT_EQ(batch.submit("Once upon a time", greedy(8)).get().text, ", in the middle of the forest,");
      EXPECT_EQ(journal.warnings().size(), 0u);
      // Beside it there is no room for a session.
      EXPECT_EQ(engine.generate("Once upon a time", greedy(8)).text, ", in the middle of the forest,");
      ASSERT_EQ(journal.warnings().size(), 1u);
    }
    // One that a session left behind gives way, too.
    engine.generate("Once upon a time", greedy(2));
    EXPECT_EQ(engine.embed("Once upon a time").size(), engine.model().embedding);
    EXPECT_EQ(engine.backend().name, "failing");
    EXPECT_EQ(journal.warnings().size(), 1u);
  }
  journal.expect_nothing_left();
}

TEST(FailOverOfBatches, IsToldOfTheBatchItself) {
  Journal journal;
  EngineOptions options = failing_options({}, journal);
  options.backend_options.emplace_back("fail.sessions", "1");
  const Engine engine = Engine::load(options);
  Session session = engine.new_session();
  const BatchEngine batch(engine);
  EXPECT_EQ(batch.backend().name, "cpu");
  EXPECT_EQ(batch.backend().failed_over, "failing: no room for another session (out of memory)");
  EXPECT_EQ(engine.backend().name, "failing");
  EXPECT_EQ(engine.backend().failed_over, "");
}

TEST(FailOverTells, WhatHappened) {
  Journal journal;
  const EngineOptions options = failing_options({.at = 6, .status = "lost", .function = "forward_wait"}, journal);
  const std::string reason = "failing: injected into forward_wait (device lost)";
  const Engine engine = Engine::load(options);
  EXPECT_EQ(engine.backend().name, "failing");
  EXPECT_EQ(engine.backend().failed_over, "");
  EXPECT_EQ(engine.generate("Once", sampled(3)).stats.failed_over, "");
  Session session = engine.new_session();
  session.append("Once");
  EXPECT_EQ(session.generate(sampled(5)).stats.failed_over, reason);
  EXPECT_EQ(session.generate(sampled(5)).stats.failed_over, "");  // it had happened before
  EXPECT_EQ(engine.backend().name, "cpu");
  EXPECT_EQ(engine.backend().failed_over, reason);
  EXPECT_GT(engine.memory().session_bytes, 0u);
  ASSERT_EQ(journal.warnings().size(), 1u);
  EXPECT_EQ(journal.warnings()[0], "backend 'failing' failed, going on with the CPU: " + reason);
}

// The device is gone as soon as the last session that it had has moved, though the engine lives on.
TEST(FailOverFrees, TheDeviceThatNoSessionNeeds) {
  Journal journal;
  const Engine engine = Engine::load(failing_options({.at = 2, .function = "forward_wait"}, journal));
  Session session = engine.new_session();
  session.append("Once");
  session.generate(sampled(5));
  journal.expect_nothing_left();
  EXPECT_EQ(engine.new_session().length(), 0u);
}

// A session that does not fit moves alone: the others keep the device, which still serves them.
TEST(FailOverMoves, OnlyTheSessionThatFailed) {
  Journal journal;
  {
    const Engine engine =
        Engine::load(failing_options({.at = 2, .status = "oom", .function = "session_create"}, journal));
    Session first = engine.new_session();  // the session that loading made
    Session second = engine.new_session();
    Session third = engine.new_session();
    EXPECT_EQ(engine.backend().name, "failing");
    for (Session *session : {&first, &second, &third}) {
      session->append("Once upon a time");
      const Generation generation = session->generate(sampled());
      EXPECT_EQ(generation.text, undisturbed().text);
      EXPECT_EQ(generation.stats.failed_over, "");
    }
  }
  journal.expect_nothing_left();
  EXPECT_EQ(journal.warnings(), (std::vector<std::string>{"backend 'failing' cannot take this on, the CPU does: "
                                                          "failing: injected into session_create (out of memory)"}));
  EXPECT_GT(journal.n_calls(), 1u);
}

// Neither is the device's end: what a batch asked for, and what one embedding could not get.
TEST(FailOverMoves, OnlyWhatAskedForTooMuch) {
  Journal journal;
  {
    EngineOptions options = failing_options({}, journal);
    options.backend_options.emplace_back("fail.sessions", "1");
    const Engine engine = Engine::load(options);
    std::vector<float> beside_a_session;
    {
      const Session session = engine.new_session();
      beside_a_session = engine.embed("The wolf");
      EXPECT_EQ(journal.warnings().size(), 1u);
    }
    EXPECT_EQ(engine.embed("The wolf"), beside_a_session);
    constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max();
    EXPECT_EQ(thrown_by([&] { BatchEngine(engine, {.kv_tokens = kMost}); }).kind, ErrorKind::kBackend);
    EXPECT_EQ(engine.backend().name, "failing");
    EXPECT_EQ(BatchEngine(engine).submit("Once upon a time", sampled()).get().text, undisturbed().text);
  }
  journal.expect_nothing_left();
  EXPECT_EQ(journal.warnings().size(), 2u);
}

// A lost device is not called again, on behalf of whichever session.
TEST(FailOverMoves, EverySessionOfALostDevice) {
  Journal journal;
  {
    const Engine engine =
        Engine::load(failing_options({.at = 4, .status = "lost", .function = "forward_submit"}, journal));
    Session first = engine.new_session(), second = engine.new_session();
    first.append("Once upon a time");
    second.append("Once upon a time");
    const std::string begun = second.generate(sampled(2)).text;
    EXPECT_EQ(first.generate(sampled()).text, undisturbed().text);
    EXPECT_EQ(engine.backend().name, "cpu");
    EXPECT_NE(second.generate(sampled(2)).stats.failed_over, "");
    second.truncate(5);
    EXPECT_EQ(second.generate(sampled()).text, undisturbed().text);
    EXPECT_EQ(undisturbed().text.rfind(begun, 0), 0u);
  }
  journal.expect_nothing_left();
  EXPECT_EQ(journal.warnings().size(), 1u);
}

TEST(FailOverMoves, SessionsThatGenerateAtOnce) {
  undisturbed();
  for (const char *status : {"oom", "lost", "internal"}) {
    for (size_t at = 1; at < 40; at += 6) {
      SCOPED_TRACE(std::string(status) + " at forward_wait " + std::to_string(at));
      Journal journal;
      std::string texts[3];
      {
        const Engine engine =
            Engine::load(failing_options({.at = at, .status = status, .function = "forward_wait"}, journal));
        std::vector<std::jthread> threads;
        for (std::string &text : texts) {
          threads.emplace_back([&] { text = engine.generate("Once upon a time", sampled()).text; });
        }
      }
      for (const std::string &text : texts) EXPECT_EQ(text, undisturbed().text);
      journal.expect_nothing_left();
      EXPECT_EQ(journal.warnings().size(), at <= 3 * kTokens ? 1u : 0u);
    }
  }
}

// A prompt of more than one batch is computed anew in pieces, and so are rows of logits.
TEST(FailOverRebuilds, ALongPrompt) {
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 520; ++i) prompt.push_back((i * 7919 + 13) % 4000);
  const auto tell_on = [&](EngineOptions options) {
    options.context = 530;
    Session session = Engine::load(options).new_session();
    session.append_tokens(prompt);
    return session.generate(greedy(4)).tokens;
  };
  const std::vector<int32_t> expected = tell_on(seedling_options());
  for (const size_t at : {2, 4}) {
    Journal journal;
    EXPECT_EQ(tell_on(failing_options({.at = at, .function = "forward_wait"}, journal)), expected);
    EXPECT_EQ(journal.warnings().size(), 1u);
  }
}

TEST(FailOverRebuilds, TheRowsOfAnEvaluation) {
  const std::vector<int32_t> tokens(50, 258);  // two batches of rows
  const auto evaluate_on = [&](const EngineOptions &options) {
    Session session = Engine::load(options).new_session();
    session.append("Once upon a time");
    std::vector<float> rows;
    session.evaluate(tokens, [&](size_t index, std::span<const float> logits) {
      EXPECT_EQ(index * logits.size(), rows.size());
      rows.insert(rows.end(), logits.begin(), logits.end());
    });
    return rows;
  };
  const std::vector<float> expected = evaluate_on(seedling_options());
  for (const size_t at : {1, 2, 3}) {
    Journal journal;
    EXPECT_EQ(evaluate_on(failing_options({.at = at, .function = "forward_wait"}, journal)), expected);
    EXPECT_EQ(journal.warnings().size(), 1u);
  }
}

// A backend whose arithmetic is another: what it wrote stays, and what follows is what the CPU says to that.
TEST(FailOverRebuilds, AfterABackendOfOtherArithmetic) {
  EngineOptions on_cpu = seedling_options();
  on_cpu.context = 64;
  const Engine cpu = Engine::load(on_cpu);
  Journal undisturbed_journal;
  tell(failing_options({.function = "gemv", .backend = "failing_gemv"}, undisturbed_journal));
  const size_t n_calls = undisturbed_journal.n_calls();
  for (const size_t at : {size_t{1}, n_calls / 2, n_calls}) {
    SCOPED_TRACE("failure at gemv " + std::to_string(at));
    Journal journal;
    {
      const Engine engine =
          Engine::load(failing_options({.at = at, .function = "gemv", .backend = "failing_gemv"}, journal));
      Session session = engine.new_session();
      session.append("Once upon a time");
      EXPECT_NE(session.generate(greedy(kTokens)).stats.failed_over, "");
      Session judge = cpu.new_session();
      judge.append_tokens(session.tokens());
      EXPECT_EQ(session.logits(), judge.logits());
    }
    journal.expect_nothing_left();
  }
}

// Cancelled while the CPU takes over, a session keeps what it has and goes on later.
TEST(FailOverCancelled, TheSessionGoesOnLater) {
  Journal journal;
  {
    EngineOptions options = failing_options({.at = 5, .status = "lost", .function = "forward_wait"}, journal);
    std::stop_source stop;
    options.log = [&](LogLevel level, std::string_view line) {
      journal.add(level, line);
      if (level == LogLevel::kWarning) stop.request_stop();
    };
    Session session = Engine::load(options).new_session();
    session.append("Once upon a time");
    GenerateOptions cancelled = greedy(kTokens);
    cancelled.cancel = stop.get_token();
    const Generation first = session.generate(cancelled);
    EXPECT_EQ(first.finish, FinishReason::kCancelled);
    EXPECT_EQ(first.tokens.size(), 4u);
    EXPECT_NE(first.stats.failed_over, "");
    const Generation nothing = session.generate(cancelled);
    EXPECT_EQ(nothing.finish, FinishReason::kCancelled);
    EXPECT_EQ(nothing.stats.prompt_tokens, 0u);
    const Generation rest = session.generate(greedy(kTokens - 4));
    EXPECT_EQ(rest.stats.prompt_tokens, 9u);
    EXPECT_EQ(golden_greedy().text.rfind("Once upon a time" + first.text + rest.text, 0), 0u);
  }
  journal.expect_nothing_left();
}

TEST(FailOverRefused, WhereTheBackendIsAskedForStrictly) {
  for (const char *function : {"device_open", "weight_upload", "session_create", "forward_submit", "forward_wait"}) {
    SCOPED_TRACE(function);
    Journal journal;
    EngineOptions options = failing_options({.at = 1, .status = "lost", .function = function}, journal);
    options.backend_strict = true;
    const Thrown thrown = thrown_by([&] { tell(options); });
    EXPECT_EQ(thrown.kind, ErrorKind::kBackend);
    EXPECT_NE(thrown.message.find("failing: injected into " + std::string(function) + " (device lost)"),
              std::string::npos)
        << thrown.message;
    journal.expect_nothing_left();
    EXPECT_EQ(journal.warnings().size(), 0u);
  }
}

TEST(FailOverRefused, AgainAndAgainAndTheLostDeviceIsLeftAlone) {
  Journal journal;
  {
    EngineOptions options = failing_options({.at = 3, .status = "lost", .function = "forward_wait"}, journal);
    options.backend_strict = true;
    const Engine engine = Engine::load(options);
    Session session = engine.new_session();
    session.append("Once upon a time");
    std::string streamed;
    const auto generate = [&] {
      session.generate(greedy(kTokens), [&](std::string_view text) {
        streamed += text;
        return true;
      });
    };
    const std::string expected =
        "failing: injected into forward_wait (device lost); the CPU may not take over from a strictly chosen backend";
    EXPECT_EQ(thrown_by(generate).message, expected);
    EXPECT_EQ(thrown_by(generate).message, expected);
    EXPECT_EQ(session.length(), 7u);  // what was said stays
    EXPECT_EQ(golden_greedy().text.rfind("Once upon a time" + streamed, 0), 0u);
    EXPECT_EQ(thrown_by([&] { engine.new_session(); }).message, expected);
    EXPECT_EQ(engine.backend().name, "failing");
  }
  journal.expect_nothing_left();
}

// The failing backend is not sent it, and would be in the middle of a text before anybody noticed.
TEST(FailOverRefused, AtTheStartWhereTheCpuWouldRefuseItsOptions) {
  Journal journal;
  EngineOptions options = failing_options({.at = 3, .function = "forward_wait"}, journal);
  options.backend_options.emplace_back("cpu.isa", "abacus");
  const Thrown thrown = thrown_by([&] { Engine::load(options); });
  EXPECT_EQ(thrown.kind, ErrorKind::kInvalidArgument);
  EXPECT_TRUE(thrown.message.starts_with("cpu: cpu.isa is 'abacus': ")) << thrown.message;
  options.backend_strict = true;
  EXPECT_EQ(Engine::load(options).backend().name, "failing") << "the CPU never takes over";
  journal.expect_nothing_left();
}

TEST(FailOverRefused, WhereTheCpuFailsToo) {
  Journal journal;
  {
    const test::FakeDirectory directory;
    directory.add("cpu_open_fails", "cpu");
    setenv("BONSAI_BACKEND_PATH", directory.text().c_str(), 1);
    Session session = Engine::load(failing_options({.at = 3, .function = "forward_wait"}, journal)).new_session();
    unsetenv("BONSAI_BACKEND_PATH");
    session.append("Once upon a time");
    const Thrown thrown = thrown_by([&] { session.generate(greedy(kTokens)); });
    EXPECT_EQ(thrown.kind, ErrorKind::kBackend);
    EXPECT_EQ(
        thrown.message.rfind("failing: injected into forward_wait (internal error); the CPU could not take over: ", 0),
        0u)
        << thrown.message;
    EXPECT_NE(thrown.message.find("the device has 2 GB"), std::string::npos) << thrown.message;
    // The device was not lost: it may serve the session again.
    EXPECT_EQ(session.generate(greedy(kTokens - 3)).stats.failed_over, "");
  }
  journal.expect_nothing_left();
}

}  // namespace
}  // namespace bonsai
