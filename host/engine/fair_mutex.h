// A lock that is given in the order in which it was asked for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace bonsai::host {

// With std::mutex, a thread that takes it again and again, for seconds each, may keep all others out.
class FairMutex {
 public:
  void lock() {
    std::unique_lock guard(mutex_);
    const uint64_t turn = n_asked_++;
    is_next_.wait(guard, [&] { return turn == n_done_; });
  }

  void unlock() {
    {
      const std::lock_guard guard(mutex_);
      ++n_done_;
    }
    is_next_.notify_all();
  }

  // Times that it was asked for: how a test knows who waits.
  uint64_t n_asked() {
    const std::lock_guard guard(mutex_);
    return n_asked_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable is_next_;
  uint64_t n_asked_ = 0, n_done_ = 0;
};

}  // namespace bonsai::host
