#include "host/bench/handover.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace bonsai::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Reading the clock takes about as long as a round.
constexpr size_t kSamples = 64, kRounds = 16;

// A new thread begins on any core, perhaps the caller's: the system needs a moment to spread the two.
constexpr auto kWarmUp = std::chrono::milliseconds(10);

// A cache line that goes to another thread and back.
class Ball {
 public:
  Ball() : other_([this] { play(); }) {}
  ~Ball() { set(kOver); }

  void round() {
    set(round_ + 1);
    await(round_ + 2);
    round_ += 2;
  }

 private:
  static constexpr uint64_t kOver = UINT64_MAX;

  void play() {
    for (uint64_t round = 0; await(round + 1); round += 2) set(round + 2);
  }

  // At once: what is only released may lie in the core's store buffer for a while.
  void set(uint64_t number) { number_.store(number, std::memory_order_seq_cst); }

  // Whether it came to that. Yields after a while, for where both threads have one core.
  bool await(uint64_t number) const {
    constexpr uint32_t kPatience = 1 << 14;
    for (uint32_t looks = 1;; ++looks) {
      const uint64_t found = number_.load(std::memory_order_acquire);
      if (found == number || found == kOver) return found == number;
      if (looks % kPatience == 0) std::this_thread::yield();
    }
  }

  static constexpr size_t kTwoLines = 128;  // which are often fetched as a pair
  alignas(kTwoLines) std::atomic<uint64_t> number_ = 0;
  alignas(kTwoLines) uint64_t round_ = 0;
  std::jthread other_;
};

double measure_once() {
  Ball ball;
  for (const auto begin = Clock::now(); Clock::now() - begin < kWarmUp;) ball.round();
  std::array<double, kSamples> seconds;
  for (double &sample : seconds) {
    const auto begin = Clock::now();
    for (size_t i = 0; i < kRounds; ++i) ball.round();
    sample = std::chrono::duration<double>(Clock::now() - begin).count() / (2 * kRounds);
  }
  std::ranges::nth_element(seconds, seconds.begin() + kSamples / 2);
  return seconds[kSamples / 2];
}

}  // namespace

double measure_handover() {
  constexpr int kTries = 8;
  constexpr double kOnOneCore = 2e-6;  // no two cores of a machine are so far apart
  double seconds = measure_once();
  for (int i = 1; i < kTries && seconds > kOnOneCore; ++i) seconds = std::min(seconds, measure_once());
  return seconds;
}

}  // namespace bonsai::bench
