// Promise: where memory runs out, a call says so and nothing else happens. Here the allocations of a thread can fail.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <new>
#include <thread>

#include "tests/host/c_api/handles.h"

namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();
thread_local size_t allocations_left = kNever;

}  // namespace

void *operator new(size_t size, const std::nothrow_t &) noexcept {
  if (allocations_left == 0) return nullptr;
  if (allocations_left != kNever) --allocations_left;
  return std::malloc(size == 0 ? 1 : size);
}
void *operator new(size_t size) {
  if (void *memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace bonsai::c {
namespace {

// Calls again and again, with one allocation more that succeeds, until the call has enough.
template <class Call>
void expect_no_memory_until_enough(Call call) {
  size_t n = 0;
  for (bool enough = false; !enough && n < 100'000; ++n) {
    bonsai_failure failure = {.struct_size = sizeof failure, .outcome = 99, .message = ""};
    allocations_left = n;
    const bonsai_outcome outcome = call(&failure);
    allocations_left = kNever;
    enough = outcome == BONSAI_SUCCESS;
    ASSERT_TRUE(enough || outcome == BONSAI_NO_MEMORY) << n << ": " << outcome << ", " << failure.message;
    ASSERT_STREQ(failure.message, enough ? "" : "out of memory") << n;
  }
  EXPECT_GT(n, 1u);
}

TEST(CMemory, MayRunOutInEveryCallOfAnEngine) {
  const EngineHandle engine = load();
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    uint64_t n = 0;
    return bonsai_engine_tokenize(engine.get(), "Once upon a time", BONSAI_TO_NUL, 1, nullptr, 0, &n, failure);
  });
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    bonsai_engine_session *session = nullptr;
    const bonsai_outcome outcome = bonsai_session_new(engine.get(), &session, failure);
    bonsai_session_free(session);
    return outcome;
  });
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    bonsai_chat *chat = nullptr;
    const bonsai_outcome outcome = bonsai_chat_new(engine.get(), nullptr, &chat, failure);
    bonsai_chat_free(chat);
    return outcome;
  });
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    bonsai_batch_engine *batch = nullptr;
    const bonsai_outcome outcome = bonsai_batch_new(engine.get(), nullptr, &batch, failure);
    bonsai_batch_free(batch);
    return outcome;
  });
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    std::array<float, 1024> vector;
    return bonsai_engine_embed(engine.get(), "Once", BONSAI_TO_NUL, BONSAI_POOLING_MEAN, vector.data(), vector.size(),
                               failure);
  });
  allocations_left = 0;
  bonsai_stop *const stop = bonsai_stop_new();
  allocations_left = kNever;
  EXPECT_EQ(stop, nullptr);
}

TEST(CMemory, MayRunOutWhileATextIsMade) {
  const EngineHandle engine = load();
  const SessionHandle session = new_session(engine);
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    return bonsai_session_append(session.get(), "Once upon a time", BONSAI_TO_NUL, failure);
  });
  EXPECT_EQ(bonsai_session_length(session.get()), 5u);
  const bonsai_generate_options options = greedily(8);
  std::string text;
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    const bonsai_generation *generation = nullptr;
    const bonsai_outcome outcome = bonsai_engine_generate(engine.get(), "Once upon a time", BONSAI_TO_NUL, &options,
                                                          nullptr, nullptr, &generation, failure);
    EXPECT_EQ(generation == nullptr, outcome != BONSAI_SUCCESS);
    allocations_left = kNever;
    if (generation != nullptr) text = generation->text;
    bonsai_generation_free(generation);
    return outcome;
  });
  EXPECT_EQ(text, ", in the middle of the forest,");
}

TEST(CMemory, MayRunOutWhereTextsAreStartedInABatch) {
  const EngineHandle engine = load();
  const BatchHandle batch = new_batch(engine);
  const bonsai_generate_options options = greedily(8);
  const char *const prompts[] = {"Once upon a time", "The King"};
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    std::array<const bonsai_generation *, 2> generations;
    const bonsai_outcome outcome =
        bonsai_batch_generate(batch.get(), prompts, 2, &options, generations.data(), failure);
    allocations_left = kNever;
    for (const bonsai_generation *generation : generations) {
      EXPECT_EQ(generation == nullptr, outcome != BONSAI_SUCCESS);
      bonsai_generation_free(generation);
    }
    return outcome;
  });
  // Every one that was started tells of its end, and no other.
  std::atomic<int> n_ended = 0;
  int n_started = 0;
  expect_no_memory_until_enough([&](bonsai_failure *failure) {
    const auto done = [](void *context, const bonsai_generation *generation, const bonsai_failure *) {
      bonsai_generation_free(generation);
      ++*static_cast<std::atomic<int> *>(context);
    };
    const bonsai_outcome outcome =
        bonsai_batch_start(batch.get(), "Once upon a time", BONSAI_TO_NUL, &options, nullptr, done, &n_ended, failure);
    if (outcome == BONSAI_SUCCESS) ++n_started;
    return outcome;
  });
  allocations_left = kNever;
  while (describe(batch).running + describe(batch).waiting > 0) std::this_thread::yield();
  EXPECT_EQ(n_started, 1);
  while (n_ended < n_started) std::this_thread::yield();
  EXPECT_EQ(n_ended, 1);
}

}  // namespace
}  // namespace bonsai::c
