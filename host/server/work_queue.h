// Work that takes its time, done by threads of its own and first come, first served.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

namespace bonsai::server {

class WorkQueue {
 public:
  using Work = std::function<void()>;  // throws nothing

  // At most `most_waiting` pieces wait. Throws std::system_error where a thread cannot be started, and says with
  // `purpose`, "that writes answers", which.
  WorkQueue(const char *purpose, size_t n_threads, size_t most_waiting);
  // What waits is dropped; what has begun is waited for.
  ~WorkQueue();
  WorkQueue(const WorkQueue &) = delete;
  WorkQueue &operator=(const WorkQueue &) = delete;

  // False, and nothing happens, where too much waits already.
  bool try_push(Work work);

 private:
  void serve(const std::stop_token &stop);

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Work> waiting_;
  std::vector<std::jthread> threads_;  // end first
};

}  // namespace bonsai::server
