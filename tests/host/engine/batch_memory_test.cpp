// Promises: where memory runs out on a batch engine's thread, the requests end with that, and it serves the next ones;
// and a step takes none for those that wait. Here the allocations of that thread are counted, and can fail.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <future>
#include <limits>
#include <new>
#include <stop_token>
#include <vector>

#include "tests/host/engine/seedling.h"

namespace {

constexpr size_t kNever = std::numeric_limits<size_t>::max();
std::atomic<size_t> allocations_left = kNever;  // of threads that are limited
std::atomic<bool> fails_once = false;
thread_local bool is_limited = false;
thread_local size_t allocated_bytes = 0;

bool may_allocate() {
  if (!is_limited || allocations_left == kNever) return true;
  if (allocations_left > 0) {
    --allocations_left;
    return true;
  }
  if (fails_once) allocations_left = kNever;
  return false;
}

}  // namespace

void *operator new(size_t size, const std::nothrow_t &) noexcept {
  allocated_bytes += size;
  return may_allocate() ? std::malloc(size == 0 ? 1 : size) : nullptr;
}
void *operator new(size_t size) {
  if (void *memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace bonsai {
namespace {

// With all that allocates: logits that come whole, a grammar's mask, guesses.
std::vector<GenerateOptions> all_options() {
  GenerateOptions whole = greedy(6), constrained = greedy(6), guessing = greedy(6);
  whole.logprobs = 2;
  constrained.grammar = "root ::= [a-z ]+";
  guessing.lookup = true;
  return {whole, constrained, guessing};
}

std::vector<std::future<Generation>> submit_all(BatchEngine &batch) {
  std::vector<std::future<Generation>> results;
  for (const GenerateOptions &options : all_options())
    results.push_back(batch.submit("the King said to the King said to the King", options));
  return results;
}

// One allocation more succeeds in every round, until there are enough: all further ones fail, or the next one only.
class BatchMemory : public testing::TestWithParam<bool> {};

TEST_P(BatchMemory, MayRunOutAtAnyTime) {
  fails_once = GetParam();
  EngineOptions options = seedling_options();
  options.backend = "cpu";
  options.threads = 1;
  const Engine engine = Engine::load(options);
  BatchEngine batch(engine, {.max_sequences = 4, .kv_tokens = 512});
  batch.submit("Once", greedy(1), [](std::string_view) { return is_limited = true; }).get();
  std::vector<std::string> expected;
  for (auto &result : submit_all(batch)) expected.push_back(result.get().text);

  bool enough = false;
  size_t n = 0;
  for (; !enough && n < 20'000; n += n < 300 ? 1 : 17) {
    allocations_left = n;
    auto results = submit_all(batch);
    enough = true;
    for (size_t i = 0; i < results.size(); ++i) {
      try {
        EXPECT_EQ(results[i].get().text, expected[i]) << n;
      } catch (const std::bad_alloc &) {
        enough = false;
      } catch (const EngineError &error) {  // of the backend's
        enough = false;
        EXPECT_EQ(error.kind(), ErrorKind::kBackend) << n << ": " << error.what();
      }
    }
    allocations_left = kNever;
    const BatchStats stats = batch.stats();
    EXPECT_EQ(stats.running + stats.waiting, 0u) << n;
    ASSERT_EQ(stats.kv_blocks_free + stats.kv_blocks_kept, stats.kv_blocks) << n;
  }
  EXPECT_TRUE(enough);
  EXPECT_GT(n, 100u);
  auto results = submit_all(batch);
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].get().text, expected[i]);
}

INSTANTIATE_TEST_SUITE_P(Once, BatchMemory, testing::Values(true));
INSTANTIATE_TEST_SUITE_P(ForGood, BatchMemory, testing::Values(false));

// Between two pieces of a text, while others wait for its place.
size_t least_bytes_of_a_step(const Engine &engine, size_t n_waiting) {
  BatchEngine batch(engine, {.max_sequences = 1});
  std::promise<void> all_there;
  size_t n = 0, before = 0, least = std::numeric_limits<size_t>::max();
  GenerateOptions options = greedy(100);
  options.ignore_eos = true;
  auto running = batch.submit("Once", options, [&, waited = all_there.get_future().share()](std::string_view) {
    waited.wait();
    if (++n > 2) least = std::min(least, allocated_bytes - before);  // those that wait have been taken in
    before = allocated_bytes;
    return n < 20;
  });
  std::stop_source stop;
  options.cancel = stop.get_token();
  std::vector<std::future<Generation>> waiting;
  for (size_t i = 0; i < n_waiting; ++i) waiting.push_back(batch.submit("The wolf", options));
  all_there.set_value();
  running.get();
  stop.request_stop();
  for (auto &result : waiting) result.get();
  return least;
}

TEST(BatchSteps, TakeNoMemoryForThoseThatWait) {
  const Engine engine = load_seedling();
  EXPECT_EQ(least_bytes_of_a_step(engine, 2000), least_bytes_of_a_step(engine, 1));
}

}  // namespace
}  // namespace bonsai
