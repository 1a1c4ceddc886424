// The end of an engine that is still at work: requests are cancelled, callbacks may use it until then, and no thread
// stays behind.
#include <bonsai/batch_engine.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <future>
#include <iterator>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/host/engine/seedling.h"

namespace bonsai {
namespace {

std::ptrdiff_t n_threads() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return std::distance(begin(threads), end(threads));
}

// Waits until this process has so many threads again: those that end by themselves have ended.
void wait_for_threads(std::ptrdiff_t n) {
  for (int ms = 0; ms < 10'000 && n_threads() > n; ++ms) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_LE(n_threads(), n);
}

// Two requests that run and one that waits, whose callbacks use their engine all the time.
class Busy {
 public:
  explicit Busy(BatchEngine &batch) : batch_(batch) {
    const auto callback = [this](std::string_view) { return use(); };
    const auto done = [this](Generation generation, std::exception_ptr) {
      use();
      n_cancelled_ += generation.finish == FinishReason::kCancelled;
      refused_ = thrown_by([&] { batch_.start_tokens(kPrompt, greedy(1), {}, {}); });
    };
    GenerateOptions endless = greedy(1000);
    endless.ignore_eos = true;
    for (int i = 0; i < 3; ++i) batch.start_tokens(kPrompt, endless, callback, done);
    while (batch.stats().steps < 3) std::this_thread::yield();
    is_ending_ = true;
  }

  void expect_all_cancelled() const {
    EXPECT_EQ(n_cancelled_, 3);
    EXPECT_EQ(refused_.kind, ErrorKind::kInvalidArgument);
    EXPECT_EQ(refused_.message, "the batch engine is being destroyed: it takes no more requests");
  }

 private:
  bool use() {
    if (is_ending_) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // until the destructor waits
    EXPECT_GT(batch_.stats().kv_blocks, 0u);
    return true;
  }

  inline static const std::vector<int32_t> kPrompt = {1, 2, 3};
  BatchEngine &batch_;
  std::atomic<bool> is_ending_ = false;
  int n_cancelled_ = 0;
  Thrown refused_;
};

TEST(BatchEngine, MayBeUsedByCallbacksUntilItIsDestroyed) {
  const Engine engine = load_seedling();
  auto batch = std::make_unique<BatchEngine>(engine, BatchOptions{.max_sequences = 2});
  const Busy busy(*batch);
  batch.reset();
  busy.expect_all_cancelled();
}

TEST(BatchEngine, MayBeUsedByCallbacksUntilAnotherTakesItsPlace) {
  const Engine engine = load_seedling();
  BatchEngine batch(engine, {.max_sequences = 2});
  const Busy busy(batch);
  batch = BatchEngine(engine);
  busy.expect_all_cancelled();
  EXPECT_EQ(batch.submit("The wolf", greedy(5)).get().tokens.size(), 5u);
}

TEST(BatchEngine, MayBeDestroyedByACallback) {
  std::ptrdiff_t n = 0;
  {
    const Engine engine = load_seedling();
    engine.generate("Once", greedy(2));  // the backend's threads are there now
    n = n_threads();
    auto batch = std::make_unique<BatchEngine>(engine);
    std::promise<void> submitted;
    const auto callback = [&, waited = submitted.get_future().share()](std::string_view) {
      waited.wait();
      batch.reset();
      return true;
    };
    auto result = batch->submit("Once upon a time", greedy(50), callback), other = batch->submit("The wolf");
    submitted.set_value();
    EXPECT_EQ(result.get().finish, FinishReason::kCancelled);
    EXPECT_EQ(other.get().finish, FinishReason::kCancelled);
    EXPECT_EQ(batch, nullptr);
  }
  wait_for_threads(n);
}

// What a callback holds is gone when its result is there, the engine itself if that is it.
TEST(BatchEngine, MayBeDestroyedWithACallback) {
  std::ptrdiff_t n = 0;
  {
    const Engine engine = load_seedling();
    engine.generate("Once", greedy(2));  // the backend's threads are there now
    n = n_threads();
    auto batch = std::make_shared<BatchEngine>(engine);
    const std::weak_ptr<BatchEngine> left = batch;
    std::promise<void> released;
    auto result =
        batch->submit("Once upon a time", greedy(5), [batch, waited = released.get_future().share()](std::string_view) {
          waited.wait();
          return batch != nullptr;
        });
    batch.reset();
    released.set_value();
    EXPECT_EQ(result.get().finish, FinishReason::kLength);
    EXPECT_TRUE(left.expired());
  }
  wait_for_threads(n);
}

}  // namespace
}  // namespace bonsai
