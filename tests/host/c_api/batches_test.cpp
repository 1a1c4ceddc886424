// Many texts at once through the C API: they say what they say alone, and every end is told.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "tests/host/c_api/batch_text.h"
#include "tests/host/c_api/handles.h"

namespace bonsai::c {
namespace {

void start(const BatchHandle &batch, const std::string &prompt, const bonsai_generate_options &options, Text &text) {
  succeed([&](auto failure) {
    return bonsai_batch_start(batch.get(), prompt.data(), prompt.size(), &options, Text::receive, Text::done, &text,
                              failure);
  });
}

TEST(CBatch, SaysWhatTheEngineSays) {
  const EngineHandle engine = load();
  const BatchHandle batch = new_batch(engine);
  const char *const prompts[] = {kPrompt, "The King said", "In the forest there lived"};
  Text texts[3];
  for (int i = 0; i < 3; ++i) start(batch, prompts[i], greedily(40), texts[i]);
  for (int i = 0; i < 3; ++i) {
    const GenerationHandle alone = generate(engine, prompts[i], greedily(40));
    const GenerationHandle &generation = texts[i].wait();
    ASSERT_NE(generation, nullptr);
    EXPECT_EQ(text_of(generation), text_of(alone));
    EXPECT_EQ(tokens_of(generation), tokens_of(alone));
    EXPECT_EQ(texts[i].said(), text_of(alone));
    EXPECT_EQ(generation->finish, uint32_t{BONSAI_FINISH_LENGTH});
  }
}

TEST(CBatch, OutlivesItsEngineAndTakesTokens) {
  EngineHandle engine = load();
  const std::string expected = text_of(generate(engine, kPrompt, greedily(20)));
  std::vector<int32_t> tokens(16);
  uint64_t n = 0;
  succeed([&](auto failure) {
    return bonsai_engine_tokenize(engine.get(), kPrompt, BONSAI_TO_NUL, 1, tokens.data(), tokens.size(), &n, failure);
  });
  tokens.resize(n);
  const SessionHandle session = new_session(engine, kPrompt);
  std::vector<int32_t> with_bos(bonsai_session_length(session.get()));
  succeed([&](auto failure) {
    return bonsai_session_tokens(session.get(), with_bos.data(), with_bos.size(), &n, failure);
  });
  ASSERT_EQ(with_bos.size(), tokens.size() + 1);
  const BatchHandle batch = new_batch(engine);
  engine.reset();
  const bonsai_generate_options options = greedily(20);
  Text text;
  succeed([&](auto failure) {
    return bonsai_batch_start_tokens(batch.get(), with_bos.data(), with_bos.size(), &options, Text::receive, Text::done,
                                     &text, failure);
  });
  EXPECT_EQ(text_of(text.wait()), expected);
}

TEST(CBatch, ContinuesAListOfPrompts) {
  const EngineHandle engine = load();
  bonsai_batch_options batch_options = c::batch_options();
  batch_options.max_sequences = 2;
  const BatchHandle batch = new_batch(engine, &batch_options);
  const char *const prompts[] = {kPrompt, "The King said", kPrompt, "A fox", "The Queen"};
  const bonsai_generate_options options = greedily(12);
  const bonsai_generation *generations[5];
  succeed([&](auto failure) { return bonsai_batch_generate(batch.get(), prompts, 5, &options, generations, failure); });
  for (int i = 0; i < 5; ++i) {
    const GenerationHandle generation(generations[i]);
    EXPECT_EQ(text_of(generation), text_of(generate(engine, prompts[i], options))) << prompts[i];
  }
  EXPECT_EQ(bonsai_batch_generate(batch.get(), nullptr, 0, nullptr, nullptr, nullptr), uint32_t{BONSAI_SUCCESS});
}

// Where one prompt cannot be taken, none is, and nothing is handed out.
TEST(CBatch, AListIsTakenWholeOrNotAtAll) {
  const EngineHandle engine = load();
  const BatchHandle batch = new_batch(engine);
  const GenerationHandle other = generate(engine, kPrompt, greedily(1));
  const bonsai_generate_options options = greedily(12);
  const char *const prompts[] = {kPrompt, "not\xffUTF-8"};
  const bonsai_generation *generations[] = {other.get(), other.get()};
  const Report report = report_of(
      [&](auto failure) { return bonsai_batch_generate(batch.get(), prompts, 2, &options, generations, failure); });
  EXPECT_EQ(report.outcome, uint32_t{BONSAI_BAD_ARGUMENT});
  EXPECT_NE(report.message.find("UTF-8"), std::string::npos) << report.message;
  EXPECT_EQ(generations[0], nullptr);
  EXPECT_EQ(generations[1], nullptr);
  EXPECT_EQ(describe(batch).steps, 0u);
}

TEST(CBatch, ARequestThatIsRefusedTellsNoEnd) {
  const EngineHandle engine = load();
  const BatchHandle batch = new_batch(engine);
  Text text;
  bonsai_generate_options options = greedily(0);
  const auto ask = [&](auto failure) {
    return bonsai_batch_start(batch.get(), kPrompt, BONSAI_TO_NUL, &options, Text::receive, Text::done, &text, failure);
  };
  expect_failure(BONSAI_BAD_ARGUMENT, "max_tokens: expected at least 1, found 0", ask);
  options = greedily(1);
  options.reserved = 3;
  expect_failure(BONSAI_BAD_ARGUMENT, "reserved: expected 0, found 3", ask);
  const std::vector<int32_t> too_many(1024, 7);
  const Report report = report_of([&](auto failure) {
    return bonsai_batch_start_tokens(batch.get(), too_many.data(), too_many.size(), nullptr, nullptr, Text::done, &text,
                                     failure);
  });
  EXPECT_EQ(report.outcome, uint32_t{BONSAI_CONTEXT_FULL}) << report.message;
  EXPECT_FALSE(text.has_ended());
}

TEST(CBatch, ItsOptionsAreThoseOfTheCxxApi) {
  const BatchOptions expected;
  bonsai_batch_options options = batch_options();
  EXPECT_EQ(options.max_sequences, expected.max_sequences);
  EXPECT_EQ(options.batch_tokens, expected.batch_tokens);
  EXPECT_EQ(options.kv_tokens, expected.kv_tokens);
  EXPECT_EQ(options.share_prefixes, 1u);
  const EngineHandle engine = load();
  options.max_sequences = 0;
  bonsai_batch_engine *batch = nullptr;
  expect_failure(BONSAI_BAD_ARGUMENT, "max_sequences: expected at least 1, found 0",
                 [&](auto failure) { return bonsai_batch_new(engine.get(), &options, &batch, failure); });
  options = batch_options();
  options.kv_tokens = 64;
  EXPECT_EQ(describe(new_batch(engine, &options)).context, 64u);
}

TEST(CBatch, SharesWhatPromptsHaveInCommonUnlessItMayNot) {
  const EngineHandle engine = load();
  const std::string prompt =
      "Once upon a time there lived a King who had one son, and he was more beautiful than the other, and the King "
      "said "
      "to the Queen that nobody in all of the land was as fair as he was, nor as brave, nor half as merry in the "
      "morning";
  for (const uint32_t share : {0u, 1u}) {
    bonsai_batch_options options = batch_options();
    options.share_prefixes = share;
    const BatchHandle batch = new_batch(engine, &options);
    for (int i = 0; i < 2; ++i) {
      Text text;
      start(batch, prompt, greedily(2), text);
      ASSERT_NE(text.wait(), nullptr);
    }
    const bonsai_batch_info info = describe(batch);
    EXPECT_EQ(info.reused_tokens > 0, share == 1);
    EXPECT_GT(info.steps, 0u);
    EXPECT_GT(info.computed_tokens, 4u);
    EXPECT_EQ(info.running, 0u);
    EXPECT_EQ(info.waiting, 0u);
    EXPECT_EQ(info.preemptions, 0u);
    EXPECT_EQ(info.context, 1024u);
    EXPECT_GT(info.kv_blocks, 0u);
    EXPECT_EQ(info.kv_blocks, info.kv_blocks_free + info.kv_blocks_kept);
    EXPECT_EQ(info.kv_blocks_kept > 0, share == 1);
    EXPECT_GT(info.kv_block_tokens, 0u);
    EXPECT_GT(info.memory_bytes, 100'000u);
  }
}

TEST(CBatch, IsLeftByCallbackAndByStop) {
  const BatchHandle batch = new_batch(load());
  Text by_callback, by_stop;
  by_callback.end_at = 3;
  start(batch, kPrompt, greedily(48), by_callback);
  const StopHandle stop(bonsai_stop_new());
  bonsai_stop_request(stop.get());
  bonsai_generate_options options = greedily(48);
  options.stop = stop.get();
  start(batch, kPrompt, options, by_stop);
  EXPECT_EQ(by_callback.wait()->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(by_callback.said(), ", in the");
  EXPECT_EQ(by_stop.wait()->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(by_stop.said(), "");
}

// Waits for whoever may go on, so that what waits behind it is known to wait.
struct Gate {
  Text text;
  std::mutex mutex;
  std::condition_variable moved;
  bool is_reached = false, is_open = false;

  static int32_t receive(void *context, bonsai_piece, const char *, uint64_t) {
    Gate &gate = *static_cast<Gate *>(context);
    std::unique_lock lock(gate.mutex);
    gate.is_reached = true;
    gate.moved.notify_all();
    gate.moved.wait(lock, [&gate] { return gate.is_open; });
    return 0;
  }
  static void done(void *context, const bonsai_generation *generation, const bonsai_failure *failure) {
    Text::done(&static_cast<Gate *>(context)->text, generation, failure);
  }
  void wait_until_reached() {
    std::unique_lock lock(mutex);
    moved.wait(lock, [this] { return is_reached; });
  }
  void open() {
    const std::lock_guard lock(mutex);
    is_open = true;
    moved.notify_all();
  }
};

void start(const BatchHandle &batch, const bonsai_generate_options &options, Gate &gate) {
  succeed([&](auto failure) {
    return bonsai_batch_start(batch.get(), kPrompt, BONSAI_TO_NUL, &options, Gate::receive, Gate::done, &gate, failure);
  });
}

TEST(CBatch, AHigherPriorityGoesFirst) {
  bonsai_batch_options batch_options = c::batch_options();
  batch_options.max_sequences = 1;
  const BatchHandle batch = new_batch(load(), &batch_options);
  Gate gate;
  start(batch, greedily(2), gate);
  gate.wait_until_reached();
  struct Order {
    std::mutex mutex;
    std::string names;
    std::condition_variable grown;
  } order;
  struct Named {
    Order *order;
    char name;
    static void done(void *context, const bonsai_generation *generation, const bonsai_failure *) {
      const Named &named = *static_cast<Named *>(context);
      bonsai_generation_free(generation);
      const std::lock_guard lock(named.order->mutex);
      named.order->names += named.name;
      named.order->grown.notify_all();
    }
  } named[] = {{&order, 'a'}, {&order, 'b'}, {&order, 'c'}};
  const int32_t priorities[] = {-1, 0, 1};
  for (int i = 0; i < 3; ++i) {
    bonsai_generate_options options = greedily(2);
    options.priority = priorities[i];
    succeed([&](auto failure) {
      return bonsai_batch_start(batch.get(), kPrompt, BONSAI_TO_NUL, &options, nullptr, Named::done, &named[i],
                                failure);
    });
  }
  gate.open();
  std::unique_lock lock(order.mutex);
  order.grown.wait(lock, [&order] { return order.names.size() == 3; });
  EXPECT_EQ(order.names, "cba");
}

TEST(CBatch, TellsOfABackendThatFails) {
  const char *const backend_options[] = {"fail.at=3", "fail.status=internal", "fail.function=forward_wait"};
  bonsai_engine_options engine_options = seedling();
  engine_options.backend = BONSAI_BINARY_DIR "/tests/backends/libbonsai_failing.so";
  engine_options.n_backend_options = 3;
  engine_options.backend_options = backend_options;
  engine_options.backend_strict = 1;
  const BatchHandle batch = new_batch(load(engine_options));
  Text text;
  start(batch, kPrompt, greedily(40), text);
  EXPECT_EQ(text.wait(), nullptr);
  ASSERT_TRUE(text.report());
  EXPECT_EQ(text.report()->outcome, uint32_t{BONSAI_BACKEND_FAILED});
  EXPECT_NE(text.report()->message.find("injected into forward_wait"), std::string::npos) << text.report()->message;
}

TEST(CBatch, ItsTextsEndWithIt) {
  BatchHandle batch = new_batch(load());
  Gate gate;
  Text waiting;
  start(batch, greedily(500), gate);
  start(batch, kPrompt, greedily(500), waiting);
  gate.wait_until_reached();
  std::thread opener([&gate] { gate.open(); });
  batch.reset();
  opener.join();
  EXPECT_TRUE(gate.text.has_ended());
  EXPECT_TRUE(waiting.has_ended());
  EXPECT_EQ(gate.text.wait()->finish, uint32_t{BONSAI_FINISH_CANCELLED});
  EXPECT_EQ(waiting.wait()->finish, uint32_t{BONSAI_FINISH_CANCELLED});
}

// A text that starts the next one, until there are enough, and then frees the batch.
struct Chain {
  bonsai_batch_engine *batch;
  int n_left;
  std::string all = {};
  std::mutex mutex = {};
  std::condition_variable end = {};
  bool has_ended = false;

  static void done(void *context, const bonsai_generation *generation, const bonsai_failure *failure) {
    Chain &chain = *static_cast<Chain *>(context);
    ASSERT_NE(generation, nullptr) << failure->message;
    chain.all.append(generation->text, generation->n_bytes).append("|");
    bonsai_generation_free(generation);
    if (chain.n_left-- > 0) return chain.go_on();
    bonsai_batch_free(chain.batch);
    const std::lock_guard lock(chain.mutex);
    chain.has_ended = true;
    chain.end.notify_all();
  }
  void go_on() {
    const bonsai_generate_options options = greedily(3);
    succeed([&](auto failure) {
      return bonsai_batch_start(batch, kPrompt, BONSAI_TO_NUL, &options, nullptr, Chain::done, this, failure);
    });
  }
};

TEST(CBatch, MayBeUsedAndFreedByItsCallbacks) {
  Chain chain = {.batch = new_batch(load()).release(), .n_left = 2};
  chain.go_on();
  std::unique_lock lock(chain.mutex);
  chain.end.wait(lock, [&chain] { return chain.has_ended; });
  EXPECT_EQ(chain.all, ", in the|, in the|, in the|");
}

// It would wait for a text that waits for it, and the batch would never do anything again.
TEST(CBatchRefuses, ToWaitInItsOwnCallback) {
  const BatchHandle batch = new_batch(load());
  struct Waiting {
    bonsai_batch_engine *batch;
    Text text = {};
    Report report = {};

    static void done(void *context, const bonsai_generation *generation, const bonsai_failure *failure) {
      Waiting &waiting = *static_cast<Waiting *>(context);
      const bonsai_generate_options options = greedily(1);
      const bonsai_generation *made = generation;
      waiting.report =
          report_of([&](auto why) { return bonsai_batch_generate(waiting.batch, &kPrompt, 1, &options, &made, why); });
      EXPECT_EQ(made, nullptr);
      Text::done(&waiting.text, generation, failure);
    }
  } waiting = {.batch = batch.get()};
  const bonsai_generate_options options = greedily(2);
  succeed([&](auto failure) {
    return bonsai_batch_start(batch.get(), kPrompt, BONSAI_TO_NUL, &options, nullptr, Waiting::done, &waiting, failure);
  });
  ASSERT_NE(waiting.text.wait(), nullptr);
  EXPECT_EQ(waiting.report.outcome, uint32_t{BONSAI_BAD_ARGUMENT});
  EXPECT_EQ(waiting.report.message,
            "a callback of a batch may start texts, but not wait for them: all of them wait for it");
}

TEST(CBatch, ManyThreadsMayUseOne) {
  const EngineHandle engine = load();
  const BatchHandle batch = new_batch(engine);
  const std::string expected = text_of(generate(engine, "The King said", greedily(24)));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Text text;
      start(batch, "The King said", greedily(24), text);
      EXPECT_EQ(text_of(text.wait()), expected);
    });
  for (std::thread &thread : threads) thread.join();
}

}  // namespace
}  // namespace bonsai::c
